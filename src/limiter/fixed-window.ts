import { latestStartMs } from '../ground/time/clock.js'
import type { Checked, Decision, Policy } from './algorithm.js'
import { MONTH_MS, windowEndMs, windowStartMs } from './period.js'

/** The state that a store keeps per key. The window is `[startMs, endMs)`, aligned to the epoch, or a month. */
export interface FixedWindowCounter {
  count: number
  startMs: number
  endMs: number
}

/**
 * Advances a fixed window: it counts every request of an aligned period, refused ones too, and starts again at 0 with
 * the next period. It admits at most `limit` within one period, and up to twice the limit around a period's end.
 *
 * Time never runs backwards for a counter: a check that is older than the stored window counts in that window. A
 * counter of another period is replaced by a new one, and so is one that a wrong clock has written.
 *
 * @returns the counter to store in place of `counter`
 */
export function advanceFixedWindow(
  counter: FixedWindowCounter | undefined,
  periodMs: number,
  cost: number,
  nowMs: number,
): FixedWindowCounter {
  if (counter !== undefined && nowMs < counter.endMs && counter.startMs <= latestStartMs(nowMs, periodMs)) {
    const { count, startMs, endMs } = counter
    const isMonth = periodMs === MONTH_MS && endMs === windowEndMs(periodMs, startMs)
    if (endMs - startMs === periodMs || isMonth) return { count: count + cost, startMs, endMs }
  }
  const startMs = windowStartMs(periodMs, nowMs)
  return { count: cost, startMs, endMs: windowEndMs(periodMs, startMs) }
}

/**
 * Returns the decision on the check that brought a window to `count`.
 *
 * @param cost what that check added; no window admits a cost above the limit, and waiting does not help
 * @param charges whether the check is admitted in any case
 */
export function decideFixedWindow(
  policy: Policy,
  count: number,
  endMs: number,
  cost: number,
  nowMs: number,
  charges = false,
): Decision {
  const { limit } = policy
  const needed = Math.max(1, cost)
  const allowed = charges || count - cost + needed <= limit
  const resetMs = Math.max(0, endMs - nowMs)
  return {
    allowed,
    count,
    limit,
    remaining: Math.max(0, limit - count),
    resetMs,
    retryAfterMs: allowed ? 0 : needed > limit ? null : resetMs,
  }
}

/** Advances the counter and decides. */
export function checkFixedWindow(
  before: FixedWindowCounter | undefined,
  policy: Policy,
  cost: number,
  nowMs: number,
  charges?: boolean,
): Checked<FixedWindowCounter> {
  const counter = advanceFixedWindow(before, policy.periodMs, cost, nowMs)
  return { counter, decision: decideFixedWindow(policy, counter.count, counter.endMs, cost, nowMs, charges) }
}

/**
 * Returns what changes in a counter by a settlement: nothing where the window has ended.
 *
 * @param mark the end of the window that counted the check
 */
export function settleFixedWindow(
  { count, startMs, endMs }: FixedWindowCounter,
  periodMs: number,
  cost: number,
  mark: number,
): Pick<FixedWindowCounter, 'count'> {
  const isSameWindow = startMs === startOfWindowTo(periodMs, mark) && endMs === mark
  return { count: isSameWindow ? Math.max(0, count - cost) : count }
}

/** Returns the start of the window that ends at a moment; -1 where none of its period does. */
export function startOfWindowTo(periodMs: number, endMs: number): number {
  const startMs = windowStartMs(periodMs, endMs - 1)
  return windowEndMs(periodMs, startMs) === endMs ? startMs : -1
}
