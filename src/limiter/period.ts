import { DAY_MS } from '../ground/time/clock.js'

/**
 * Stands for the period of a calendar month in UTC. A little more than any month takes, and unlike every other period,
 * which are whole seconds.
 */
export const MONTH_MS = 31 * DAY_MS + 1

/** Returns the start of the window that contains `nowMs`. Windows are aligned to the epoch, months to the calendar. */
export function windowStartMs(periodMs: number, nowMs: number): number {
  return periodMs === MONTH_MS ? firstOfMonthMs(nowMs, 0) : Math.floor(nowMs / periodMs) * periodMs
}

/** Returns the end of the window that starts at `startMs`: the first moment after it. */
export function windowEndMs(periodMs: number, startMs: number): number {
  return periodMs === MONTH_MS ? firstOfMonthMs(startMs, 1) : startMs + periodMs
}

/** Returns the start of the month that contains `nowMs`, or of a later one. */
function firstOfMonthMs(nowMs: number, monthsLater: number): number {
  const now = new Date(nowMs)
  return Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + monthsLater, 1)
}
