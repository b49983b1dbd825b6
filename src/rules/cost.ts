import type { Field } from './description.js'
import { integerWithin } from './field-values.js'

const MAX_COST = 1_000_000

/** The part of its limit that a request of a rule uses. */
export const COST = {
  kind: 'integer',
  default: 1,
  parse: integerWithin(1, MAX_COST),
  schema: { minimum: 1, maximum: MAX_COST },
  about: 'The part of the limit that a request uses, times the cost of its route.',
  help: 'How much of the rate a request uses: with 10 and a rate of 100/m, ten requests a minute. At most the count of the rate.',
  panel: { title: 'Cost', group: 'Counting', input: 'number' },
} as const satisfies Field
