/** A condition that cannot be decided for a request. It is created when the condition is compiled, and thrown often. */
export class ConditionFailure extends Error {
  override readonly name: string = 'ConditionFailure'
}

/** A fact that is not known of a recorded request. */
export class UnknownFact extends Error {
  override readonly name = 'UnknownFact'
}

/** A request takes more work than one may make. It is refused: no condition, and no part of one, decides any more. */
export class TooMuchWork extends Error {
  override readonly name = 'TooMuchWork'
}

/**
 * Returns the error that an operator with several failing operands throws: an unknown fact may have decided it.
 *
 * @throws TooMuchWork at once
 */
export function weightier(first: unknown, second: unknown): unknown {
  if (second instanceof TooMuchWork) throw second
  return first === undefined || second instanceof UnknownFact ? second : first
}

/** The length of the text that a message quotes. */
const QUOTED = 20

/** The place of a part of a condition. */
export interface Place {
  readonly pos: number
  readonly input: string
}

/** Creates the error about a place, which is shown beside the field. */
export function errorAt({ pos, input }: Place, problem: string): Error {
  const before = input.slice(0, pos).split('\n')
  const column = `column ${(before.at(-1) ?? '').length + 1}`
  const line = input.includes('\n') ? `line ${before.length}, ${column}` : column
  const rest = (input.slice(pos).split('\n')[0] ?? '').trim()
  const quoted = rest.length > QUOTED ? `${rest.slice(0, QUOTED)}…` : rest
  return new Error(`at ${line} (${rest === '' ? 'the end' : quoted}): ${problem}`)
}
