import type { Check, Decision } from './algorithm.js'

export const FALLBACKS = ['local', 'allow', 'deny'] as const

/** What to do while the store fails: count in process memory, let everything through, or refuse everything (503). */
export type Fallback = (typeof FALLBACKS)[number]

/** A decision that no store made; `count` is 0 where it lets through, and above the limit where it refuses. */
export function decideWithoutStore(allowed: boolean, { policy: { limit } }: Check): Decision {
  return allowed
    ? { allowed, count: 0, limit, remaining: limit, resetMs: 0, retryAfterMs: 0 }
    : { allowed, count: limit + 1, limit, remaining: 0, resetMs: 0, retryAfterMs: null, unavailable: true }
}

export function fallbackOf(
  fallback: Fallback,
  countLocally: (check: Check, nowMs: number) => Decision,
): (check: Check, nowMs: number) => Decision {
  if (fallback === 'local') return countLocally
  return (check) => decideWithoutStore(fallback === 'allow', check)
}
