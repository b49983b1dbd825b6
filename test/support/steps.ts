/** A check of an algorithm, and what has to come of it. */
export type Step = readonly [
  nowMs: number,
  cost: number,
  limit: number,
  allowed: boolean,
  count: number,
  remaining: number,
  resetMs: number,
  retryAfterMs: number | null,
]
