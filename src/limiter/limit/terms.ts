/** What the fields of a limit say of the requests that it counts. */
import { REQUESTS } from '../../ground/unit.js'
import type { Algorithm, Policy } from '../algorithm.js'
import { type Rate, toPolicy, toReservingPolicy } from '../rate.js'
import type { CountedStatuses } from './counted-statuses.js'
import { limitFields } from './limit-fields.js'

/** The parsed fields of a limit, whoever sends its requests. */
export interface Terms {
  readonly policy: Policy
  /** The statuses of the responses that count; null where every request counts. */
  readonly counts: CountedStatuses | null
  /** The part of the limit that a request uses. */
  readonly cost: number
  /** What the limit counts. */
  readonly unit: string
  /** How much of another unit than requests a request takes in advance. */
  readonly reserve: number
  /** The percentages of a window at which a client's use is told of; null where there are none. */
  readonly noticeAt: readonly number[] | null
  /** Whether over-limit requests are refused; otherwise they are only counted. */
  readonly block: boolean
}

/** The terms beside the policy. */
export type FurtherTerms = Omit<Terms, 'policy'>

const { rate: _rate, algorithm: _algorithm, key: _key, ...further } = limitFields('rule')
const FURTHER: { [Name in keyof typeof further]: { parse(value: unknown): FurtherTerms[Name]; default: unknown } } =
  further
const DEFAULTS = Object.entries(FURTHER).map(([name, field]) => [name, field.parse(field.default)] as const)

/** Returns the terms of a limit: the fields of `given` that are some, and the defaults of the others. */
export function toTerms(policy: Policy, given: Partial<FurtherTerms>): Terms {
  const terms = DEFAULTS.map(([name, standard]) => [name, Reflect.get(given, name) ?? standard])
  // The compiler cannot follow a loop over the table.
  return { policy, ...Object.fromEntries(terms) } as Terms
}

/**
 * Returns the policy of a limit. Where that counts what is charged later, refused checks take nothing.
 *
 * @throws InvalidRateError for a rate that the algorithm cannot count
 */
export function policyFor(rate: Rate, algorithm: Algorithm, unit: string): Policy {
  return unit === REQUESTS ? toPolicy(algorithm, rate) : toReservingPolicy(algorithm, rate)
}
