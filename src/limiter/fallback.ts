import { SECOND_MS } from '../ground/time/clock.js'
import type { Check, Decision, Settlement } from './algorithm.js'

export const STORE_ERROR_ACTIONS = ['local', 'allow', 'deny'] as const

/** The action while the store fails: count in process memory, let everything through, or refuse everything (503). */
export type StoreErrorAction = (typeof STORE_ERROR_ACTIONS)[number]

/** Decides in place of the store. */
export interface Fallback {
  decide(check: Check, nowMs: number): Decision
  settle(settlements: readonly Settlement[]): void
  reset(keys: readonly string[]): void
  resetAll(prefixes: readonly string[]): void
}

/** The wait of a refusal without a store: a failing store is probed about as often. */
const RETRY_MS = SECOND_MS

/** Returns a decision that no store made; `count` is 0 where it allows, and above the limit where it refuses. */
export function decideWithoutStore(allowed: boolean, { policy: { limit, windows } }: Check): Decision {
  const waitMs = allowed ? 0 : RETRY_MS
  const decision: Decision = allowed
    ? { allowed, count: 0, limit, remaining: limit, resetMs: 0, retryAfterMs: 0 }
    : { allowed, count: limit + 1, limit, remaining: 0, resetMs: waitMs, retryAfterMs: waitMs, unavailable: true }
  if (windows === undefined) return decision
  const states = windows.map((window) => ({
    limit: window.limit,
    remaining: allowed ? window.limit : 0,
    resetMs: waitMs,
    retryAfterMs: waitMs,
  }))
  return { ...decision, windows: states }
}

/**
 * Returns the fallback for an action.
 *
 * @param local counts in process memory
 */
export function fallbackFor(action: StoreErrorAction, local: Fallback): Fallback {
  if (action === 'local') return local
  const decide: Fallback['decide'] = (check) => decideWithoutStore(action === 'allow', check)
  return { decide, settle: () => undefined, reset: () => undefined, resetAll: () => undefined }
}
