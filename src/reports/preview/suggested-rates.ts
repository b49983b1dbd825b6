/** Rates for a rule that is not there yet, from what clients really did. */
import { Parameters } from '../../database/list.js'
import { HOUR_MS } from '../../ground/time/clock.js'
import { CLIENT, IS_DENIED } from '../../log/event-sql.js'
import { HOUR_SPAN } from '../../log/rollups/counting.js'
import { filtered, inRange, type ReportFilter } from '../filter.js'
import { findIncidentClients } from '../incidents/find-incidents.js'
import { duringPeriod } from '../logged-events.js'
import type { Period } from '../period.js'
import type { Coverage, LogSnapshot, Report } from '../report.js'
import { toWindow, type WindowOptions, windowDays, windowFor } from '../report-window.js'

export interface SuggestRatesOptions extends WindowOptions {
  /** The beginning of the path, as the log has it; every path unless given. */
  readonly path?: string | undefined
  /** Every method unless given. */
  readonly method?: string | undefined
  /** The name of the rule that decided; empty for requests that no rule matched; every request unless given. */
  readonly rule?: string | undefined
}

/** A rate, and what it would have refused as a fixed window per client. */
export interface SuggestedRate {
  /** The share of clients, in percent, whose busiest window has no more requests than the rate: 50, 95 or 99. */
  readonly percentile: 50 | 95 | 99
  /** The rate, such as `12/m` or `300/h`. */
  readonly rate: string
  /** Clients that would have been refused at least once. */
  readonly refused_clients: number
  readonly refused_requests: number
}

export interface SuggestedRates extends Coverage {
  readonly days: number
  /** The requests that were read; all others of this report are shares of them. */
  readonly requests: number
  /** The clients of these, as they were counted. */
  readonly clients: number
  /**
   * The hours that were read where the window has too many events, else null. A client's busiest window is then the
   * busiest of those hours.
   */
  readonly sampled: Sample | null
  /** The rates by percentile; empty without requests. */
  readonly per_minute: readonly SuggestedRate[]
  readonly per_hour: readonly SuggestedRate[]
}

/** The number of clients, or of windows of clients, that have so many requests. */
interface Level {
  readonly requests: number
  readonly times: number
}

interface Histogram extends Level {
  readonly span: number
  /** 0 for windows, 1 for clients by their busiest window. */
  readonly is_peak: number
}

const PERCENTILES = [50, 95, 99] as const

/**
 * Suggests rates for requests of a path, method or rule: the 50th, 95th and 99th percentile of what a client sent in its
 * busiest minute and hour (nearest rank), and what each would have refused. Minutes and hours are those of the clock in
 * UTC, as a fixed window's are, so that the refusals are exact where every hour was read.
 *
 * Denied requests, the requests of clients in an incident of the window, and those whose client the log does not tell are
 * left out. At most some million events are read:
 * of a window with more, whole hours at equal distances.
 *
 * @param isWholePath whether `path` is all of the path
 */
export function suggestedRates(
  { path, method, rule, ...options }: SuggestRatesOptions = {},
  isWholePath = false,
): Report<SuggestedRates> {
  const window = toWindow(options, 7)
  return async (snapshot) => {
    const whole = windowFor(window, snapshot.nowMs)
    const { periods, sampled } = await hoursToRead(snapshot, whole)
    const leftOut = await findIncidentClients(snapshot, whole)
    const filter = { method, rule, ...(isWholePath ? {} : { path }) }
    const levels = await readLevels(snapshot, periods, filter, isWholePath ? path : undefined, leftOut)
    const select = (span: number, isPeak: number) =>
      levels.filter((level) => level.span === span && level.is_peak === isPeak)
    const minutes = select(1, 0)
    const clients = select(1, 1)
    return {
      days: windowDays(window, snapshot.nowMs),
      requests: minutes.reduce((sum, { requests, times }) => sum + requests * times, 0),
      clients: count(clients),
      sampled,
      per_minute: suggest('m', minutes, clients),
      per_hour: suggest('h', select(HOUR_SPAN, 0), select(HOUR_SPAN, 1)),
      ...snapshot.coverage,
    }
  }
}

/** Counts in the database, where most events of a minute are one row: only the levels are returned. */
async function readLevels(
  { query, dialect }: LogSnapshot,
  periods: readonly Period[],
  filter: ReportFilter,
  wholePath: string | undefined,
  leftOut: readonly string[],
) {
  const parameters = new Parameters()
  const isPath = wholePath === undefined ? '' : ` AND path = ${parameters.add(wholePath)}`
  const events = periods.map(
    (period) =>
      `SELECT ${CLIENT} AS client, ${dialect.toMinute('"timestamp"')} AS minute, weight FROM ${dialect.table('rate_limit_event')}
       WHERE ${duringPeriod(dialect, period, parameters)} AND NOT (${IS_DENIED})${isPath}${filtered(dialect, filter, parameters)}`,
  )
  const isLeftOut =
    leftOut.length === 0 ? '' : ` AND NOT ${dialect.isOneOf('client', parameters.add(JSON.stringify(leftOut)), 'text')}`
  return query<Histogram>(
    `WITH minutes AS MATERIALIZED (
       SELECT client, minute, SUM(weight) AS requests FROM (${events.join(' UNION ALL ')}) AS events
       WHERE client <> ''${isLeftOut} GROUP BY client, minute
     ), hours AS MATERIALIZED (
       SELECT client, ${dialect.whole('SUM(requests)')} AS requests FROM minutes GROUP BY client, minute / ${HOUR_SPAN}
     )
     ${levelsSql(1, 'minutes')} UNION ALL ${levelsSql(HOUR_SPAN, 'hours')}
     ORDER BY requests`,
    parameters.values,
  )
}

function levelsSql(span: number, table: string): string {
  return `SELECT ${span} AS span, 0 AS is_peak, requests, COUNT(*) AS times FROM ${table} GROUP BY requests
    UNION ALL SELECT ${span}, 1, requests, COUNT(*)
    FROM (SELECT MAX(requests) AS requests FROM ${table} GROUP BY client) AS peaks GROUP BY requests`
}

/**
 * @param windows the windows of all clients, by their requests
 * @param peaks the clients, by the requests of their busiest window, in ascending order
 */
function suggest(unit: 'm' | 'h', windows: readonly Level[], peaks: readonly Level[]): SuggestedRate[] {
  if (peaks.length === 0) return []
  return PERCENTILES.map((percentile) => {
    const limit = requestsAt(percentile, peaks)
    const over = windows.filter(({ requests }) => requests > limit)
    return {
      percentile,
      rate: `${limit}/${unit}`,
      refused_clients: count(peaks.filter(({ requests }) => requests > limit)),
      refused_requests: over.reduce((sum, { requests, times }) => sum + (requests - limit) * times, 0),
    }
  })
}

/** Returns the least requests that so many percent of the clients do not exceed. */
function requestsAt(percentile: number, peaks: readonly Level[]): number {
  const rank = Math.ceil((percentile / 100) * count(peaks))
  let seen = 0
  for (const { requests, times } of peaks) {
    seen += times
    if (seen >= rank) return requests
  }
  return 1
}

function count(levels: readonly Level[]): number {
  return levels.reduce((sum, { times }) => sum + times, 0)
}

/** The most events: about two seconds' reading on SQLite, which reads reports on a thread of their own. */
const MAX_EVENTS = 1_000_000
/** The most hours: each is a part of the statement. */
const MAX_HOURS = 100
const WEEK_HOURS = 168

/** The part of the hours of a window that is read, of those that have events. */
export interface Sample {
  readonly hours_read: number
  readonly hours: number
}

interface SampledHours {
  readonly periods: readonly Period[]
  /** The sample; null where the whole window is read. */
  readonly sampled: Sample | null
}

interface BusyHour {
  readonly hour: number
  readonly events: number
}

/**
 * Chooses what is read, so that its duration is bounded: the whole window where it has few enough events, by the sums of its hours, else whole hours at equal distances,
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
    endMs: Math.min(window.endMs, (hour + 1) * HOUR_MS),
  }))
  return { periods, sampled: { hours_read: chosen.length, hours: busy.length } }
}

/** Returns the hours with events, newest first. */
async function readBusyHours({ query, dialect, nowMs }: LogSnapshot, { startMs, endMs }: Period): Promise<BusyHour[]> {
  const parameters = new Parameters()
  const to = Math.min(Math.floor(nowMs / HOUR_MS) + 1, Math.ceil(endMs / HOUR_MS))
  const hours = { from: Math.floor(startMs / HOUR_MS), to }
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
    const chosen = busy.filter((_, index) => index % distance === 1)
    if (chosen.length <= 1 || (sumEvents(chosen) <= maxEvents && chosen.length <= MAX_HOURS)) return chosen
  }
}

function sumEvents(hours: readonly BusyHour[]): number {
  return hours.reduce((sum, { events }) => sum + events, 0)
}

function greatestDivisor(one: number, other: number): number {
  return other === 0 ? one : greatestDivisor(other, one % other)
}
