/** How far a rate is raised: until it is above what a client asked for. */
import { groupBy } from '../../ground/group-by.js'
import type { Window } from '../../limiter/algorithm.js'
import { parseRate, timesRate, toRateText } from '../../limiter/rate.js'
import { spanWords } from './format.js'

/** A request, as far as it is counted. */
interface Asked {
  readonly client: string
  readonly timestamp: string
}

/** The most that a client asked for within a window. */
interface AskedMost {
  readonly count: number
  readonly periodMs: number
}

/** A raise is no exemption: beyond it somebody has to type the rate. */
const MAX_FACTOR = 1_024

/**
 * Returns twice a rate, doubled until no client asked for as much; undefined for the highest rate, and for a text that is
 * none.
 *
 * @param requests of clients, each with a count of its own
 */
export function raisedRate(text: string, requests: readonly Asked[]): string | undefined {
  const windows = windowsOf(text)
  if (windows === undefined) return undefined
  const rate = parseRate(text)
  const factors = windows.map((window) => factorFor(window, mostWithin(requests, window.periodMs)))
  const raised = toRateText(timesRate(rate, Math.max(...factors)))
  return raised === toRateText(rate) ? undefined : raised
}

/** Returns the most that a client asked for in a window of a rate: of several the one that it exceeded the most. */
export function asksMost(text: string, requests: readonly Asked[]): AskedMost | undefined {
  const asked = (windowsOf(text) ?? []).map(({ limit, periodMs }) => {
    const count = mostWithin(requests, periodMs)
    return { count, periodMs, share: count / limit }
  })
  const [most] = asked.toSorted((one, other) => other.share - one.share)
  return most === undefined || most.count === 0 ? undefined : most
}

/** Names the length of a window: `1 minute`, `90 seconds`. */
export function periodWords(periodMs: number): string {
  const unit = PERIODS.find(([, ms]) => ms === periodMs)
  return unit === undefined ? spanWords(periodMs) : `one ${unit[0]}`
}

const PERIODS = [
  ['second', 1_000],
  ['minute', 60_000],
  ['hour', 3_600_000],
  ['day', 86_400_000],
] as const

function windowsOf(text: string): readonly Window[] | undefined {
  try {
    const rate = parseRate(text)
    return rate.windows ?? [rate]
  } catch {
    // Raw SQL wrote an override with another text.
    return undefined
  }
}

function factorFor({ limit }: Window, asked: number): number {
  let factor = 2
  while (factor < MAX_FACTOR && limit * factor <= asked) factor *= 2
  return factor
}

/** Returns the most requests of one client within a time. */
function mostWithin(requests: readonly Asked[], periodMs: number): number {
  let most = 0
  for (const ofClient of groupBy(requests, ({ client }) => client).values()) {
    const times = ofClient.map(({ timestamp }) => Date.parse(timestamp)).toSorted((one, other) => one - other)
    let first = 0
    for (const [last, time] of times.entries()) {
      while (time - (times[first] ?? time) >= periodMs) first++
      most = Math.max(most, last - first + 1)
    }
  }
  return most
}
