/** The source of time. Passed in everywhere, so that tests control it. */
export interface Clock {
  /** Returns milliseconds since the epoch. */
  now(): number
}

// `Date.now` is looked up at each call, since fake timers replace it after this module is loaded.
export const systemClock: Clock = { now: () => Date.now() }

export const SECOND_MS = 1_000
export const MINUTE_MS = 60 * SECOND_MS
export const HOUR_MS = 60 * MINUTE_MS
export const DAY_MS = 24 * HOUR_MS
/** The skew is more than that of the clocks of a fleet. */
const MAX_SKEW_MS = HOUR_MS

/**
 * Returns the latest moment at which something may begin that a clock has written. What begins later was written by a
 * wrong clock, and is taken as none: otherwise it would hold until that moment comes. What begins sooner goes on, so
 * that no server undoes what others have written by being slow.
 *
 * @param lengthMs how long it lasts from its beginning
 */
export function latestStartMs(nowMs: number, lengthMs = 0): number {
  return nowMs + Math.max(MAX_SKEW_MS, lengthMs)
}

/** The end of the last year of four digits. */
export const LAST_MOMENT_MS = 253_402_300_799_999
