/** Clients of one network that are listed together: twelve addresses are one row. */

import { sumRequests } from '../../reports/client-counts.js'
import { type ListedClient, networkAround } from '../../reports/dashboard-clients.js'
import type { LatestRequest } from '../../reports/latest-requests.js'
import type { ClientMeasure } from '../../reports/top-clients.js'

/** A client, or three or more of one network. */
export interface ListRow extends Omit<ListedClient, 'client' | 'request'> {
  /**
   * The newest refusal of the client, or of all in the network, to explain; the newest request where none was refused, and
   * undefined where the log has neither.
   */
  readonly why: (LatestRequest & { readonly client: string }) | undefined
  /** The client, or the network. */
  readonly name: string
  /** The clients of a network, in the order of the list; empty for a client. */
  readonly members: readonly ListedClient[]
}

/** The least members: fewer may be neighbours by chance. */
const LEAST_MEMBERS = 3
const MAX_PATHS = 3

/** Groups the listed clients of one network, /24 or /64 of IPv6, and ranks the rows again. */
export function groupNeighbours(clients: readonly ListedClient[], by: ClientMeasure): ListRow[] {
  const networks = new Map<string, ListedClient[]>()
  for (const listed of clients) {
    const name = networkAround(listed.client)
    networks.set(name, [...(networks.get(name) ?? []), listed])
  }
  const rows = [...networks].flatMap(([name, members]) =>
    members.length < LEAST_MEMBERS ? members.map(toRow) : [sumRow(name, members)],
  )
  const measure = ({ requests, over_limit, denied }: ListRow) => (by === 'requests' ? requests : over_limit + denied)
  // Sorting is stable: rows with as many stay in the order of the list.
  return rows.toSorted((one, other) => measure(other) - measure(one))
}

/** Returns each client in a row of its own. */
export function toRow({ client, request, ...listed }: ListedClient): ListRow {
  return { ...listed, name: client, members: [], why: request === null ? undefined : { client, ...request } }
}

function sumRow(name: string, members: readonly ListedClient[]): ListRow {
  const [{ bar_ms, bars } = { bar_ms: 0, bars: [] }] = members
  const [why] = members
    .flatMap((member) => toRow(member).why ?? [])
    .toSorted((one, other) => Number(one.allowed) - Number(other.allowed) || other.at_ms - one.at_ms)
  const policies = new Set(members.flatMap((listed) => listed.policies.map(({ policy }) => policy)))
  const ofPolicy = (policy: string) =>
    members.flatMap((listed) => listed.policies.filter((each) => each.policy === policy))
  return {
    name,
    members,
    why,
    ...sumRequests(members),
    policies: [...policies]
      .map((policy) => ({ policy, ...sumRequests(ofPolicy(policy)) }))
      .toSorted((one, other) => other.requests - one.requests),
    paths: [...new Set(members.flatMap(({ paths }) => paths))].slice(0, MAX_PATHS),
    bar_ms,
    bars: bars.map(({ start_ms }, index) => ({
      start_ms,
      over_limit: members.reduce((sum, listed) => sum + (listed.bars[index]?.over_limit ?? 0), 0),
      denied: members.reduce((sum, listed) => sum + (listed.bars[index]?.denied ?? 0), 0),
    })),
  }
}
