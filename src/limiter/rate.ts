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

import { InvalidRateError } from '../ground/errors.js'
import { shortened } from '../ground/shortened.js'
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '../ground/time/clock.js'
import type { Algorithm, NamedWindow, Policy, Window } from './algorithm.js'
import { MAX_PERMITS } from './concurrency.js'
import { MONTH_MS } from './period.js'

const COUNT = /^\d{1,10}$/
const UNIT = /^(?:(s|sec|second)|(m|min|minute)|(h|hr|hour)|(d|day))$/
const LENGTH = /^(\d{1,9})([smhd])$/
const MONTH = /^mo(?:nth)?$/

export const MAX_WINDOWS = 4
export const MAX_RATE_LENGTH = 255
export const MAX_COUNT = 2_147_483_647
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
  if (typeof rate !== 'string') throw invalid(String(rate), 'is not a text')
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
  // A rate with a comma has a first window.
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
  return parseLength(UNIT.test(text) ? `1${text.charAt(0)}` : text)
}

/** Returns the milliseconds of a length such as `30s` or `7d`; undefined for another text, and for more than 366 days. */
export function parseLength(text: string): number | undefined {
  const [, digits = '', unit = ''] = LENGTH.exec(text) ?? []
  const lengthMs = Number(digits) * (UNIT_MS.get(unit) ?? Number.NaN)
  return lengthMs > 0 && lengthMs <= MAX_PERIOD_MS ? lengthMs : undefined
}

function refuseSamePeriods(rate: string, texts: readonly string[], windows: readonly NamedWindow[]): void {
  for (const [index, { periodMs }] of windows.entries()) {
    const first = windows.findIndex((window) => window.periodMs === periodMs)
    if (first === index) continue
    throw invalid(rate, `has two windows of one period, ${quote(texts[first] ?? '')} and ${quote(texts[index] ?? '')}`)
  }
}

/** Spells a rate, or a policy, as `parseRate` reads it. */
export function toRateText({ limit, periodMs, windows }: Rate): string {
  if (windows !== undefined) return windows.map((window) => `${window.limit}/${window.period}`).join(', ')
  const [unit, unitMs] = [...UNIT_MS].findLast(([, lengthMs]) => periodMs % lengthMs === 0) ?? ['s', SECOND_MS]
  const units = periodMs / unitMs
  return `${limit}/${units === 1 ? '' : units}${unit}`
}

/** Returns the periods of a rate as names of counters have them, in whatever order it has them: `1000+60000+month`. */
export function periodsText(rate: Rate): string {
  const periods = (rate.windows ?? [rate]).map(({ periodMs }) => periodMs).sort((a, b) => a - b)
  return periods.map((periodMs) => (periodMs === MONTH_MS ? 'month' : periodMs)).join('+')
}

/** Returns a rate that is a multiple of another one in each of its windows, as far as counts go. */
export function timesRate(rate: Rate, factor: number): Rate {
  const times = <Each extends Window>(window: Each): Each => {
    return { ...window, limit: Math.min(MAX_COUNT, window.limit * factor) }
  }
  return { ...times(rate), ...(rate.windows && { windows: rate.windows.map(times) }) }
}

/**
 * Returns the policy of a rate.
 *
 * @throws InvalidRateError for a rate that the algorithm cannot count
 */
export function toPolicy(algorithm: Algorithm, rate: Rate): Policy {
  const { limit, periodMs, windows } = rate
  const problem = findRateProblem(algorithm, rate)
  if (problem !== undefined) throw new InvalidRateError(problem)
  return windows === undefined ? { algorithm, limit, periodMs } : { algorithm, limit, periodMs, windows }
}

/**
 * Returns the policy of a rate whose refused checks take nothing, in any algorithm.
 *
 * @throws InvalidRateError for a rate that the algorithm cannot count
 */
export function toReservingPolicy(algorithm: Algorithm, rate: Rate): Policy {
  const policy = toPolicy(algorithm, rate)
  const [, period = ''] = toRateText(policy).split('/')
  const { limit, periodMs, windows = [{ limit, periodMs, period }] } = policy
  return { ...policy, windows, reserves: true }
}

/**
 * Returns why an algorithm cannot count a rate: only fixed windows know months, and requests in progress have one window
 * and a limit of their own.
 */
export function findRateProblem(algorithm: Algorithm, rate: Rate): string | undefined {
  return findMonthProblem(algorithm, rate) ?? (algorithm === 'concurrency' ? findConcurrencyProblem(rate) : undefined)
}

function findConcurrencyProblem({ limit, windows }: Rate): string | undefined {
  if (windows !== undefined) {
    return `The rate has ${windows.length} windows, and the algorithm concurrency counts in one: give one such as 20/60s, at most 20 requests in progress, each of which holds its permit for 60 s at most`
  }
  if (limit <= MAX_PERMITS) return undefined
  return `The rate has the count ${limit}, and the algorithm concurrency counts at most ${MAX_PERMITS} requests in progress: give 0 to ${MAX_PERMITS}`
}

function findMonthProblem(algorithm: Algorithm, { windows }: Rate): string | undefined {
  const month = windows?.find((window) => window.periodMs === MONTH_MS)
  if (month === undefined || algorithm === 'fixed_window') return undefined
  return `The window "${month.limit}/${month.period}" is a calendar month, which goes with the algorithm fixed_window only: give that, or a length such as 30d`
}

/**
 * Returns the highest cost that a rate ever allows: its smallest count above 0, since one of 0 refuses everything on
 * purpose.
 */
export function highestCost(rate: Rate): number {
  const limits = (rate.windows ?? [rate]).map(({ limit }) => limit).filter((limit) => limit > 0)
  return Math.min(Number.POSITIVE_INFINITY, ...limits)
}

function invalid(rate: string, complaint: string): Error {
  return new InvalidRateError(`Invalid rate ${quote(rate)}: it ${complaint}; ${ACCEPTED}`)
}

function quote(text: string): string {
  return JSON.stringify(shortened(text, 60))
}
