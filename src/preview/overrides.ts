import { isIP } from 'node:net'
import type { Dialect, Query } from '../db/dialect.js'
import { NetworkTable } from '../overrides/network.js'
import { clientText } from '../overrides/override.js'
import { OverrideReader } from '../overrides/override-reader.js'
import type { ActiveOverride, OverrideSet } from '../overrides/override-set.js'
import type { PathOptions } from '../patterns/path-patterns.js'
import { type AddressPrivacy, PSEUDONYM } from '../privacy/address-privacy.js'
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
  privacy?: AddressPrivacy,
): Promise<PreviewOverrides> {
  const reader = new OverrideReader(dialect, router)
  await reader.readTable(query, nowMs)
  const set = await reader.apply()
  const hasNetworks = [...set.all()].some(({ client }) => client.kind === 'ip')
  const networks = new NarrowNetworks(set)
  const hidden = new HiddenAddresses(set, privacy)

  return {
    rejected: reader.rejected(),
    all: () => set.all(),
    verdict(event, path) {
      if (set.size === 0) return 'none'
      const logged = loggedAddress(event)
      const [first = '', length] = logged?.split('/') ?? []
      const pseudonym = PSEUDONYM.test(first) ? first : null
      const address = pseudonym !== null ? hidden.addressOf(pseudonym) : isIP(first) === 0 ? null : first
      const user = loggedUser(event)
      const override = set.find(address, user, path, nowMs, pseudonym)
      // A server refuses the request: no rule decides it.
      if (override === null) return 'decides'
      if (address !== null && length !== undefined) {
        const bits = Number(length)
        const isWhole = override !== undefined && (override.client.kind !== 'ip' || override.client.bits <= bits)
        if (!isWhole && networks.within(address, bits)) return 'unclear'
      }
      if (override !== undefined) return 'decides'
      const isKnown =
        (!hasNetworks || (pseudonym === null ? logged !== null : hidden.areAllKnown)) &&
        (!set.hasUsers || user !== null)
      return isKnown ? 'none' : 'assumed_none'
    },
  }
}

/** Finds the addresses of pseudonyms, as far as overrides name them. */
class HiddenAddresses {
  readonly #overrides: OverrideSet
  readonly #privacy: AddressPrivacy | undefined
  #addresses: ReadonlyMap<string, string> | undefined
  /** Whether no override is for a network, of which any pseudonym may be. */
  readonly areAllKnown: boolean

  constructor(overrides: OverrideSet, privacy: AddressPrivacy | undefined) {
    this.#overrides = overrides
    this.#privacy = privacy
    this.areAllKnown = [...overrides.all()].every(({ client }) => client.kind !== 'ip' || this.#pseudonymOf(client))
  }

  addressOf(pseudonym: string): string | null {
    this.#addresses ??= new Map(
      [...this.#overrides.all()].flatMap(({ client }) => {
        const its = client.kind === 'ip' ? this.#pseudonymOf(client) : undefined
        return its === undefined || client.kind !== 'ip' ? [] : [[its, client.address] as const]
      }),
    )
    return this.#addresses.get(pseudonym) ?? null
  }

  /** Returns the pseudonym of a client that is counted by itself; undefined for a network of several. */
  #pseudonymOf(client: ActiveOverride['client']): string | undefined {
    const counted = this.#privacy?.toCounted(clientText(client)).slice('ip:'.length)
    return counted !== undefined && PSEUDONYM.test(counted) ? counted : undefined
  }
}

/** Finds whether a part of a network has an override: the log has networks of IPv6 as servers count them, or shortened addresses. */
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
  return client.kind === 'ip' && client.bits > bits
}
