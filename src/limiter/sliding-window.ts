import { latestStartMs } from '../ground/time/clock.js'
import { type Checked, MAX_USED, neededFor, type Policy } from './algorithm.js'
import { windowStartMs } from './period.js'
import { productQuotient, productQuotientUp } from './whole-numbers.js'

/** The state that a store keeps per key: the use of the aligned cell `[cellStartMs, + periodMs)` and the last one. */
export interface SlidingWindowCounter {
  readonly periodMs: number
  readonly cellStartMs: number
  /** The counter's own time, which never runs backwards. */
  readonly checkedMs: number
  readonly previous: number
  readonly current: number
}

/**
 * Checks a sliding window over two weighted cells (Cloudflare, "How we built rate limiting capable of scaling to
 * millions of domains", 2017): the estimate is the use of the current cell, plus the part of the previous cell's use
 * that overlaps the period before now, as if it had been spread evenly.
 *
 * *Error*: the arithmetic has none; a check is allowed exactly when estimate + cost <= limit. Where the previous cell
 * was not used evenly the estimate is off by less than that cell's use: any span of one period admits less than twice
 * the limit, and an aligned one never more than the limit. Refused checks cost nothing, and charges are always allowed.
 */
export function checkSlidingWindow(
  counter: SlidingWindowCounter | undefined,
  policy: Policy,
  cost: number,
  nowMs: number,
  charges = false,
): Checked<SlidingWindowCounter> {
  const { limit, periodMs } = policy
  const { cellStartMs, checkedMs, previous, current } = slideTo(counter, periodMs, nowMs)
  const overlapMs = cellStartMs + periodMs - checkedMs
  const used = current + productQuotientUp(previous, overlapMs, periodMs)
  const needed = neededFor(cost)
  const allowed = charges || used + needed <= limit
  const taken = charges ? Math.min(cost, MAX_USED - current) : cost
  const after = { periodMs, cellStartMs, checkedMs, previous, current: allowed ? current + taken : current }
  const remaining = Math.max(0, allowed ? limit - used - taken : limit - used)
  const resetMs = Math.max(0, emptyAtMs(after) - nowMs)
  if (allowed) {
    const moreMs = remaining < limit ? allowedAtMs(after, limit - remaining - 1) - nowMs : resetMs
    return {
      counter: after,
      decision: { allowed, count: used + taken, limit, remaining, resetMs, moreMs, retryAfterMs: 0 },
    }
  }
  const retryAfterMs = needed > limit ? null : allowedAtMs(after, limit - needed) - nowMs
  return { counter: after, decision: { allowed, count: used + taken, limit, remaining, resetMs, retryAfterMs } }
}

/**
 * Returns what changes in a counter by a settlement: nothing where the cell that counted it does not matter any more.
 *
 * @param mark the end of the cell after the one that counted the check
 */
export function settleSlidingWindow(
  { periodMs, cellStartMs, previous, current }: SlidingWindowCounter,
  cost: number,
  mark: number,
): Pick<SlidingWindowCounter, 'previous' | 'current'> {
  const cellsLeft = (mark - cellStartMs) / periodMs
  return {
    previous: cellsLeft === 1 ? Math.max(0, previous - cost) : previous,
    current: cellsLeft === 2 ? Math.max(0, current - cost) : current,
  }
}

/** Returns the counter as it is at `nowMs`; a new one where it belongs to another period, or a wrong clock has written it. */
function slideTo(counter: SlidingWindowCounter | undefined, periodMs: number, nowMs: number): SlidingWindowCounter {
  const cellStartMs = windowStartMs(periodMs, nowMs)
  if (counter?.periodMs !== periodMs || counter.cellStartMs > latestStartMs(nowMs, periodMs)) {
    return { periodMs, cellStartMs, checkedMs: nowMs, previous: 0, current: 0 }
  }
  if (cellStartMs <= counter.cellStartMs) {
    return {
      periodMs,
      cellStartMs: counter.cellStartMs,
      checkedMs: Math.max(nowMs, counter.checkedMs),
      previous: counter.previous,
      current: counter.current,
    }
  }
  const previous = cellStartMs === counter.cellStartMs + periodMs ? counter.current : 0
  return { periodMs, cellStartMs, checkedMs: nowMs, previous, current: 0 }
}

/** Returns when the estimate is 0. */
function emptyAtMs({ cellStartMs, periodMs, previous, current }: SlidingWindowCounter): number {
  return cellStartMs + periodMs * (current > 0 ? 2 : previous > 0 ? 1 : 0)
}

/** Returns when the estimate, which exceeds `room` now, has come down to it: in this cell, or else in the next. */
function allowedAtMs({ cellStartMs, periodMs, previous, current }: SlidingWindowCounter, room: number): number {
  return room >= current
    ? cellStartMs + periodMs - productQuotient(room - current, periodMs, previous)
    : cellStartMs + 2 * periodMs - productQuotient(room, periodMs, current)
}
