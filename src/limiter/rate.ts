/**
 * The grammar of a rate:
 *
 *     rate   = window, up to three times ("," window)    at most 255 characters; no two windows of one period
 *     window = count "/" period
 *     count  = integer, 0 to 2147483647                  0 refuses everything
 *     period = unit | length | month                     at most 366 days
 *     unit   = "s" "sec" "second" | "m" "min" "minute" | "h" "hr" "hour" | "d" "day"
 *     length = integer >= 1, then "s" "m" "h" or "d"
 *     month  = "mo" "month"                              a calendar month in UTC
 *
 * Nothing else is accepted: no sign, no fraction, no upper case, and no blank but around the windows of several.
 */

import { InvalidRateError } from '../errors.js'
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '../time/clock.js'
import type { Algorithm, NamedWindow, Policy, Window } from './algorithm.js'
import { MONTH_MS } from './period.js'

const COUNT = /^\d{1,10}$/
const UNIT = /^(?:(s|sec|second)|(m|min|minute)|(h|hr|hour)|(d|day))$/
const LENGTH = /^(\d{1,9})([smhd])$/
const MONTH = /^mo(?:nth)?$/

const MAX_WINDOWS = 4
export const MAX_RATE_LENGTH = 255
const MAX_COUNT = 2_147_483_647
const MAX_PERIOD_MS = 366 * DAY_MS
const UNIT_MS: ReadonlyMap<string, number> = new Map([
  ['s', SECOND_MS],
  ['m', MINUTE_MS],
  ['h', HOUR_MS],
  ['d', DAY_MS],
])

const ACCEPTED =
  'accepted is <count>/<period>, the count 0..2147483647, the period s, m, h, d (also sec, second, min, minute, hr, hour, day), month (also mo), or a length such as 30s, 5m, 12h, 7d, at most 366d; or up to four of these with commas between, such as 10/s, 1000/h'

/** A parsed rate: its window. */
export interface Rate extends Window {
  /** All windows, where there are several, or where one is a calendar month; the rate itself then is the first one. */
  readonly windows?: readonly NamedWindow[]
}

/**
 * Parses a rate such as `100/m`, `10/30s`, `10000/month`, or `10/s, 1000/h`.
 *
 * @throws InvalidRateError, which quotes the part that was not understood and names the accepted forms
 */
export function parseRate(rate: string): Rate {
  if (typeof rate !== 'string') throw invalid(String(rate), 'is no text')
  if (rate.length > MAX_RATE_LENGTH) throw invalid(rate, `has more than ${MAX_RATE_LENGTH} characters`)
  if (!rate.includes(',')) {
    const window = parseWindow(rate, rate)
    const { limit, periodMs } = window
    return periodMs === MONTH_MS ? { limit, periodMs, windows: [window] } : { limit, periodMs }
  }
  const texts = rate.split(',').map((text) => text.replace(/^ +| +$/g, ''))
  if (texts.length > MAX_WINDOWS) throw invalid(rate, `has ${texts.length} windows`)
  const windows = texts.map((text) => parseWindow(rate, text))
  refuseSamePeriods(rate, texts, windows)
  // There is a comma, so there is a first one.
  const [{ limit, periodMs } = { limit: 0, periodMs: 0 }] = windows
  return { limit, periodMs, windows }
}

/** @param text the window, which is the rate itself where it is the only one */
function parseWindow(rate: string, text: string): NamedWindow {
  const refuse = (complaint: string) =>
    invalid(rate, text === rate ? complaint : `has the window ${quote(text)}, which ${complaint}`)
  const slash = text.indexOf('/')
  if (slash === -1) throw refuse('has no "/"')
  const [count, period] = [text.slice(0, slash), text.slice(slash + 1)]
  const limit = COUNT.test(count) ? Number(count) : Number.NaN
  if (!(limit <= MAX_COUNT)) throw refuse(`has the count ${quote(count)}`)
  const periodMs = MONTH.test(period) ? MONTH_MS : toPeriodMs(period)
  if (periodMs === undefined) throw refuse(`has the period ${quote(period)}`)
  return { limit, periodMs, period }
}

function toPeriodMs(text: string): number | undefined {
  const [, digits = '1', unit = UNIT.test(text) ? text.charAt(0) : ''] = LENGTH.exec(text) ?? []
  const periodMs = Number(digits) * (UNIT_MS.get(unit) ?? Number.NaN)
  return periodMs > 0 && periodMs <= MAX_PERIOD_MS ? periodMs : undefined
}

function refuseSamePeriods(rate: string, texts: readonly string[], windows: readonly NamedWindow[]): void {
  for (const [index, { periodMs }] of windows.entries()) {
    const first = windows.findIndex((window) => window.periodMs === periodMs)
    if (first === index) continue
    throw invalid(rate, `has two windows of one period, ${quote(texts[first] ?? '')} and ${quote(texts[index] ?? '')}`)
  }
}

/**
 * Returns the policy of a rate.
 *
 * @throws InvalidRateError for a month, unless the algorithm is `fixed_window`
 */
export function toPolicy(algorithm: Algorithm, rate: Rate): Policy {
  const { limit, periodMs, windows } = rate
  if (windows === undefined) return { algorithm, limit, periodMs }
  const problem = findMonthProblem(algorithm, rate)
  if (problem !== undefined) throw new InvalidRateError(problem)
  return { algorithm, limit, periodMs, windows }
}

/** Returns why an algorithm cannot count a rate: it has a month, which only fixed windows know. */
export function findMonthProblem(algorithm: Algorithm, { windows }: Rate): string | undefined {
  const month = windows?.find((window) => window.periodMs === MONTH_MS)
  if (month === undefined || algorithm === 'fixed_window') return undefined
  return `The window "${month.limit}/${month.period}" is a calendar month, which goes with the algorithm fixed_window only: give that, or a length such as 30d`
}

function invalid(rate: string, complaint: string): Error {
  return new InvalidRateError(`Invalid rate ${quote(rate)}: it ${complaint}; ${ACCEPTED}`)
}

function quote(text: string): string {
  return JSON.stringify(text.length > 60 ? `${text.slice(0, 60)}…` : text)
}
