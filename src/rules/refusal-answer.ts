/** The answer to a refused request. */
import { type Field, integer, upTo } from '../ground/field.js'
import { validateStorable } from '../ground/storable.js'

export interface RefusalAnswer {
  /** The status of the answer, 400 to 599. */
  readonly statusCode: number
  /** The message, in which `{seconds}` stands for the wait; empty for the usual one. */
  readonly message: string
}

export const USUAL_ANSWER: RefusalAnswer = { statusCode: 429, message: '' }

const MIN_STATUS = 400
const MAX_STATUS = 599
const MAX_MESSAGE_LENGTH = 500

export const REFUSAL_STATUS = {
  ...integer(MIN_STATUS, MAX_STATUS),
  default: USUAL_ANSWER.statusCode,
  about: 'The status of the answer to a refused request.',
  help: 'The status of the answer to a refused request, 400 to 599. 429 is what clients expect.',
  panel: { title: 'Status', group: 'Refusal', input: 'number' },
} as const satisfies Field

export const REFUSAL_MESSAGE = {
  kind: 'text',
  default: USUAL_ANSWER.message,
  parse: upTo(MAX_MESSAGE_LENGTH, validateStorable),
  schema: { maxLength: MAX_MESSAGE_LENGTH },
  about: 'The message of a refusal; {seconds} stands for the wait, 0 where none helps. Empty: the usual one.',
  help: 'What the client reads. {seconds} stands for the wait, 0 where waiting does not help. Empty: "Rate limit exceeded, retry in 12 seconds".',
  panel: {
    title: 'Message',
    group: 'Refusal',
    input: 'text',
    example: 'The sale is busy: try again in {seconds} seconds',
  },
} as const satisfies Field
