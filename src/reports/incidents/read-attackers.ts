import { parseClientSearch } from '../client-search.js'
import type { HeavyHour } from '../closed-hour-cache.js'
import type { LogSnapshot } from '../report.js'
import { countClients, groupHeavy } from './find-attackers.js'
import type { RefusedRow } from './incident.js'
import { type ClientRange, readClients } from './refusal-sums.js'
import type { HourSpan } from './usual.js'

/** Reads the refusals of heavy clients; of networks with several of them, those of all clients. */
export function readAttackers(
  snapshot: LogSnapshot,
  heavy: readonly HeavyHour[],
  range: HourSpan,
): Promise<RefusedRow[]> {
  const groups = [...groupHeavy(heavy)]
  const isNetwork = ([, hours]: (typeof groups)[number]) => countClients(hours) > 1
  return readClients(snapshot, 60, range, {
    clients: groups.flatMap((group) => (isNetwork(group) ? [] : group[1].slice(0, 1).map(({ client }) => client))),
    networks: groups.filter(isNetwork).map(([network]) => networkRange(network)),
  })
}

/** Returns the spellings of the clients of a network. */
export function networkRange(network: string): ClientRange {
  return { network, ...(parseClientSearch(network)?.range ?? { from: network, to: network }) }
}
