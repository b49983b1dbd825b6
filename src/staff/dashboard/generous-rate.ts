/** Decides which of several rates lets a client do the most. */
import type { Window } from '../../limiter/algorithm.js'
import { MONTH_MS } from '../../limiter/period.js'
import { MAX_COUNT, MAX_WINDOWS, parseRate, type Rate, toRateText } from '../../limiter/rate.js'

/**
 * Returns a rate that is never less than one of several: the first of them that is not, else the most that they allow in
 * the periods of all, the shortest first.
 *
 * @throws InvalidRateError for a text that is no rate
 */
export function generousRate(texts: readonly string[]): string {
  // Thousands of rules have a few rates, in a few periods.
  const distinct = [...new Set(texts)]
  const rates = distinct.map(parseRate)
  const periods = new Set(rates.flatMap(windowsOf).map(({ periodMs }) => periodMs))
  const most = new Map(
    Array.from(periods, (periodMs) => [periodMs, Math.max(...rates.map((rate) => mostWithin(rate, periodMs)))]),
  )
  const mostIn = (periodMs: number) => most.get(periodMs) ?? 0
  const index = rates.findIndex((rate) => windowsOf(rate).every(({ limit, periodMs }) => mostIn(periodMs) <= limit))
  const found = distinct[index]
  if (found !== undefined) return found
  return [...periods]
    .toSorted((one, other) => one - other)
    .slice(0, MAX_WINDOWS)
    .map((periodMs) => {
      const limit = Math.min(MAX_COUNT, mostIn(periodMs))
      return periodMs === MONTH_MS ? `${limit}/month` : toRateText({ limit, periodMs })
    })
    .join(', ')
}

/** Returns whether a rate can refuse what another one allows; false where one of the texts is none. */
export function isLess(text: string, than: string): boolean {
  try {
    return !isAsGenerous(parseRate(text), parseRate(than))
  } catch {
    return false
  }
}

function windowsOf(rate: Rate): readonly Window[] {
  return rate.windows ?? [rate]
}

function isAsGenerous(rate: Rate, other: Rate): boolean {
  return windowsOf(rate).every(({ limit, periodMs }) => mostWithin(other, periodMs) <= limit)
}

/** Returns the most that a rate allows in a time that begins with its windows. */
function mostWithin(rate: Rate, timeMs: number): number {
  return Math.min(...windowsOf(rate).map(({ limit, periodMs }) => limit * Math.ceil(timeMs / periodMs)))
}
