import { CLIENT } from '../log/event-sql.js'
import { compareBytes } from './breakdown.js'
import { keysForClient } from './client-search.js'
import { Parameters } from './filter.js'
import { duringPeriod } from './logged-events.js'
import type { LogSnapshot, Report } from './report.js'
import { type ReportWindow, windowFor } from './report-window.js'
import type { TopClient } from './top-clients.js'

/** How many of the latest events of a key are read, and how many paths of a client are returned. */
const LATEST = 20
const MAX_PATHS = 3

/** What a client requested last. */
export interface LatestRequests {
  /** The most often first: three at most. */
  readonly paths: readonly string[]
  /** Its latest refused request, or its latest one where none was refused; null where the log has none. */
  readonly request: { readonly method: string; readonly path: string } | null
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
    const keys = clients.map(({ client, policies }) =>
      keysForClient(
        client,
        policies.map(({ policy }) => policy),
      ),
    )
    const events = await readLatest(snapshot, [...new Set(keys.flat())], window)
    return new Map(
      clients.map(({ client }, index) => {
        const ofKeys = (keys[index] ?? []).flatMap((key) => events.get(key) ?? [])
        return [client, toLatest(ofKeys.filter((event) => event.client === client))]
      }),
    )
  }
}

interface LatestEvent {
  readonly path: string
  readonly method: string
  readonly client: string
  readonly atMs: number
  readonly allowed: boolean
}

type EventFields = readonly [path: string, method: string, client: string, atMs: number, allowed: boolean | number]

/** Reads the latest events of each key, the newest first, in one statement: it looks each key up in the index. */
async function readLatest(
  { query, dialect, nowMs }: LogSnapshot,
  keys: readonly string[],
  window: ReportWindow,
): Promise<ReadonlyMap<string, readonly LatestEvent[]>> {
  const key = dialect.jsonField(0, 'text')
  const parameters = new Parameters()
  const listed = dialect.jsonRows(parameters.add(JSON.stringify(keys.map((each) => [each]))))
  const rows = await query<{ key: string; events: string | null }>(
    `SELECT ${key} AS key, (
       SELECT ${dialect.rowsAsJson('path, method, client, at_ms, allowed')} FROM (
         SELECT path, method, allowed, ${dialect.toMs('"timestamp"')} AS at_ms, ${CLIENT} AS client
         FROM ${dialect.table('rate_limit_event')}
         WHERE key = ${key} AND ${duringPeriod(dialect, windowFor(window, nowMs), parameters)}
         ORDER BY "timestamp" DESC, id DESC LIMIT ${LATEST}
       ) AS latest
     ) AS events FROM ${listed}`,
    parameters.values,
  )
  return new Map(rows.map(({ key, events }) => [key, events === null ? [] : parseEvents(events)]))
}

function parseEvents(text: string): LatestEvent[] {
  const rows: readonly EventFields[] = JSON.parse(text)
  return rows.map(([path, method, client, atMs, allowed]) => ({
    path,
    method,
    client,
    atMs,
    allowed: Boolean(allowed),
  }))
}

function toLatest(ofKeys: readonly LatestEvent[]): LatestRequests {
  // Sorting is stable: of the events of one key the latest stays before the others.
  const events = ofKeys.toSorted((one, other) => other.atMs - one.atMs)
  const { method, path } = events.find(({ allowed }) => !allowed) ?? events[0] ?? {}
  const counts = new Map<string, number>()
  for (const { path } of events) counts.set(path, (counts.get(path) ?? 0) + 1)
  const paths = [...counts]
    .toSorted(([one, times], [other, otherTimes]) => otherTimes - times || compareBytes(one, other))
    .slice(0, MAX_PATHS)
    .map(([path]) => path)
  return { paths, request: method === undefined || path === undefined ? null : { method, path } }
}
