/**
 * The grammar of a rate:
 *
 *     rate   = count "/" period
 *     count  = integer, 0 to 2147483647         0 refuses everything
 *     period = unit | length                    at most 366 days
 *     unit   = "s" "sec" "second" | "m" "min" "minute" | "h" "hr" "hour" | "d" "day"
 *     length = integer >= 1, then "s" "m" "h" or "d"
 *
 * Nothing else is accepted: no sign, no blank, no fraction, no upper case.
 */

import { InvalidRateError } from '../errors.js'
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '../time/clock.js'

const COUNT = /^\d{1,10}$/
const UNIT = /^(?:(s|sec|second)|(m|min|minute)|(h|hr|hour)|(d|day))$/
const LENGTH = /^(\d{1,9})([smhd])$/

const MAX_COUNT = 2_147_483_647
const MAX_PERIOD_MS = 366 * DAY_MS
const UNIT_MS: ReadonlyMap<string, number> = new Map([
  ['s', SECOND_MS],
  ['m', MINUTE_MS],
  ['h', HOUR_MS],
  ['d', DAY_MS],
])

const ACCEPTED =
  'accepted is <count>/<period>, the count 0..2147483647, the period s, m, h, d (also sec, second, min, minute, hr, hour, day) or a length such as 30s, 5m, 12h, 7d, at most 366d'

export interface Rate {
  /** Requests per period, 0 to 2147483647. */
  readonly limit: number
  readonly periodMs: number
}

/**
 * Parses a rate such as `100/m`, `1000/h` or `10/30s`.
 *
 * @throws InvalidRateError, which quotes the part that was not understood and names the accepted forms
 */
export function parseRate(rate: string): Rate {
  if (typeof rate !== 'string') throw invalid(String(rate), 'is no text')
  const slash = rate.indexOf('/')
  if (slash === -1) throw invalid(rate, 'has no "/"')
  const limit = parseCount(rate, rate.slice(0, slash))
  const periodMs = parsePeriod(rate, rate.slice(slash + 1))
  return { limit, periodMs }
}

function parseCount(rate: string, text: string): number {
  const count = COUNT.test(text) ? Number(text) : Number.NaN
  if (!(count <= MAX_COUNT)) throw invalid(rate, `has the count ${quote(text)}`)
  return count
}

function parsePeriod(rate: string, text: string): number {
  const [, digits = '1', unit = UNIT.test(text) ? text.charAt(0) : ''] = LENGTH.exec(text) ?? []
  const periodMs = Number(digits) * (UNIT_MS.get(unit) ?? Number.NaN)
  if (!(periodMs > 0 && periodMs <= MAX_PERIOD_MS)) throw invalid(rate, `has the period ${quote(text)}`)
  return periodMs
}

function invalid(rate: string, complaint: string): Error {
  return new InvalidRateError(`Invalid rate ${quote(rate)}: it ${complaint}; ${ACCEPTED}`)
}

function quote(text: string): string {
  return JSON.stringify(text.length > 60 ? `${text.slice(0, 60)}…` : text)
}
