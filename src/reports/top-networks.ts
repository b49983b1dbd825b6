import { clientAddress, neighbourhood, networkClient } from '../clients/client-networks.js'
import { Parameters } from '../database/list.js'
import { CLIENT } from '../log/event-sql.js'
import { compareBytes } from './breakdown.js'
import {
  CLIENT_SUMS,
  type ClientCounts,
  clientBuckets,
  clientEvents,
  NO_REQUESTS,
  splitForClients,
  sumRequests,
} from './client-counts.js'
import { inRange } from './filter.js'
import { loggedEvents } from './logged-events.js'
import { type Report, validateAtLeastOne } from './report.js'
import { toWindow, windowFor } from './report-window.js'
import { type ClientMeasure, type TopClientsOptions, validateMeasure } from './top-clients.js'

/** The clients of one network, counted by address: a /24, for IPv6 a /64, or the larger network of one client. */
export interface TopNetwork extends ClientCounts {
  /** `ip:203.0.113.0/24`, as an override takes it. */
  readonly network: string
  /** The number of its addresses that were refused something or, by requests, asked anything. */
  readonly clients: number
}

const MEASURES = {
  refused: { sql: 'SUM(over_limit + denied)', measure: ({ over_limit, denied }: ClientCounts) => over_limit + denied },
  requests: { sql: 'SUM(requests)', measure: ({ requests }: ClientCounts) => requests },
} as const

/** The condition of IPv4, which no SQL of both databases knows: only digits and dots are behind the kind. */
const IS_IPV4 = `trim(client, '0123456789.') = 'ip:'`
const IPV4_NETWORK = `rtrim(client, '0123456789') || '0/24'`
/** An IPv6 address without the bits of its network is spelled in several ways: it is grouped here. */
const IS_IPV6 = `NOT (${IS_IPV4}) AND client NOT LIKE '%/%'`
const isAddressSql = (client: string) => `${client} >= 'ip:' AND ${client} < 'ip;'`

/**
 * Reports the networks whose clients were refused the most, or asked the most. It reads all clients of the window, where
 * `topClients` reads few of them: for a page that is asked for, not for one that refreshes.
 */
export function topNetworks({
  limit = 100,
  by = 'refused',
  ...options
}: TopClientsOptions = {}): Report<readonly TopNetwork[]> {
  const window = toWindow(options, 7)
  validateAtLeastOne('limit', limit)
  validateMeasure(by)
  const { sql } = MEASURES[by]
  return async (snapshot) => {
    const { query, dialect, nowMs } = snapshot
    const split = splitForClients(windowFor(window, nowMs), snapshot.sums)
    const byClient = (parameters: Parameters) =>
      `SELECT client, ${CLIENT_SUMS} FROM (${[
        ...clientBuckets(
          dialect,
          split.buckets,
          (range) => `${inRange('bucket', range, parameters)} AND ${isAddressSql(dialect.bytewise('client'))}`,
        ),
        ...clientEvents(snapshot, loggedEvents(snapshot, split), parameters, () =>
          isAddressSql(dialect.bytewise(`(${CLIENT})`)),
        ),
      ].join(' UNION ALL ')}) AS counts WHERE client NOT LIKE '%|%' GROUP BY client HAVING ${sql} > 0`
    const [grouped, single] = [new Parameters(), new Parameters()]
    const [networks, addresses] = await Promise.all([
      query<TopNetwork>(
        `SELECT network, COUNT(*) AS clients, ${CLIENT_SUMS} FROM (
           SELECT CASE WHEN ${IS_IPV4} THEN ${IPV4_NETWORK} ELSE client END AS network, requests, over_limit, would_be, denied
           FROM (${byClient(grouped)}) AS clients WHERE NOT (${IS_IPV6})
         ) AS named GROUP BY network
         ORDER BY ${sql} DESC, ${dialect.bytewise('network')} LIMIT ${grouped.add(limit)}`,
        grouped.values,
      ),
      query<ClientCounts & { readonly client: string }>(
        `SELECT * FROM (${byClient(single)}) AS clients WHERE ${IS_IPV6}`,
        single.values,
      ),
    ])
    return rankNetworks(groupAddresses(networks, addresses), by, limit)
  }
}

/** Returns the first networks by a measure, then by their bytes. */
export function rankNetworks(networks: readonly TopNetwork[], by: ClientMeasure, limit: number): TopNetwork[] {
  const { measure } = MEASURES[by]
  return networks
    .toSorted((one, other) => measure(other) - measure(one) || compareBytes(one.network, other.network))
    .slice(0, limit)
}

/** Adds addresses to the networks that contain them. */
export function groupAddresses(
  counted: readonly TopNetwork[],
  addresses: readonly (ClientCounts & { readonly client: string })[],
): TopNetwork[] {
  const networks = new Map(counted.map((counts) => [counts.network, counts]))
  for (const { client, ...counts } of addresses) {
    const address = clientAddress(client)
    // All requests without an address share one client.
    if (address === undefined) continue
    const network = networkClient(neighbourhood(address))
    const before = networks.get(network)
    networks.set(network, {
      network,
      clients: (before?.clients ?? 0) + 1,
      ...sumRequests([counts, before ?? NO_REQUESTS]),
    })
  }
  return [...networks.values()]
}
