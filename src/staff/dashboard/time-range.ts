/** Ranges of time in the addresses of pages, and as people type them. Whole minutes are the finest step. */
import { DAY_MS, HOUR_MS, LAST_MOMENT_MS, MINUTE_MS } from '../../ground/time/clock.js'
import { isoDay, parseIsoTime } from '../../ground/time/iso-time.js'
import type { ReportWindow, TimeRange } from '../../reports/report-window.js'

/** The text that somebody typed for a range. */
export interface TypedRange {
  readonly since: string
  readonly until: string
  /** Says what to write instead; undefined where the range is shown. */
  readonly problem?: { readonly field: 'since' | 'until'; readonly text: string }
}

/** A range of an address: a valid one, or what is wrong with it. Both are undefined where it has none. */
interface RequestedRange {
  readonly range?: TimeRange
  readonly typed?: TypedRange
}

/** The longest range of a page, as its longest window of days. */
const MAX_RANGE_MS = 365 * DAY_MS
/** The most that a range reaches ahead of the present: further ahead it reaches until now. */
const MAX_AHEAD_MS = DAY_MS
/** The ways in which people may write a time. */
export const HOW_TO = '2026-11-24 14:00, 14:00, yesterday 14:00, or 2h for two hours ago'

/** Reads the parameters `since` and `until`, as an address or a form spells them. */
export function readRange(field: (name: string) => string, nowMs: number): RequestedRange {
  const typed = { since: field('since').trim(), until: field('until').trim() }
  if (typed.since === '' && typed.until === '') return {}
  const wrong = (name: 'since' | 'until', text: string) => ({ typed: { ...typed, problem: { field: name, text } } })
  if (typed.since === '') return wrong('since', `Write when the range begins: ${HOW_TO}.`)
  const since = parseTime(typed.since, nowMs)
  if (since === undefined) return wrong('since', `Write it as ${HOW_TO}.`)
  const isOpen = typed.until === '' || typed.until === 'now'
  const end = isOpen ? undefined : parseTime(typed.until, nowMs, since)
  if (!isOpen && end === undefined) return wrong('until', `Write it as ${HOW_TO}.`)
  if (since >= (end ?? nowMs)) {
    return end === undefined
      ? wrong('since', 'Write a time in the past.')
      : wrong('until', 'Write an end that is after the beginning.')
  }
  const until = end !== undefined && end <= nowMs + MAX_AHEAD_MS ? end : undefined
  if (until === undefined && since >= nowMs) return wrong('since', 'Write a time in the past.')
  return { typed, range: { since: Math.max(since, wholeMinute((until ?? nowMs) - MAX_RANGE_MS)), until } }
}

const CLOCK_TIME = /^(\d{1,2}):(\d\d)$/
const NAMED_DAY = /^(today|yesterday)(?:(?: at)?\s+(\d{1,2}:\d\d))?$/
const AGO = /^-?\s*(\d{1,6})\s*(m|min|minutes?|h|hours?|d|days?|w|weeks?)(?:\s+ago)?$/
const UNITS_MS: Readonly<Record<string, number>> = { m: MINUTE_MS, h: HOUR_MS, d: DAY_MS, w: 7 * DAY_MS }

/**
 * Parses a time as people type it, in UTC unless it has a zone: `2026-11-24T14:00`, `2026-11-24 14:00`, `2026-11-24`,
 * `14:00`, `yesterday`, `yesterday 14:00`, and `2h` or `-2h` for two hours ago; undefined for anything else, and before 1970.
 *
 * @param afterMs where `14:00` is the first such time after this moment; it is the latest one before now unless given
 * @returns a whole minute, in milliseconds since the epoch
 */
export function parseTime(text: string, nowMs: number, afterMs?: number): number | undefined {
  const ms =
    parseIsoTime(nameDay(text.toLowerCase(), nowMs) ?? text)?.ms ??
    parseClockTime(text, nowMs, afterMs) ??
    parseAgo(text.toLowerCase(), nowMs)
  return ms === undefined || ms < 0 || ms > LAST_MOMENT_MS ? undefined : wholeMinute(ms)
}

/** Spells `yesterday` and `yesterday 14:00`, or the same of today, with the day itself; undefined for another text. */
function nameDay(text: string, nowMs: number): string | undefined {
  const [, day, clock] = NAMED_DAY.exec(text) ?? []
  if (day === undefined) return undefined
  return isoDay(day === 'today' ? nowMs : nowMs - DAY_MS) + (clock === undefined ? '' : ` ${clock.padStart(5, '0')}`)
}

function parseClockTime(text: string, nowMs: number, afterMs: number | undefined): number | undefined {
  const [, hours, minutes] = CLOCK_TIME.exec(text) ?? []
  if (hours === undefined || Number(hours) > 23 || Number(minutes) > 59) return undefined
  const inDayMs = Number(hours) * HOUR_MS + Number(minutes) * MINUTE_MS
  const dayMs = (ms: number) => Math.floor(ms / DAY_MS) * DAY_MS
  if (afterMs === undefined) {
    const todayMs = dayMs(nowMs) + inDayMs
    return todayMs <= nowMs ? todayMs : todayMs - DAY_MS
  }
  const sameDayMs = dayMs(afterMs) + inDayMs
  return sameDayMs > afterMs ? sameDayMs : sameDayMs + DAY_MS
}

function parseAgo(text: string, nowMs: number): number | undefined {
  const [, count, unit = ''] = AGO.exec(text) ?? []
  const unitMs = UNITS_MS[unit.slice(0, 1)]
  return count === undefined || unitMs === undefined ? undefined : nowMs - Number(count) * unitMs
}

function wholeMinute(ms: number): number {
  return Math.floor(ms / MINUTE_MS) * MINUTE_MS
}

/** Spells a moment for an address: `2026-11-24T14:00Z`. */
export function spellTime(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 'yyyy-mm-ddThh:mm'.length)}Z`
}

/** Formats a moment for the form of a range: `2026-11-24 14:00`. */
export function timeText(ms: number): string {
  return spellTime(ms).slice(0, -1).replace('T', ' ')
}

/** Formats `2026-11-24 14:00–15:00 UTC`, `2026-11-24 14:00 – 2026-11-25 02:00 UTC`, or `since 2026-11-24 14:00 UTC`. */
export function rangeText({ since, until }: TimeRange): string {
  if (until === undefined) return `since ${timeText(since)} UTC`
  const [from, to] = [timeText(since), timeText(until)]
  const day = 'yyyy-mm-dd '.length
  // The end of a day is one of that day.
  if (until % DAY_MS === 0 && timeText(until - DAY_MS).slice(0, day) === from.slice(0, day)) return `${from}–24:00 UTC`
  return from.slice(0, day) === to.slice(0, day) ? `${from}–${to.slice(day)} UTC` : `${from} – ${to} UTC`
}

/** The ranges of the same length beside a window; undefined where there is none, in the future and before 1970. */
interface RangesBeside {
  readonly earlier: TimeRange | undefined
  readonly later: TimeRange | undefined
}

export function rangesBeside(window: ReportWindow, nowMs: number): RangesBeside {
  const end = wholeMinute(nowMs)
  const since = window.since ?? wholeMinute(nowMs - window.days * DAY_MS)
  const until = window.until ?? end
  const lengthMs = Math.max(MINUTE_MS, until - since)
  return {
    earlier: since >= lengthMs ? { since: since - lengthMs, until: since } : undefined,
    later: until < end ? { since: until, until: until + lengthMs } : undefined,
  }
}
