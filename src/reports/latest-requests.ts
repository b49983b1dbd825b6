import { readForEach } from '../database/list.js'
import { CLIENT } from '../log/event-sql.js'
import { compareBytes } from './breakdown.js'
import { keysForClient } from './client-search.js'
import { NEWEST_FIRST } from './listed-events.js'
import { type OtherKeys, readOtherKeys } from './other-keys.js'
import type { Period } from './period.js'
import type { LogSnapshot, Report } from './report.js'
import { type ReportWindow, windowFor } from './report-window.js'
import type { TopClient } from './top-clients.js'

/** The number of the latest events of a key that are read, and of paths of a client that are returned. */
const LATEST = 20
/** The most events of a key among which its newest refusal is searched for: they take some milliseconds. */
const MOST_READ = 5_000
/** The same of a key that other clients share. */
const MOST_OTHERS = 500
const MAX_PATHS = 3

/** The latest requests of a client. */
export interface LatestRequests {
  /** The most often first: three at most. */
  readonly paths: readonly string[]
  /** The newest refusal, or the newest request where none was refused; null where the log has neither. */
  readonly request: LatestRequest | null
}

/** A request of the log. */
export interface LatestRequest {
  /** The id of its event. */
  readonly id: number
  readonly method: string
  readonly path: string
  /** The time in milliseconds since the epoch. */
  readonly at_ms: number
  readonly allowed: boolean
}

/**
 * Reports what clients requested last, from the latest 20 events of each under every policy. It reads few events, however
 * many a client has.
 */
export function latestRequests(
  clients: readonly Pick<TopClient, 'client' | 'policies'>[],
  window: ReportWindow,
): Report<ReadonlyMap<string, LatestRequests>> {
  return async (snapshot) => {
    const period = windowFor(window, snapshot.nowMs)
    const others = await readOtherKeys(snapshot, namesOf(clients), window)
    const events = await Promise.all([
      readLatest(snapshot, sectionsFor(clients, period), LATEST, 'true'),
      readLatest(snapshot, othersFor(clients, others, period), MOST_OTHERS, 'true'),
    ])
    const latest = events.flat().toSorted(byTime)
    return new Map(clients.map(({ client }) => [client, toLatest(latest.filter((event) => event.client === client))]))
  }
}

/** A client that was refused, and when that was last. */
export interface RefusedClient extends Pick<TopClient, 'client' | 'policies'> {
  readonly lastRefused: Period
}

/**
 * Reports the newest refusal of clients whose latest requests were let through, from the latest 5,000 events of each key
 * in the period of the last refusals.
 */
export function newestRefusals(clients: readonly RefusedClient[]): Report<ReadonlyMap<string, LatestRequest>> {
  return async (snapshot) => {
    if (clients.length === 0) return new Map()
    const since = Math.max(0, Math.min(...clients.map(({ lastRefused }) => lastRefused.startMs)))
    const others = await readOtherKeys(snapshot, namesOf(clients), { since })
    const sections = clients.flatMap((refused) => [
      ...sectionsFor([refused], refused.lastRefused),
      ...othersFor([refused], others, refused.lastRefused),
    ])
    const events = (await readLatest(snapshot, sections, MOST_READ, 'NOT allowed')).toSorted(byTime)
    return new Map(
      clients.flatMap(({ client }) => {
        const newest = events.find((event) => event.client === client)
        return newest === undefined ? [] : [[client, toRequest(newest)]]
      }),
    )
  }
}

/** A part of the log: the events of a key within a period. */
interface Section extends Period {
  readonly key: string
  /** The client whose events are meant, of a key that others share; empty for all of the key. */
  readonly client: string
}

function sectionsFor(clients: readonly Pick<TopClient, 'client' | 'policies'>[], period: Period): Section[] {
  const keys = clients.flatMap(({ client, policies }) =>
    keysForClient(
      client,
      policies.map(({ policy }) => policy),
    ),
  )
  return [...new Set(keys)].map((key) => ({ ...period, key, client: '' }))
}

function othersFor(clients: readonly Pick<TopClient, 'client'>[], others: OtherKeys, period: Period): Section[] {
  return clients.flatMap(({ client }) => (others.get(client) ?? []).map((key) => ({ ...period, client, key })))
}

function namesOf(clients: readonly Pick<TopClient, 'client'>[]): string[] {
  return clients.map(({ client }) => client)
}

interface LatestEvent extends LatestRequest {
  readonly client: string
  readonly weight: number
}

type EventFields = readonly [
  id: number,
  path: string,
  method: string,
  client: string,
  at_ms: number,
  allowed: boolean | number,
  weight: number,
]

/**
 * Reads the latest 20 events of each section that meet a condition, in one statement: it looks each key up in the index.
 *
 * @param most the number of events of a section that are read
 */
async function readLatest(
  snapshot: LogSnapshot,
  sections: readonly Section[],
  most: number,
  condition: string,
): Promise<readonly LatestEvent[]> {
  const { fromMs, jsonField, table, toMs } = snapshot.dialect
  const rows = await readForEach<EventFields>(
    snapshot,
    sections.map(({ key, startMs, endMs, client }) => [key, startMs, endMs, client]),
    'id, path, method, client, at_ms, allowed, weight',
    () =>
      `SELECT id, path, method, allowed, weight, "timestamp", at_ms, client FROM (
         SELECT id, path, method, allowed, weight, "timestamp", ${toMs('"timestamp"')} AS at_ms, ${CLIENT} AS client
         FROM ${table('rate_limit_event')}
         WHERE key = ${jsonField(0, 'text')} AND "timestamp" >= ${fromMs(jsonField(1, 'bigint'))}
           AND "timestamp" < ${fromMs(jsonField(2, 'bigint'))} ${NEWEST_FIRST} LIMIT ${most}
       ) AS newest
       WHERE ${jsonField(3, 'text')} IN ('', client) AND ${condition} ${NEWEST_FIRST} LIMIT ${LATEST}`,
  )
  return rows.map(([id, path, method, client, at_ms, allowed, weight]) => ({
    id,
    path,
    method,
    client,
    at_ms,
    allowed: Boolean(allowed),
    weight,
  }))
}

function byTime(one: LatestEvent, other: LatestEvent): number {
  return other.at_ms - one.at_ms || other.id - one.id
}

/** @param events of a client, the newest first */
function toLatest(events: readonly LatestEvent[]): LatestRequests {
  const request = events.find(({ allowed }) => !allowed) ?? events[0]
  const counts = new Map<string, number>()
  for (const { path, weight } of events) counts.set(path, (counts.get(path) ?? 0) + weight)
  const paths = [...counts]
    .toSorted(([one, times], [other, otherTimes]) => otherTimes - times || compareBytes(one, other))
    .slice(0, MAX_PATHS)
    .map(([path]) => path)
  return { paths, request: request === undefined ? null : toRequest(request) }
}

function toRequest({ client: _, weight: _weight, ...request }: LatestEvent): LatestRequest {
  return request
}
