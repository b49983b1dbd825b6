/** The window of a report: the last days, or a range. */
import { InvalidSettingError } from '../ground/errors.js'
import { DAY_MS, HOUR_MS, LAST_MOMENT_MS, latestStartMs } from '../ground/time/clock.js'
import { parseIsoTime } from '../ground/time/iso-time.js'
import type { Period } from './period.js'

/** A moment: a `Date`, a text with its zone such as `2026-11-24T14:00Z`, or milliseconds since the epoch. */
export type TimeOption = Date | string | number

/** The window of a report: the last `days`, or a range from `since` to `until`. */
export interface WindowOptions {
  /** The length of the window: a number of days above 0, fractions allowed. Not together with `since`. */
  readonly days?: number | undefined
  /** The beginning of a range, exact to the millisecond: 1970 at the earliest, and before `until`. */
  readonly since?: TimeOption | undefined
  /** The end of a range, which is not part of it; now unless given. Only together with `since`. */
  readonly until?: TimeOption | undefined
}

/** The last so many days. */
interface LastDays {
  readonly days: number
  readonly since?: undefined
  readonly until?: undefined
}

/** A range in milliseconds since the epoch; without an end it reaches until now. */
export interface TimeRange {
  readonly days?: undefined
  readonly since: number
  readonly until?: number | undefined
}

/** A valid window, which is one of `WindowOptions` too. */
export type ReportWindow = LastDays | TimeRange

/**
 * Resolves the options of a window.
 *
 * @param normalDays the length of the window where the options name none
 * @throws InvalidSettingError for anything but a number of days above 0, or a range that begins before it ends
 */
export function toWindow({ days, since, until }: WindowOptions, normalDays: number): ReportWindow {
  if (since === undefined) {
    if (until === undefined) return { days: validDays(days ?? normalDays) }
    throw new InvalidSettingError('Option "until" is set without "since": give both, or the length in "days"')
  }
  if (days !== undefined) {
    throw new InvalidSettingError('Options "days" and "since" are both set: give one of them')
  }
  const range = { since: toMs('since', since), until: until === undefined ? undefined : toMs('until', until) }
  if (range.until === undefined || range.since < range.until) return range
  throw new InvalidSettingError(
    `Option "since" is ${isoText(range.since)}, and "until" ${isoText(range.until)}: give a "since" before "until"`,
  )
}

function validDays(days: number): number {
  if (Number.isFinite(days) && days > 0) return days
  throw new InvalidSettingError(`Option "days" is ${String(days)}: give a number of days above 0, such as 7 or 0.5`)
}

function toMs(option: string, value: TimeOption): number {
  const ms = readMs(value)
  if (ms !== undefined && ms >= 0 && ms <= LAST_MOMENT_MS) return ms
  throw new InvalidSettingError(
    `Option "${option}" is ${typeof value === 'string' ? JSON.stringify(value) : String(value)}: ` +
      'give a Date, a text with its zone such as 2026-11-24T14:00Z, or milliseconds since 1970',
  )
}

/** Returns whole milliseconds; undefined for what is no moment. */
function readMs(value: unknown): number | undefined {
  if (typeof value === 'string') {
    const time = parseIsoTime(value)
    return time?.hasZone ? time.ms : undefined
  }
  const ms = value instanceof Date ? value.getTime() : value
  return typeof ms === 'number' && Number.isFinite(ms) ? Math.floor(ms) : undefined
}

function isoText(ms: number): string {
  return new Date(ms).toISOString()
}

/**
 * Returns the period of a window. Until now means what the faster clocks of other servers have recorded, too: up to the end
 * of the hour in an hour, so that no events are read at that end.
 */
export function windowFor(window: ReportWindow, nowMs: number): Period {
  const presentMs = (Math.floor(latestStartMs(nowMs) / HOUR_MS) + 1) * HOUR_MS
  if (window.since === undefined) return { startMs: daysBefore(window.days, nowMs), endMs: presentMs }
  const { since, until = Math.max(since, presentMs) } = window
  return { startMs: since, endMs: until }
}

/** Returns the period of the same length that ends where the window begins. */
export function windowBefore(window: ReportWindow, nowMs: number): Period {
  if (window.since === undefined) {
    return { startMs: daysBefore(2 * window.days, nowMs), endMs: daysBefore(window.days, nowMs) }
  }
  const { since, until = Math.max(since, nowMs) } = window
  return { startMs: Math.max(0, since - (until - since)), endMs: since }
}

/** Returns the length of a window in days; of a range without an end, until now. */
export function windowDays(window: ReportWindow, nowMs: number): number {
  if (window.since === undefined) return window.days
  const { since, until = Math.max(since, nowMs) } = window
  return (until - since) / DAY_MS
}

/** Returns whether a window is over: nothing of the present is in it. */
export function hasEnded({ until }: ReportWindow, nowMs: number): boolean {
  return until !== undefined && until <= nowMs
}

/** Returns no moment before 1970: there is no such event, and PostgreSQL has no year -300000. */
function daysBefore(days: number, nowMs: number): number {
  return Math.max(0, Math.ceil(nowMs - days * DAY_MS))
}
