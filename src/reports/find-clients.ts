import { splitKey } from '../clients/client.js'
import { isNetwork } from '../clients/client-networks.js'
import { type Parameters, readForEach } from '../database/list.js'
import { InvalidSettingError } from '../ground/errors.js'
import { MAX_KEY_LENGTH, storable } from '../ground/storable.js'
import { CLIENT } from '../log/event-sql.js'
import { compareBytes } from './breakdown.js'
import {
  type ClientCounts,
  clientBuckets,
  clientEvents,
  readClientCounts,
  splitForClients,
  sumRequests,
} from './client-counts.js'
import { type ClientSearch, collectKeys, keysToLookUp, parseClientSearch, readRuleNames } from './client-search.js'
import { type EventFilter, filtered, inRange, type ReportFilter } from './filter.js'
import { NEWEST_FIRST } from './listed-events.js'
import { duringPeriod, readSplit } from './logged-events.js'
import { type LogSnapshot, type Report, toLogged, validateAtLeastOne } from './report.js'
import { type ReportWindow, toWindow, type WindowOptions, windowFor } from './report-window.js'
import { type ClientMeasure, measureOf } from './top-clients.js'

/** A client that a search text may mean. */
export interface FoundClient extends ClientCounts {
  /** The client as `getClient` takes it. */
  readonly client: string
  /** Whether the text spells this client: it is listed even where the log has nothing of it. */
  readonly is_exact: boolean
}

interface FindClientsOptions extends WindowOptions {
  /** An address, a network, a user's id, a client or a key, in any spelling. */
  readonly text: string
  /** The most clients to return: a whole number, 1 or more; 20 unless given. */
  readonly limit?: number | undefined
  /**
   * The ranking: with `refused` only clients are returned that were refused anything, the most first; `requests` unless
   * given.
   */
  readonly by?: ClientMeasure | undefined
}

/** The number of the latest events of a key that are read, and of clients of a network that are looked at. */
const LATEST = 20
const MAX_NEIGHBOURS = 1_000

/**
 * Finds the clients that a text may mean: `203.0.113.50`, `ip:203.0.113.50`, `user:7`, `7`, `2001:db8::1`,
 * `203.0.113.0/24`, `rule:login:203.0.113.50`. Those that it spells are first, then those with the most requests.
 */
export function findClients({
  text,
  limit = 20,
  by = 'requests',
  ...options
}: FindClientsOptions): Report<readonly FoundClient[]> {
  if (typeof text !== 'string') {
    throw new InvalidSettingError(`Option "text" is ${String(text)}: give a client such as 203.0.113.7`)
  }
  const window = toWindow(options, 7)
  validateAtLeastOne('limit', limit)
  return async (snapshot) => {
    const search = parseClientSearch(storable(text.trim(), MAX_KEY_LENGTH), snapshot.privacy)
    if (search === undefined) return []
    const [ofKeys, inRanges] = await Promise.all([
      clientsOfKeys(snapshot, await collectKeys(await readRuleNames(snapshot, window), [], search), window),
      clientsInRange(snapshot, search, window),
    ])
    const exact = new Set(search.clients)
    const names = [...new Set([...exact, ...search.networks, ...ofKeys, ...inRanges])].filter((name) => name !== '')
    const counts = await readClientCounts(snapshot, windowFor(window, snapshot.nowMs), names)
    return names
      .map((client) => ({ client, is_exact: exact.has(client), ...sumRequests(counts.get(client) ?? []) }))
      .filter((each) => each.is_exact || measureOf(each, by) > 0)
      .toSorted(
        (one, other) =>
          Number(other.is_exact) - Number(one.is_exact) ||
          measureOf(other, by) - measureOf(one, by) ||
          compareBytes(one.client, other.client),
      )
      .slice(0, limit)
  }
}

/** Reads the clients of the latest events that have one of some keys. */
async function clientsOfKeys(snapshot: LogSnapshot, keys: readonly string[], window: ReportWindow): Promise<string[]> {
  const { dialect, nowMs } = snapshot
  const rows = await readForEach<[client: string]>(
    snapshot,
    keys.map((key) => [key]),
    'client',
    (parameters) =>
      `SELECT ${CLIENT} AS client FROM ${dialect.table('rate_limit_event')} WHERE key = ${dialect.jsonField(0, 'text')}
       AND ${duringPeriod(dialect, windowFor(window, nowMs), parameters)} ${NEWEST_FIRST} LIMIT ${LATEST}`,
  )
  return rows.map(([client]) => client)
}

/** Reads the clients whose spelling is in a range of texts: those of a network, and those with further parts. */
async function clientsInRange(
  snapshot: LogSnapshot,
  { range, isMeant }: ClientSearch,
  window: ReportWindow,
): Promise<string[]> {
  if (range === undefined) return []
  const { dialect, nowMs } = snapshot
  const split = splitForClients(windowFor(window, nowMs), snapshot.sums)
  const isBetween = (client: string, parameters: Parameters) =>
    `${dialect.bytewise(client)} >= ${parameters.add(range.from)} AND ${dialect.bytewise(client)} < ${parameters.add(range.to)}`
  const rows = await readSplit<{ client: string; requests: number }>(snapshot, split, {
    select: (counts) =>
      `SELECT client, SUM(requests) AS requests FROM (${counts}) AS counts
       GROUP BY client ORDER BY SUM(requests) DESC, client LIMIT ${MAX_NEIGHBOURS}`,
    buckets: (ranges, parameters) =>
      clientBuckets(
        dialect,
        ranges,
        (buckets) => `${inRange('bucket', buckets, parameters)} AND ${isBetween('client', parameters)}`,
      ),
    events: (logged, parameters) =>
      clientEvents(snapshot, logged, parameters, () => isBetween(`(${CLIENT})`, parameters)),
  })
  return rows.map(({ client }) => client).filter(isMeant)
}

/** The most clients of a network that a report includes: the busiest. */
const MAX_CLIENTS = 250

/** Finds the clients that a filter means: `203.0.113.50` under all rules, `203.0.113.0/24` with its clients. */
export async function findFiltered(
  snapshot: LogSnapshot,
  filter: ReportFilter,
  window: ReportWindow,
): Promise<EventFilter> {
  const { key } = filter
  if (key !== undefined && splitKey(key).rule !== undefined) return { ...filter, key: toLogged(snapshot, key) }
  const search = key === undefined ? undefined : parseClientSearch(key, snapshot.privacy)
  if (search === undefined) return filter
  const inRange = await clientsInRange(snapshot, search, window)
  const clients = [...new Set([...search.clients, ...search.networks, ...inRange.slice(0, MAX_CLIENTS)])]
  const keys = await keysToLookUp(snapshot, window, clients, search)
  return { ...filter, found: { clients: JSON.stringify(clients), keys: keys && JSON.stringify(keys) } }
}

/** Creates the condition that an event is of a window and of a client. */
export type ClientCondition = (parameters: Parameters) => string

/**
 * Finds the events of a client by its keys: the log has no index of clients.
 *
 * @param client as the log has it; a network stands for its busiest clients
 */
export async function clientCondition(
  snapshot: LogSnapshot,
  client: string,
  window: ReportWindow,
): Promise<ClientCondition> {
  const { dialect, nowMs } = snapshot
  const period = windowFor(window, nowMs)
  if (isNetwork(client)) {
    const filter = await findFiltered(snapshot, { key: client }, window)
    return (parameters) => `${duringPeriod(dialect, period, parameters)}${filtered(dialect, filter, parameters)}`
  }
  // A client that was cut has a key of which more may have been kept.
  const keys = client.length < MAX_KEY_LENGTH ? await keysToLookUp(snapshot, window, [client]) : undefined
  return (parameters) => {
    const isOfKeys =
      keys === undefined ? '' : `${dialect.isOneOf('key', parameters.add(JSON.stringify(keys)), 'text')} AND `
    return `${isOfKeys}${duringPeriod(dialect, period, parameters)} AND (${CLIENT}) = ${parameters.add(client)}`
  }
}
