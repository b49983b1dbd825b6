/** The clients that the dashboard lists: over all rules, or their networks. */
import { clientAddress, neighbourhood, networkClient } from '../clients/client-networks.js'
import { Parameters } from '../database/list.js'
import { rememberClients } from '../ground/remember.js'
import { CLIENT, POLICY } from '../log/event-sql.js'
import {
  byRequests,
  CLIENT_SUMS,
  type ClientCounts,
  clientEventCounts,
  type PolicyCounts,
  sumRequests,
} from './client-counts.js'
import { keysToLookUp } from './client-search.js'
import { type RefusedOverTime, readRefusedOverTime } from './clients-over-time.js'
import { type EventFilter, filtered, isFiltering } from './filter.js'
import { type LatestRequests, latestRequests, newestRefusals, type RefusedClient } from './latest-requests.js'
import { conditionFor, duringPeriod, TURNED_AWAY_EVENTS } from './logged-events.js'
import type { LogSnapshot } from './report.js'
import { type ReportWindow, windowFor } from './report-window.js'
import { type ClientMeasure, countClients, rankClients, type TopClient } from './top-clients.js'
import { groupAddresses, rankNetworks, type TopNetwork, topNetworks } from './top-networks.js'

/** A client with what it requested last, and when it was refused. */
export interface ListedClient extends TopClient, RefusedOverTime, LatestRequests {}

/** The subject of the list, and the measure that ranks it. */
export interface Listing {
  readonly by: ClientMeasure
  readonly group: 'client' | 'network'
}

export const DEFAULT_LISTING: Listing = { by: 'refused', group: 'client' }

/** The number of first clients of a filtered page that are grouped. */
const MAX_GROUPED = 10_000
/** The number of clients from which those are chosen that are listed. */
const CANDIDATES = 100
/** The most listed clients of one network: others were refused, too. */
const MAX_NEIGHBOURS = 12

export async function readListedClients(
  snapshot: LogSnapshot,
  window: ReportWindow,
  filter: EventFilter,
  { by }: Listing,
  limit: number,
): Promise<readonly ListedClient[]> {
  const clients = isFiltering(filter)
    ? await topFilteredClients(snapshot, window, filter, by, limit)
    : await countClients(
        snapshot,
        window,
        (await rankClients(snapshot, window, by, CANDIDATES)).filter(createRoom()).slice(0, limit),
      )
  const names = clients.map(({ client }) => client)
  const [latest, overTime] = await Promise.all([
    latestRequests(clients, window)(snapshot),
    readRefusedOverTime(snapshot, window, filter, names),
  ])
  const listed = clients.flatMap((counts) => {
    const [refused, requested] = [overTime.get(counts.client), latest.get(counts.client)]
    return refused === undefined || requested === undefined ? [] : [{ ...counts, ...refused, ...requested }]
  })
  const refusals = await newestRefusals(listed.flatMap(refusedBefore))(snapshot)
  return listed.map((row) => ({ ...row, request: refusals.get(row.client) ?? row.request }))
}

/** Returns when a client was refused last, where its latest requests were all let through. */
function refusedBefore({ client, policies, request, bars, bar_ms }: ListedClient): RefusedClient[] {
  const last = bars.findLast(({ over_limit, denied }) => over_limit + denied > 0)
  if (last === undefined || request?.allowed === false) return []
  return [{ client, policies, lastRefused: { startMs: last.start_ms, endMs: last.start_ms + bar_ms } }]
}

/** Creates the function that returns whether a list has room for the next client of its network. */
function createRoom(): (client: string) => boolean {
  const neighbours = new Map<string, number>()
  return function hasRoom(client) {
    const network = networkAround(client)
    const before = neighbours.get(network) ?? 0
    neighbours.set(network, before + 1)
    return before < MAX_NEIGHBOURS
  }
}

/**
 * Returns the network of a client, or the client itself where it has none. Parsing addresses takes a third of the time of
 * a page, and pages that follow list the same clients.
 */
export const networkAround = rememberClients((client) => {
  const address = clientAddress(client)
  return address === undefined ? client : networkClient(neighbourhood(address))
})

export async function readListedNetworks(
  snapshot: LogSnapshot,
  window: ReportWindow,
  filter: EventFilter,
  { by }: Listing,
  limit: number,
): Promise<readonly TopNetwork[]> {
  if (!isFiltering(filter)) return topNetworks({ ...window, limit, by })(snapshot)
  const clients = await rankFilteredClients(snapshot, window, filter, by, MAX_GROUPED, true)
  return rankNetworks(groupAddresses([], clients), by, limit)
}

interface CountedClient extends ClientCounts {
  readonly client: string
}

/**
 * Ranks the clients whose requests pass a filter, from the events: no rollup has clients together with paths and methods.
 *
 * @param isWhole whether by `refused` all requests of these clients are counted, for which it reads more events
 */
async function rankFilteredClients(
  { query, dialect, nowMs }: LogSnapshot,
  window: ReportWindow,
  filter: EventFilter,
  by: ClientMeasure,
  limit: number,
  isWhole = false,
): Promise<readonly CountedClient[]> {
  const parameters = new Parameters()
  const isRanked = by === 'refused' && !isWhole ? `${conditionFor(TURNED_AWAY_EVENTS, filter)} AND ` : ''
  const measure = by === 'refused' ? 'SUM(over_limit + denied)' : 'SUM(requests)'
  return query<CountedClient>(
    `SELECT client, ${CLIENT_SUMS} FROM (
       SELECT ${CLIENT} AS client, ${clientEventCounts()} FROM ${dialect.table('rate_limit_event')}
       WHERE ${isRanked}${duringPeriod(dialect, windowFor(window, nowMs), parameters)}${filtered(dialect, filter, parameters)}
     ) AS events WHERE client <> '' GROUP BY client HAVING ${measure} > 0
     ORDER BY ${measure} DESC, ${dialect.bytewise('client')} LIMIT ${parameters.add(limit)}`,
    parameters.values,
  )
}

/** Reports the clients whose requests pass a filter, by all that passes it. */
async function topFilteredClients(
  snapshot: LogSnapshot,
  window: ReportWindow,
  filter: EventFilter,
  by: ClientMeasure,
  limit: number,
): Promise<readonly TopClient[]> {
  const candidates = await rankFilteredClients(snapshot, window, filter, by, CANDIDATES)
  if (candidates.length === 0) return []
  const hasRoom = createRoom()
  const ranked = candidates.filter(({ client }) => hasRoom(client)).slice(0, limit)
  const { query, dialect, nowMs } = snapshot
  const names = ranked.map(({ client }) => client)
  const parameters = new Parameters()
  const keys = await keysToLookUp(snapshot, window, names)
  const isOfKeys =
    keys === undefined ? '' : `${dialect.isOneOf('key', parameters.add(JSON.stringify(keys)), 'text')} AND `
  const rows = await query<PolicyCounts & { readonly client: string }>(
    `SELECT client, policy, ${CLIENT_SUMS} FROM (
       SELECT ${CLIENT} AS client, ${POLICY} AS policy, ${clientEventCounts()} FROM ${dialect.table('rate_limit_event')}
       WHERE ${isOfKeys}${duringPeriod(dialect, windowFor(window, nowMs), parameters)}${filtered(dialect, filter, parameters)}
     ) AS events WHERE ${dialect.isOneOf('client', parameters.add(JSON.stringify(names)), 'text')} GROUP BY client, policy`,
    parameters.values,
  )
  return ranked.map(({ client, ...counts }) => {
    const policies = rows
      .filter((row) => row.client === client)
      .map(({ client: _, ...policy }) => policy)
      .toSorted(byRequests)
    // A client that was cut to fit has keys that are unknown.
    return { client, ...(policies.length === 0 ? counts : sumRequests(policies)), policies }
  })
}
