import { SECOND_MS } from '../ground/time/clock.js'

/**
 * The limiter's words. A *policy* says how much is allowed, a *check* asks whether one more is, a *decision* is the
 * answer, and a *counter* is what a store keeps between two checks.
 */

/** The algorithms that count requests over time. */
export const RATE_ALGORITHMS = ['fixed_window', 'sliding_window', 'token_bucket', 'leaky_bucket'] as const

/** All algorithms: those, and the one that counts requests in progress. */
export const ALGORITHMS = [...RATE_ALGORITHMS, 'concurrency'] as const

export type RateAlgorithm = (typeof RATE_ALGORITHMS)[number]
export type Algorithm = (typeof ALGORITHMS)[number]

/** A limit and the period for which it is. */
export interface Window {
  /** The most that a client may use per period: 0 (refuses everything) to 2147483647. */
  readonly limit: number
  /** The period in milliseconds; `MONTH_MS` stands for a calendar month. */
  readonly periodMs: number
}

export interface NamedWindow extends Window {
  /** The period as it was written: `s`, `30s` or `month`. */
  readonly period: string
}

export interface Policy extends Window {
  readonly algorithm: Algorithm
  /**
   * All windows, where there are several, or where one is a calendar month. `limit` and `periodMs` are those of the
   * first one then. A check is allowed when every window allows it.
   */
  readonly windows?: readonly NamedWindow[]
  /**
   * Whether a refused check takes nothing, in fixed windows too; its `count` is then what stands, and its cost, at least 1.
   * Such a policy lists its windows, also where it has one.
   */
  readonly reserves?: boolean
}

/** A policy with one window that is no calendar month. */
export type PlainPolicy = Policy & { readonly windows?: never }

/** A policy that counts requests over time. */
export type RatePolicy = Policy & { readonly algorithm: RateAlgorithm }

/** @throws Error for another text */
export function validateAlgorithm(value: unknown): Algorithm {
  const algorithm = ALGORITHMS.find((each) => each === value)
  if (algorithm !== undefined) return algorithm
  throw new Error(`${JSON.stringify(value)} is not a valid algorithm: give ${ALGORITHMS.join(', ')}`)
}

/** Returns whether a policy counts requests over time; otherwise it counts requests in progress. */
export function isRate(policy: Policy): policy is RatePolicy {
  return policy.algorithm !== 'concurrency'
}

export function isPlain(policy: Policy): policy is PlainPolicy {
  return policy.windows === undefined
}

/** Returns whether a counter takes what it refuses, too. */
export function countsRefused({ algorithm, reserves }: Policy): boolean {
  return algorithm === 'fixed_window' && reserves !== true
}

/** Returns whether two policies decide alike. */
export function samePolicy(a: Policy, b: Policy): boolean {
  return (
    a.limit === b.limit &&
    samePeriods(a, b) &&
    a.algorithm === b.algorithm &&
    sameWindows(a, b) &&
    a.reserves === b.reserves
  )
}

/** Returns whether two policies have windows of the same periods, in the same order. */
export function samePeriods(a: Policy, b: Policy): boolean {
  if (a.windows === b.windows) return a.periodMs === b.periodMs
  return (
    a.windows?.length === b.windows?.length &&
    a.windows?.every(({ periodMs }, index) => periodMs === b.windows?.[index]?.periodMs) === true
  )
}

function sameWindows(a: Policy, b: Policy): boolean {
  return a.windows === b.windows || a.windows?.every(({ limit }, index) => limit === b.windows?.[index]?.limit) === true
}

/** Returns the smallest limit of a policy: a higher cost is never allowed. */
export function leastLimit({ limit, windows }: Policy): number {
  return windows === undefined ? limit : Math.min(...windows.map((window) => window.limit))
}

/** A question to the limiter. */
export interface Check {
  /** Names the counter. */
  readonly key: string
  readonly policy: Policy
  /**
   * The part of the limit that this request uses: an integer, 0 to 2147483647. A check of cost 0 uses nothing: `count`
   * and `remaining` say what was used before, `allowed` and `retryAfterMs` answer for a check of cost 1.
   */
  readonly cost: number
  /**
   * Whether the check takes its cost whatever the counter says, which is in debt then: above its limit. The decision is
   * always `allowed`.
   */
  readonly charges?: boolean
  /**
   * Identifies the permits that the check takes with `concurrency`, so that these can be given back and no others. An
   * integer, 0 to 2^53 - 1, that no other check with permits on the counter has.
   */
  readonly permit?: number
}

/** Gives a counter back what a check used of it, and its client did not; with `concurrency` the permits of a check. */
export interface Settlement extends Check {
  /**
   * Where the use stands, for each window of the policy in its order: the end of a fixed window, and of the cell after that
   * of a sliding window, in milliseconds; of a bucket `taken` of the decision. Not needed with `concurrency`, where
   * `permit` says what is given back.
   */
  readonly marks?: readonly number[]
  /** The time with which the check was made. Buckets need it. */
  readonly checkedMs?: number
  /** The decision on the check, where it is known. What the fallback decided is given back there, and not to the store. */
  readonly decision?: Decision
}

/**
 * The most that a sliding window counts to within its period, and that is in use of a bucket: charges beyond it are lost.
 * SQL and Lua calculate with it exactly.
 */
export const MAX_USED = 2 ** 33 - 1

/** Returns how much has to be left for a check of this cost. */
export function neededFor(cost: number): number {
  return Math.max(1, cost)
}

/** The state of one window in a decision. */
export interface WindowState {
  readonly limit: number
  readonly remaining: number
  readonly resetMs: number
  /** The wait as that of the decision: 0 where this window allows the check. */
  readonly retryAfterMs: number | null
  /** The milliseconds until more is left, where the check is allowed; as `resetMs` unless given. */
  readonly moreMs?: number
  /** Of a bucket that allows the check: the units that were taken of it in all, up to this check, modulo `TAKEN_MODULUS`. */
  readonly taken?: number
}

/** The answer to a check: all that headers, the event log and a refusal need. */
export interface Decision {
  /** Whether the request is within the limit. The caller decides whether one beyond it is refused (`block`). */
  readonly allowed: boolean
  /** The client's usage, including this request; above `limit` when the check was not allowed. */
  readonly count: number
  readonly limit: number
  /** The rest of the limit, never negative. */
  readonly remaining: number
  /** The milliseconds until the client's usage is 0; with `concurrency` always a second, since that is not known. */
  readonly resetMs: number
  /**
   * The milliseconds until the same check is allowed; 0 when it is allowed now, `null` when waiting does not help. With
   * `concurrency` a second, after which it is worth another try.
   */
  readonly retryAfterMs: number | null
  /** The store did not answer, and the fallback refuses: a 503 rather than a 429. */
  readonly unavailable?: true
  /** As in `WindowState`. */
  readonly moreMs?: number
  /** As in `WindowState`, of a bucket with one window. */
  readonly taken?: number
  /**
   * All windows of a policy that lists them, in its order. The decision itself then is that of the window that refuses
   * (of several, of the one with the longest wait), else of the one with the smallest share left.
   */
  readonly windows?: readonly WindowState[]
}

/** The result of an algorithm for a check: the counter to store in place of the one before, and the decision. */
export interface Checked<Counter> {
  readonly counter: Counter
  readonly decision: Decision
}

/** Returns the wait in whole seconds, rounded up, at least 1; null where waiting does not help. */
export function retryAfterSeconds({ retryAfterMs }: Pick<Decision, 'retryAfterMs'>): number | null {
  return retryAfterMs === null ? null : Math.max(1, Math.ceil(retryAfterMs / SECOND_MS))
}
