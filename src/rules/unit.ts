/** What a limit counts: requests, or what they turn out to have used, such as tokens or bytes. */

import { UNIT as NAME, parseUnit, REQUESTS } from '../ground/unit.js'
import { MAX_RESERVE } from '../limiter/cost.js'
import type { Field } from './description.js'
import { integerWithin } from './field-values.js'

const MAX_LENGTH = 30

/** Returns a unit that is allowed, with most letters of one that is not. */
function spellUnit(typed: string): string | undefined {
  const unit = typed.toLowerCase().replace(/[^a-z0-9_-]+/g, '-')
  return unit.replace(/^[^a-z]+|-+$/g, '').slice(0, MAX_LENGTH) || undefined
}

export const UNIT = {
  kind: 'text',
  default: REQUESTS,
  parse: parseUnit,
  tidy: (typed) => typed.trim().toLowerCase(),
  guess: spellUnit,
  schema: { maxLength: MAX_LENGTH, pattern: NAME.source },
  about: 'What the rate counts: requests, or a unit that the app charges, such as tokens.',
  help: 'What the rate counts: requests, or what a request turns out to have used, such as tokens or bytes, which the app charges: app.smartRateLimit.charge(request, { tokens: 1834 }).',
  panel: { title: 'Unit', group: 'Counting', input: 'text', example: 'tokens' },
} as const satisfies Field

export const RESERVE = {
  kind: 'integer',
  default: 0,
  parse: integerWithin(0, MAX_RESERVE),
  schema: { minimum: 0, maximum: MAX_RESERVE },
  about: 'How much of the unit a request takes in advance. With 0 it passes while anything is left.',
  help: 'How much of the unit a request takes in advance, until it is charged for what it used. With 0 it passes while anything is left. At most the count of the rate.',
  panel: { title: 'Reserve', group: 'Counting', input: 'number' },
} as const satisfies Field
