import { Parameters } from '../database/list.js'
import { InvalidSettingError } from '../ground/errors.js'
import { MAX_KEY_LENGTH, storable } from '../ground/storable.js'
import { type ClientEvent, type RecentEvent, readRecentEvents } from './listed-events.js'
import { duringPeriod } from './logged-events.js'
import type { Period } from './period.js'
import { report } from './registration.js'
import { type Coverage, clampedIsoTime, type LogSnapshot, type Report, toLogged } from './report.js'
import { type ReportWindow, type WindowOptions, windowDays, windowFor } from './report-window.js'
import { blockRate } from './traffic.js'

export interface OffenderDetail extends Coverage {
  readonly key: string
  readonly days: number
  readonly total: number
  readonly allowed: number
  readonly blocked: number
  /** `blocked / total`, unrounded; 0 without traffic. */
  readonly block_rate: number
  /** ISO 8601, UTC; null when the key has no event in the window. */
  readonly first_seen: string | null
  readonly last_seen: string | null
  /** The paths on which the key was refused, the most often first; 20 at most. */
  readonly by_path: readonly BlockedPath[]
  /** The latest events, newest first. */
  readonly recent_events: readonly RecentEvent[]
}

export interface BlockedPath {
  readonly path: string
  readonly blocked_count: number
}

export interface KeyDetail extends OffenderDetail {
  readonly recent_events: readonly ClientEvent[]
}

export interface OffenderDetailOptions extends WindowOptions {
  readonly key: string
  /** The most events to list: a whole number, 1 or more; 50 unless given. */
  readonly recent?: number | undefined
}

const MAX_PATHS = 20

/** Reports on one key. A key that is not in the log is no error: it has zeros, nulls and empty lists. */
export const offenderDetail = report<OffenderDetailOptions, OffenderDetail>()({
  name: 'getOffender',
  summary: 'Report on one key',
  window: 7,
  recent: 50,
  options: ({ spelling }) => ({ key: spelling('The key, as in the log.') }),
  answer: ({ type, number, text, counts, time, orNull, listOf, event, weight, coverage }) => ({
    key: text,
    days: number,
    ...counts('total', 'allowed', 'blocked'),
    block_rate: number,
    first_seen: orNull(time),
    last_seen: orNull(time),
    by_path: listOf({ path: text, ...counts('blocked_count') }),
    recent_events: listOf({ ...event, weight: type.Optional(weight) }),
    ...coverage,
  }),
  async read({ key, window, recent }, snapshot) {
    const detail = await readKey(snapshot, key, window, recent)
    const events = detail.recent_events.map(({ id, client, key, policy, outcome, rules, ...event }) => event)
    return { ...detail, recent_events: events }
  },
})

/** Reads a key for its page, which shows of each event what the seed's report does not have. */
export async function readKey(
  snapshot: LogSnapshot,
  key: string,
  window: ReportWindow,
  recent: number,
): Promise<KeyDetail> {
  if (typeof key !== 'string') {
    throw new InvalidSettingError(`Option "key" is ${String(key)}: give a key of the event log, such as ip:203.0.113.7`)
  }
  // The log cuts keys to the length of their column: a longer key would never be found.
  const storedKey = storable(toLogged(snapshot, key), MAX_KEY_LENGTH)
  const period = windowFor(window, snapshot.nowMs)
  const isOfKey = (parameters: Parameters) =>
    `${duringPeriod(snapshot.dialect, period, parameters)} AND key = ${parameters.add(storedKey)} AND outcome <> 'denied'`
  const { total, blocked, firstMs, lastMs } = await readTotals(snapshot, period, storedKey)
  return {
    key: storedKey,
    days: windowDays(window, snapshot.nowMs),
    total,
    allowed: total - blocked,
    blocked,
    block_rate: blockRate(blocked, total),
    first_seen: firstMs === null ? null : clampedIsoTime(firstMs),
    last_seen: lastMs === null ? null : clampedIsoTime(lastMs),
    by_path: await readBlockedPaths(snapshot, period, storedKey),
    recent_events: await readRecentEvents(snapshot, isOfKey, recent),
    ...snapshot.coverage,
  }
}

interface Totals {
  readonly total: number
  readonly blocked: number
  readonly firstMs: number | null
  readonly lastMs: number | null
}

async function readTotals({ query, dialect }: LogSnapshot, window: Period, key: string): Promise<Totals> {
  const parameters = new Parameters()
  const [totals] = await query<Totals>(
    `SELECT COALESCE(SUM(weight), 0) AS total, COALESCE(SUM(weight) FILTER (WHERE allowed = false), 0) AS blocked,
       MIN("timestamp") AS "firstMs", MAX("timestamp") AS "lastMs"
     FROM ${dialect.table('rate_limit_event')} WHERE ${duringPeriod(dialect, window, parameters)}
       AND key = ${parameters.add(key)} AND outcome <> 'denied'`,
    parameters.values,
  )
  return totals ?? { total: 0, blocked: 0, firstMs: null, lastMs: null }
}

function readBlockedPaths({ query, dialect }: LogSnapshot, window: Period, key: string): Promise<BlockedPath[]> {
  const parameters = new Parameters()
  // `NOT allowed`, or SQLite would walk the index on (allowed, timestamp), through the refusals of all clients.
  return query<BlockedPath>(
    `SELECT path, SUM(weight) AS blocked_count
     FROM ${dialect.table('rate_limit_event')} WHERE ${duringPeriod(dialect, window, parameters)}
       AND key = ${parameters.add(key)} AND NOT allowed AND outcome <> 'denied'
     GROUP BY path ORDER BY SUM(weight) DESC, ${dialect.bytewise('path')} LIMIT ${MAX_PATHS}`,
    parameters.values,
  )
}

/** The client that an event was counted for. */
export interface CountedClient {
  readonly key: string
  /** The address that was counted; null where the client was not counted by address. */
  readonly clientIp: string | null
  /** The id of the request's user, where it is a number. */
  readonly userId: number | null
}

/** The number of events that are read per key. */
const LATEST = 20

/**
 * Reports the clients that the latest refused events of some keys were counted for; for a key that was never refused,
 * its latest events. The key alone does not identify a client: a header can spell another client's key.
 */
export function countedClients(
  keys: readonly string[],
  window: ReportWindow,
): Report<readonly (readonly CountedClient[])[]> {
  return async ({ query, dialect, nowMs }) => {
    const latest = (key: string, condition: string) => {
      const parameters = new Parameters()
      return query<CountedClient>(
        `SELECT key, client_ip AS "clientIp", user_id AS "userId" FROM ${dialect.table('rate_limit_event')}
         WHERE ${duringPeriod(dialect, windowFor(window, nowMs), parameters)} AND key = ${parameters.add(key)}
           AND outcome <> 'denied'${condition} ORDER BY "timestamp" DESC, id DESC LIMIT ${LATEST}`,
        parameters.values,
      )
    }
    const found: CountedClient[][] = []
    for (const key of keys) {
      // The condition is not "allowed = false", for which SQLite would use the index on the decision.
      const refused = await latest(key, ' AND NOT allowed')
      found.push(refused.length > 0 ? refused : await latest(key, ''))
    }
    return found
  }
}
