import { SECOND_MS } from '../time/clock.js'

/**
 * The limiter's words. A *policy* says how much is allowed, a *check* asks whether one more is, a *decision* is the
 * answer, and a *counter* is what a store keeps between two checks.
 */

export const ALGORITHMS = ['fixed_window', 'sliding_window', 'token_bucket', 'leaky_bucket'] as const

export type Algorithm = (typeof ALGORITHMS)[number]

export interface Policy {
  readonly algorithm: Algorithm
  /** How much a client may use per period: 0 (refuses everything) to 2147483647. */
  readonly limit: number
  readonly periodMs: number
}

/** One question to the limiter. */
export interface Check {
  /** Names the counter. */
  readonly key: string
  readonly policy: Policy
  /**
   * How much of the limit this request uses: an integer, 0 to 2147483647. A check of cost 0 uses nothing: `count` and
   * `remaining` say what was used before, `allowed` and `retryAfterMs` answer for a check of cost 1.
   */
  readonly cost: number
}

/** Gives a counter back what a check used of it, and its client did not. */
export interface Settlement extends Check {
  /**
   * When the counter forgets by itself what the check used: at the end of a fixed window, of the cell after that of a
   * sliding window, or when it has drained from a bucket that had nothing else in it.
   */
  readonly forgottenAtMs: number
}

/** Returns how much has to be left for a check of this cost. */
export function neededFor(cost: number): number {
  return Math.max(1, cost)
}

/** The answer to a check: all that headers, the event log and a refusal need. */
export interface Decision {
  /** Whether the request is within the limit. The caller decides whether one beyond it is refused (`block`). */
  readonly allowed: boolean
  /** The client's usage, including this request; above `limit` when the check was not allowed. */
  readonly count: number
  readonly limit: number
  /** What is left, never negative. */
  readonly remaining: number
  /** Milliseconds until the client's usage is 0. */
  readonly resetMs: number
  /** Milliseconds until the same check is allowed; 0 when it is allowed now, `null` when waiting does not help. */
  readonly retryAfterMs: number | null
  /** No store answered, and the fallback refuses: a 503 rather than a 429. */
  readonly unavailable?: true
}

/** What an algorithm returns for a check: the counter to store in place of the given one, and the decision. */
export interface Checked<Counter> {
  readonly counter: Counter
  readonly decision: Decision
}

/** Returns the wait in whole seconds, rounded up, at least 1; null where waiting does not help. */
export function retryAfterSeconds({ retryAfterMs }: Decision): number | null {
  return retryAfterMs === null ? null : Math.max(1, Math.ceil(retryAfterMs / SECOND_MS))
}
