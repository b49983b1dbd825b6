/** The formats of values on the staff pages. */
import { formatCount } from '../number-text.js'
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '../time/clock.js'

export { formatCount, formatRate } from '../number-text.js'
export { visible } from '../visible.js'

const SHORT_COUNT = new Intl.NumberFormat('en-US', { notation: 'compact', maximumFractionDigits: 1 })

/** Formats `1500` as `1.5K`, for the axis of a chart. */
export function formatShortCount(count: number): string {
  return SHORT_COUNT.format(count)
}

/** Formats `1 request`, `2,000 requests`. */
export function formatRequests(count: number): string {
  return count === 1 ? '1 request' : `${formatCount(count)} requests`
}

/** Returns the length of a bar, 0 to 100; every value above 0 is visible. */
export function formatBar(value: number, most: number): number {
  return value === 0 ? 0 : Math.max(1, Math.round((100 * value) / most))
}

/** Formats a moment as `2026-01-15 12:00:00`, in UTC, without naming the zone. */
export function formatTime(ms: number): string {
  return new Date(ms).toISOString().slice(0, 19).replace('T', ' ')
}

/** A moment for `<time>`: in UTC, which `live.js` turns into the reader's time zone. */
export interface Moment {
  readonly iso: string
  readonly time: string
}

export function toMoment(ms: number): Moment {
  return { iso: new Date(ms).toISOString(), time: formatTime(ms) }
}

const UNITS = [
  ['day', DAY_MS],
  ['hour', HOUR_MS],
  ['minute', MINUTE_MS],
  ['second', SECOND_MS],
] as const

/** Formats a length of time in its largest whole unit below two of the next: `90 seconds`, `12 minutes`, `24 hours`. */
export function spanWords(ms: number): string {
  const [unit, unitMs] = UNITS.find(([, its]) => ms >= 2 * its) ?? ['second', SECOND_MS]
  const units = Math.round(ms / unitMs)
  return units === 1 ? `1 ${unit}` : `${formatCount(units)} ${unit}s`
}
