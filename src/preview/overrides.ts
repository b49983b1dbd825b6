import { isIP } from 'node:net'
import type { Dialect, Query } from '../db/dialect.js'
import { NetworkTable } from '../overrides/network-table.js'
import { OverrideReader } from '../overrides/override-reader.js'
import type { OverrideSet } from '../overrides/override-set.js'
import type { ActiveOverride } from '../overrides/override-table.js'
import type { PathOptions } from '../patterns/path-patterns.js'
import type { RejectedRow } from '../rules/load-reports.js'
import { loggedAddress, loggedUser } from './clients.js'
import type { LoggedRequest } from './events.js'

/**
 * What overrides mean for a recorded request: one decides it instead of any rule; none does; none does as far as the
 * log names the client; or only a part of the client's network has one.
 */
export type OverrideVerdict = 'decides' | 'none' | 'assumed_none' | 'unclear'

/** The overrides in force at one moment, applied to requests of other moments. */
export interface PreviewOverrides {
  readonly rejected: readonly RejectedRow[]
  all(): Iterable<ActiveOverride>
  /** @param path as the router sees it */
  verdict(event: LoggedRequest, path: string): OverrideVerdict
}

/** Reads the table in a snapshot, independently of what this process has in force. */
export async function readOverrides(
  query: Query,
  dialect: Dialect,
  router: PathOptions,
  nowMs: number,
): Promise<PreviewOverrides> {
  const reader = new OverrideReader(dialect, router)
  await reader.readTable(query, nowMs)
  const set = await reader.apply()
  const hasNetworks = [...set.all()].some(({ client }) => client.kind === 'ip')
  const networks = new NarrowNetworks(set)

  return {
    rejected: reader.rejected(),
    all: () => set.all(),
    verdict(event, path) {
      if (set.size === 0) return 'none'
      const logged = loggedAddress(event)
      const [first = '', length] = logged?.split('/') ?? []
      const address = isIP(first) === 0 ? null : first
      const user = loggedUser(event)
      const override = set.find(address, user, path, nowMs)
      // A server refuses the request: no rule decides it.
      if (override === null) return 'decides'
      if (address !== null && length !== undefined) {
        const bits = Number(length)
        const isWhole = override !== undefined && (override.client.kind === 'user' || override.client.bits <= bits)
        if (!isWhole && networks.within(address, bits)) return 'unclear'
      }
      if (override !== undefined) return 'decides'
      const isKnown = (!hasNetworks || logged !== null) && (!set.hasUsers || user !== null)
      return isKnown ? 'none' : 'assumed_none'
    },
  }
}

/** Finds whether a part of an IPv6 network has an override: the log has networks only, as servers count them. */
class NarrowNetworks {
  readonly #overrides: OverrideSet
  /** Tables by the number of a network's bits, which servers rarely differ in. */
  readonly #tables = new Map<number, NetworkTable<true>>()

  constructor(overrides: OverrideSet) {
    this.#overrides = overrides
  }

  within(address: string, bits: number): boolean {
    let table = this.#tables.get(bits)
    if (table === undefined) {
      table = this.#createTable(bits)
      this.#tables.set(bits, table)
    }
    return table.at(address).length > 0
  }

  #createTable(bits: number): NetworkTable<true> {
    const table = new NetworkTable<true>()
    for (const { client } of this.#overrides.all()) {
      if (isWithin(bits, client)) table.add({ address: client.address, bits }, true)
    }
    return table
  }
}

function isWithin(
  bits: number,
  client: ActiveOverride['client'],
): client is Extract<ActiveOverride['client'], { kind: 'ip' }> {
  return client.kind === 'ip' && client.family === 'ipv6' && client.bits > bits
}
