/** Who is listed on the dashboard: clients over all rules, or their networks. */
import { type RefusedOverTime, readRefusedOverTime } from './clients-over-time.js'
import { type EventFilter, isFiltering } from './filter.js'
import { rankFilteredClients, topFilteredClients } from './filtered-clients.js'
import { type LatestRequests, latestRequests } from './latest-requests.js'
import { type ClientMeasure, type TopClient, topClients } from './top-clients.js'
import { groupAddresses, rankNetworks, type TopNetwork, topNetworks } from './top-networks.js'
import type { LogSnapshot } from './window.js'

/** A client with what it requested last, and when it was refused. */
export interface ListedClient extends TopClient, RefusedOverTime, LatestRequests {}

/** What the list is of, and by what it is ranked. */
export interface Listing {
  readonly by: ClientMeasure
  readonly group: 'client' | 'network'
}

export const DEFAULT_LISTING: Listing = { by: 'refused', group: 'client' }

/** Of a filtered page only the first clients are grouped. */
const MAX_GROUPED = 10_000

export async function readListedClients(
  snapshot: LogSnapshot,
  days: number,
  filter: EventFilter,
  { by }: Listing,
  limit: number,
): Promise<readonly ListedClient[]> {
  const clients = isFiltering(filter)
    ? await topFilteredClients(snapshot, days, filter, by, limit)
    : await topClients({ days, limit, by })(snapshot)
  const names = clients.map(({ client }) => client)
  const [latest, overTime] = await Promise.all([
    latestRequests(clients, days)(snapshot),
    readRefusedOverTime(snapshot, days, filter, names),
  ])
  return clients.flatMap((its) => {
    const [refused, requested] = [overTime.get(its.client), latest.get(its.client)]
    return refused === undefined || requested === undefined ? [] : [{ ...its, ...refused, ...requested }]
  })
}

export async function readListedNetworks(
  snapshot: LogSnapshot,
  days: number,
  filter: EventFilter,
  { by }: Listing,
  limit: number,
): Promise<readonly TopNetwork[]> {
  if (!isFiltering(filter)) return topNetworks({ days, limit, by })(snapshot)
  const clients = await rankFilteredClients(snapshot, days, filter, by, MAX_GROUPED)
  return rankNetworks(groupAddresses([], clients), by, limit)
}
