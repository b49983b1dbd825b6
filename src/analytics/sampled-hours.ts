/** Which hours of a window a report reads that needs single events, so that its duration is bounded. */
import { HOUR_SPAN } from '../rollups/counting.js'
import { HOUR_MS } from '../time/clock.js'
import { inRange, Parameters } from './filter.js'
import type { Period } from './period.js'
import type { LogSnapshot } from './window.js'

/** About two seconds' reading on SQLite, which reads reports on a thread of their own. */
const MAX_EVENTS = 1_000_000
/** Each is a part of the statement. */
const MAX_HOURS = 100
const WEEK_HOURS = 168

/** Of the hours of a window that have events. */
export interface Sample {
  readonly hours_read: number
  readonly hours: number
}

export interface SampledHours {
  readonly periods: readonly Period[]
  /** Null where the whole window is read. */
  readonly sampled: Sample | null
}

interface BusyHour {
  readonly hour: number
  readonly events: number
}

/**
 * Returns the whole window where it has few enough events, by the sums of its hours, else whole hours at equal distances,
 * from the last one that is over. Of an hour with too many events all are read, since at least one hour is.
 */
export async function hoursToRead(
  snapshot: LogSnapshot,
  window: Period,
  maxEvents = MAX_EVENTS,
): Promise<SampledHours> {
  const busy = await readBusyHours(snapshot, window)
  if (sumEvents(busy) <= maxEvents || busy.length <= 1) return { periods: [window], sampled: null }
  const chosen = sample(busy, maxEvents)
  const periods = chosen.map(({ hour }) => ({
    startMs: Math.max(window.startMs, hour * HOUR_MS),
    endMs: (hour + 1) * HOUR_MS,
  }))
  return { periods, sampled: { hours_read: chosen.length, hours: busy.length } }
}

/** Returns the hours with events, newest first. */
async function readBusyHours({ query, dialect, nowMs }: LogSnapshot, { startMs }: Period): Promise<BusyHour[]> {
  const parameters = new Parameters()
  const hours = { from: Math.floor(startMs / HOUR_MS), to: Math.floor(nowMs / HOUR_MS) + 1 }
  const oldest = `SELECT MIN("timestamp") AS "timestamp" FROM ${dialect.table('rate_limit_event')}`
  // The trend also has the hours whose events were deleted.
  return query<BusyHour>(
    `SELECT hour, total + denied AS events FROM ${dialect.table('rate_limit_trend')}
     WHERE ${inRange('hour', hours, parameters)} AND total + denied > 0
       AND hour >= (SELECT ${dialect.toMinute('"timestamp"')} / ${HOUR_SPAN} FROM (${oldest}) AS oldest)
     ORDER BY hour DESC`,
    parameters.values,
  )
}

function sample(busy: readonly BusyHour[], maxEvents: number): readonly BusyHour[] {
  let distance = Math.ceil(Math.max(sumEvents(busy) / maxEvents, busy.length / MAX_HOURS))
  for (; ; distance++) {
    // Other distances would always read the same hours of a day, or days of a week.
    if (greatestDivisor(distance, WEEK_HOURS) > 1) continue
    const chosen = busy.filter((_, place) => place % distance === 1)
    if (chosen.length <= 1 || (sumEvents(chosen) <= maxEvents && chosen.length <= MAX_HOURS)) return chosen
  }
}

function sumEvents(hours: readonly BusyHour[]): number {
  return hours.reduce((sum, { events }) => sum + events, 0)
}

function greatestDivisor(one: number, other: number): number {
  return other === 0 ? one : greatestDivisor(other, one % other)
}
