import { namedClient } from '../clients/client-networks.js'
import { Parameters } from '../database/list.js'
import { InvalidSettingError } from '../ground/errors.js'
import { groupBy } from '../ground/group-by.js'
import { MAX_KEY_LENGTH, storable } from '../ground/storable.js'
import { MINUTE_MS } from '../ground/time/clock.js'
import { POLICY } from '../log/event-sql.js'
import {
  byRequests,
  CLIENT_SUMS,
  type ClientCounts,
  clientEventCounts,
  NO_REQUESTS,
  type PolicyCounts,
  sumRequests,
} from './client-counts.js'
import { type ClientOverrides, readClientOverrides } from './client-overrides.js'
import { type ClientCondition, clientCondition } from './find-clients.js'
import { type ClientEvent, readRecentEvents } from './listed-events.js'
import { barsFor, CHART_BARS } from './over-time.js'
import { report } from './registration.js'
import { type Coverage, clampedIsoTime, type LogSnapshot, type Report, toLogged } from './report.js'
import { type ReportWindow, toWindow, type WindowOptions, windowDays } from './report-window.js'

export interface ClientDetailOptions extends WindowOptions {
  /** The client as `getTopClients` spells it, `ip:203.0.113.7`, `user:7`, or a network: `ip:203.0.113.0/24`; `ip:` may be left out. */
  readonly client: string
  /** The most events to list: a whole number, 1 or more; 50 unless given. */
  readonly recent?: number | undefined
}

/** A client, whatever limits it met, or the 250 busiest clients of a network together. The totals are exact. */
export interface ClientDetail extends ClientCounts, ClientOverrides, Coverage {
  readonly client: string
  readonly days: number
  /** ISO 8601, UTC; null when the client has no event in the window. */
  readonly first_seen: string | null
  readonly last_seen: string | null
  /** The policies that decided about it: the most requests first, then by name. */
  readonly by_policy: readonly ClientPolicy[]
  /** The paths that it requested, the most often first; 20 at most. */
  readonly by_path: readonly ClientPath[]
  readonly timeline: ClientTimeline
  /** The latest events, newest first. */
  readonly recent_events: readonly ClientEvent[]
}

/** The requests that one policy decided, and where the client stood at the last of them. */
export interface ClientPolicy extends PolicyCounts {
  /** ISO 8601, UTC. */
  readonly last_seen: string
  /** The count and the limit of the last request. */
  readonly count: number
  readonly limit: number
}

export interface ClientPath extends ClientCounts {
  readonly path: string
}

/** The requests bar by bar, without gaps, oldest first: the first bar begins at or before the window. */
export interface ClientTimeline {
  /** The length of a bar, in milliseconds: 1 minute, 1 hour, 6 hours, 1 day or 7 days, by the length of the window. */
  readonly bar_ms: number
  readonly bars: readonly ClientBar[]
}

export interface ClientBar extends ClientCounts {
  /** The start in milliseconds since the epoch. */
  readonly start_ms: number
}

const MAX_PATHS = 20

/** Reports on one client. A client that is not in the log is no error: it has zeros, nulls and empty lists. */
export const clientDetail = report<ClientDetailOptions, ClientDetail>()({
  name: 'getClient',
  summary: 'Report on one client, over all rules',
  window: 7,
  recent: 50,
  options: ({ spelling }) => ({
    client: spelling('ip:203.0.113.7, ip:203.0.113.0/24 or user:7; ip: may be left out.'),
  }),
  answer: ({ text, time, count, counts, texts, orNull, listOf, clientCounts, ...fields }) => ({
    client: text,
    days: fields.number,
    ...clientCounts,
    first_seen: orNull(time),
    last_seen: orNull(time),
    by_policy: listOf({ policy: text, ...clientCounts, last_seen: time, ...counts('count', 'limit') }),
    by_path: listOf({ path: text, ...clientCounts }),
    timeline: fields.type.Object({ bar_ms: count, bars: listOf({ start_ms: count, ...clientCounts }) }),
    recent_events: listOf({
      id: count,
      ...fields.event,
      weight: fields.type.Optional(fields.weight),
      ...texts('client', 'key', 'policy', 'outcome'),
      rules: fields.rules,
    }),
    overrides: listOf({
      id: count,
      ...texts('client', 'effect', 'algorithm', 'path_pattern'),
      expires_at: orNull(time),
      note: text,
      created_at: time,
      updated_at: time,
      actor: text,
    }),
    history: fields.type.Array(fields.change),
    ...fields.coverage,
  }),
  read: ({ client, window, recent }, snapshot) => readClientDetail(snapshot, client, window, recent),
})

/** @param onlyRefused whether paths and events are listed by what was refused, and only those with refusals */
export async function readClientDetail(
  snapshot: LogSnapshot,
  client: string,
  window: ReportWindow,
  recent: number,
  onlyRefused = false,
): Promise<ClientDetail> {
  if (typeof client !== 'string') {
    throw new InvalidSettingError(`Option "client" is ${String(client)}: give a client such as ip:203.0.113.7`)
  }
  const spelled = storable(namedClient(client), MAX_KEY_LENGTH)
  const stored = storable(toLogged(snapshot, spelled), MAX_KEY_LENGTH)
  // The empty client stands for all those that the log does not know.
  const isTheirs = stored === '' ? () => 'false' : await clientCondition(snapshot, stored, window)
  const isListed: ClientCondition = (parameters) =>
    onlyRefused ? `${isTheirs(parameters)} AND NOT allowed` : isTheirs(parameters)
  const [bars, by_path, recent_events, overrides] = await Promise.all([
    readBars(snapshot, isTheirs, window),
    readPaths(snapshot, isTheirs, onlyRefused),
    readRecentEvents(snapshot, isListed, recent),
    readClientOverrides(snapshot, [stored, spelled]),
  ])
  const seen = (moment: 'first_ms' | 'last_ms', choose: (...times: number[]) => number) =>
    bars.length === 0 ? null : clampedIsoTime(choose(...bars.map((bar) => bar[moment])))
  return {
    client: stored,
    days: windowDays(window, snapshot.nowMs),
    ...sumRequests(bars),
    first_seen: seen('first_ms', Math.min),
    last_seen: seen('last_ms', Math.max),
    by_policy: await readPolicies(snapshot, isTheirs, bars),
    by_path,
    timeline: toTimeline(snapshot, window, bars),
    recent_events,
    ...overrides,
    ...snapshot.coverage,
  }
}

/** Reports the path that a client, or the busiest clients of a network, requested most often; undefined without requests. */
export function busiestPath(client: string, options: WindowOptions): Report<string | undefined> {
  const window = toWindow(options, 1)
  return async (snapshot) => {
    const stored = storable(toLogged(snapshot, storable(namedClient(client), MAX_KEY_LENGTH)), MAX_KEY_LENGTH)
    const [first] = await readPaths(snapshot, await clientCondition(snapshot, stored, window), false)
    return first?.path
  }
}

/** Enough for what a client asked for at most within a minute or an hour, and some milliseconds of work. */
const MAX_REQUESTS = 10_000

/** Reports the latest requests of a client or a network in the last day, the newest first; 10,000 at most. */
export function readClientRequests(client: string): Report<readonly ClientEvent[]> {
  return async (snapshot) => {
    const stored = storable(toLogged(snapshot, client), MAX_KEY_LENGTH)
    return readRecentEvents(snapshot, await clientCondition(snapshot, stored, { days: 1 }), MAX_REQUESTS)
  }
}

/** The decisions of one policy in one bar. */
interface PolicyBar extends PolicyCounts {
  /** The number of bars since the epoch. */
  readonly bar: number
  readonly first_ms: number
  readonly last_ms: number
}

async function readBars(
  { query, dialect, nowMs }: LogSnapshot,
  isTheirs: ClientCondition,
  window: ReportWindow,
): Promise<PolicyBar[]> {
  const { barMs } = barsFor(CHART_BARS, window, nowMs)
  const parameters = new Parameters()
  const counted = `SELECT ${POLICY} AS policy, ${dialect.toMinute('"timestamp"')} / ${barMs / MINUTE_MS} AS bar,
      ${dialect.toMs('"timestamp"')} AS at_ms, ${clientEventCounts()}
    FROM ${dialect.table('rate_limit_event')} WHERE ${isTheirs(parameters)}`
  return query<PolicyBar>(
    `SELECT policy, bar, MIN(at_ms) AS first_ms, MAX(at_ms) AS last_ms, ${CLIENT_SUMS}
     FROM (${counted}) AS counted GROUP BY policy, bar`,
    parameters.values,
  )
}

function toTimeline({ nowMs }: LogSnapshot, window: ReportWindow, counted: readonly PolicyBar[]): ClientTimeline {
  const { barMs, starts } = barsFor(CHART_BARS, window, nowMs)
  const bars = new Map<number, ClientCounts>()
  for (const { bar, ...counts } of counted) {
    bars.set(bar * barMs, sumRequests([counts, bars.get(bar * barMs) ?? NO_REQUESTS]))
  }
  return { bar_ms: barMs, bars: starts.map((start_ms) => ({ start_ms, ...(bars.get(start_ms) ?? NO_REQUESTS) })) }
}

async function readPolicies(
  snapshot: LogSnapshot,
  isTheirs: ClientCondition,
  bars: readonly PolicyBar[],
): Promise<ClientPolicy[]> {
  const policies = Array.from(
    groupBy(bars, ({ policy }) => policy),
    ([policy, decided]) => ({
      policy,
      ...sumRequests(decided),
      last_ms: Math.max(...decided.map(({ last_ms }) => last_ms)),
    }),
  )
  policies.sort(byRequests)
  const lasts = await readStandings(
    snapshot,
    isTheirs,
    policies.map(({ last_ms }) => last_ms),
  )
  return policies.map(({ last_ms, ...counts }) => {
    const { count, limit } = lasts.get(counts.policy) ?? { count: 0, limit: 0 }
    return { ...counts, last_seen: clampedIsoTime(last_ms), count, limit }
  })
}

/**
 * Reads what the last event of each policy counted, in one statement: the clients of a network may have met thousands.
 *
 * @param times those of the last events
 */
async function readStandings(
  { query, dialect }: LogSnapshot,
  isTheirs: ClientCondition,
  times: readonly number[],
): Promise<ReadonlyMap<string, { readonly count: number; readonly limit: number }>> {
  const parameters = new Parameters()
  // SQLite keeps the order of a CROSS JOIN: it looks each moment up, instead of all requests of the client.
  const moments = `SELECT DISTINCT ${dialect.fromMs(dialect.jsonField(0, 'bigint'))} AS moment
    FROM ${dialect.jsonRows(parameters.add(JSON.stringify(times.map((time) => [time]))))}`
  const rows = await query<{ policy: string; count: number; limit: number }>(
    `SELECT policy, count, "limit" FROM (
       SELECT ${POLICY} AS policy, count, "limit",
         ROW_NUMBER() OVER (PARTITION BY ${POLICY} ORDER BY "timestamp" DESC, id DESC) AS place
       FROM (${moments}) AS moments CROSS JOIN ${dialect.table('rate_limit_event')}
       WHERE ${isTheirs(parameters)} AND "timestamp" = moment
     ) AS placed WHERE place = 1`,
    parameters.values,
  )
  return new Map(rows.map(({ policy, ...standing }) => [policy, standing]))
}

function readPaths(
  { query, dialect }: LogSnapshot,
  isTheirs: ClientCondition,
  onlyRefused: boolean,
): Promise<ClientPath[]> {
  const parameters = new Parameters()
  const measure = onlyRefused ? 'SUM(over_limit + denied)' : 'SUM(requests)'
  return query<ClientPath>(
    `SELECT path, ${CLIENT_SUMS} FROM (
       SELECT path, ${clientEventCounts()} FROM ${dialect.table('rate_limit_event')} WHERE ${isTheirs(parameters)}
     ) AS counted GROUP BY path HAVING ${measure} > 0
     ORDER BY ${measure} DESC, ${dialect.bytewise('path')} LIMIT ${MAX_PATHS}`,
    parameters.values,
  )
}
