/** The formats of values on the staff pages. */
import { formatCount } from '../../ground/number-text.js'
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '../../ground/time/clock.js'
import { REQUESTS } from '../../ground/unit.js'
import { allRequests, type TrafficCounts } from '../../reports/breakdown.js'
import type { ReportWindow } from '../../reports/report-window.js'
import { rangeText, spellTime } from './time-range.js'

export { formatCount, formatRate, formatShortCount } from '../../ground/number-text.js'
export { visible } from '../../ground/visible.js'

/** Formats `1 request`, `2,000 requests`. */
export function formatRequests(count: number, what = ''): string {
  const requests = count === 1 ? 'request' : 'requests'
  return `${formatCount(count)} ${what === '' ? '' : `${what} `}${requests}`
}

/** Returns a rate with what it counts, unless that is requests. */
export function rateWords(rate: string, unit: string): string {
  return unit === REQUESTS ? rate : `${rate} ${unit}`
}

/** Formats `1,811 requests, 112 refused`. */
export function countWords(counts: TrafficCounts): string {
  const { blocked, would_block, denied } = counts
  const words = [formatRequests(allRequests(counts))]
  if (blocked > 0) words.push(`${formatCount(blocked)} refused`)
  if (would_block > 0) words.push(`${formatCount(would_block)} would be refused`)
  if (denied > 0) words.push(`${formatCount(denied)} denied`)
  return words.join(', ')
}

/** Returns the length of a bar, 0 to 100; every value above 0 is visible. */
export function formatBar(value: number, most: number): number {
  return value === 0 ? 0 : Math.max(1, Math.round((100 * value) / most))
}

/** Formats a moment as `2026-01-15 12:00:00`, in UTC, without naming the zone. */
export function formatTime(ms: number): string {
  return new Date(ms).toISOString().slice(0, 19).replace('T', ' ')
}

/** Writes a sentence so that it goes on behind other words. */
export function lowerFirst(words: string): string {
  return `${words.charAt(0).toLowerCase()}${words.slice(1)}`
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
  const [unit, unitMs] = UNITS.find(([, lengthMs]) => ms >= 2 * lengthMs) ?? ['second', SECOND_MS]
  const units = Math.round(ms / unitMs)
  return units === 1 ? `1 ${unit}` : `${formatCount(units)} ${unit}s`
}

/** The windows that a page offers, in minutes, and in days. */
export const OFFERED_MINUTES = [15, 60]
const OFFERED_DAYS = [1, 7, 30, 90]

/** Returns the parameters of a window, by the names that `readWindow` reads: shorter ones than a day are in minutes. */
export function windowFields(window: ReportWindow): [name: string, value: string][] {
  if (window.since === undefined) return [daysField(window.days)]
  const { since, until } = window
  return [
    ['since', spellTime(since)],
    ...(until === undefined ? [] : [['until', spellTime(until)] as [string, string]]),
  ]
}

function daysField(days: number): [name: 'minutes' | 'days', value: string] {
  return days < 1 ? ['minutes', String(Math.round((days * DAY_MS) / MINUTE_MS))] : ['days', String(days)]
}

/** Returns the choice of windows, including the selected one, unless that is a range. */
export function offeredWindows(window: ReportWindow, shortest: 'minutes' | 'days' = 'minutes') {
  const short = shortest === 'minutes' ? OFFERED_MINUTES.map((minutes) => (minutes * MINUTE_MS) / DAY_MS) : []
  const selected = window.days === undefined ? [] : [window.days]
  const offered = [...new Set([...short, ...OFFERED_DAYS, ...selected])].toSorted((a, b) => a - b)
  return offered.map((days) => {
    const [name, value] = daysField(days)
    return { name, value, days, label: shortDuration(days), selected: days === window.days }
  })
}

/** Formats `last 7 days`, `last hour`, `range 2026-11-24 14:00–15:00 UTC`: what something is in. */
export function windowName(window: ReportWindow): string {
  if (window.since === undefined) return `last ${lengthName(window.days)}`
  return window.until === undefined ? `time ${rangeText(window)}` : `range ${rangeText(window)}`
}

/** Formats `Last 7 days`, `2026-11-24 14:00–15:00 UTC`, `Since 2026-11-24 14:00 UTC`. */
export function windowTitle(window: ReportWindow): string {
  return window.since === undefined ? `Last ${lengthName(window.days)}` : rangeText(window).replace('since', 'Since')
}

/** Formats `7 days before`, `hour before`: the window that a window is compared with. */
export function formatWindowBefore(window: ReportWindow): string {
  return window.since === undefined ? `${lengthName(window.days)} before` : 'same length of time before'
}

function lengthName(days: number): string {
  return duration(days).replace(/^1 /, '')
}

/** Formats a length of time for a button: `15 min`, `1 h`, `24 h`, `7 days`. */
function shortDuration(days: number): string {
  return duration(days)
    .replace(/ minutes?$/, ' min')
    .replace(/ hours?$/, ' h')
}

/** Formats a length of time: `1 minute`, `15 minutes`, `1 hour`, `24 hours`, `7 days`. */
export function duration(days: number): string {
  if (days >= 1) return days === 1 ? '24 hours' : `${days} days`
  const ms = Math.round(days * DAY_MS)
  const [count, unit] = ms % HOUR_MS === 0 ? [ms / HOUR_MS, 'hour'] : [Math.round(ms / MINUTE_MS), 'minute']
  return count === 1 ? `1 ${unit}` : `${count} ${unit}s`
}
