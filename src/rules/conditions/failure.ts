import { shortened } from '../../ground/shortened.js'

/** A condition that cannot be decided for a request. */
export class ConditionFailure extends Error {
  override readonly name: string = 'ConditionFailure'
}

/** A request takes more work than one may make. It is refused: no condition, and no part of one, decides any more. */
export class TooMuchWork extends Error {
  override readonly name = 'TooMuchWork'
}

/** A condition reads a field that the request's user does not have. It is thrown often, and so created once. */
export const MISSING = new ConditionFailure('reads a field that the user does not have')

/** The length of the text that a message quotes. */
const QUOTED = 20

/** The beginning of a part of a condition. */
export interface Position {
  readonly pos: number
  readonly input: string
}

/** Creates the error about a part, which is shown beside the field. */
export function errorAt(position: Position, problem: string): Error {
  return new Error(describeAt(position, problem))
}

export function describeAt({ pos, input }: Position, problem: string): string {
  const before = input.slice(0, pos).split('\n')
  const column = `column ${(before.at(-1) ?? '').length + 1}`
  const line = input.includes('\n') ? `line ${before.length}, ${column}` : column
  const rest = (input.slice(pos).split('\n')[0] ?? '').trim()
  return `at ${line} (${rest === '' ? 'the end' : shortened(rest, QUOTED)}): ${problem}`
}
