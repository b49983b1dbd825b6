import { isIP } from 'node:net'
import { type AddressPrivacy, PSEUDONYM } from '../../clients/address-privacy.js'
import { NetworkTable } from '../../clients/network.js'
import { clientText } from '../../clients/override-client.js'
import { CooperativeYield, type Steps } from '../../ground/time/cooperative-yield.js'
import type { RejectedRow } from '../../rules/load-log.js'
import { OverrideReader } from '../../rules/overrides/override-reader.js'
import type { ActiveOverride, OverrideSet } from '../../rules/overrides/override-set.js'
import type { PathOptions } from '../../rules/patterns/path-patterns.js'
import type { EntryTables } from '../report.js'
import { loggedAddress, loggedUser } from './clients.js'
import type { LoggedRequest } from './events.js'

/**
 * The verdict of overrides about a recorded request: one decides it instead of any rule; none does; none does as far as
 * the log names the client; or only a part of the client's network has one.
 */
export type OverrideVerdict = 'decides' | 'none' | 'assumed_none' | 'unclear'

/** The overrides in force at one moment, applied to requests of other moments. */
export interface PreviewOverrides {
  readonly rejected: readonly RejectedRow[]
  all(): Iterable<ActiveOverride>
  /** @param path as the router sees it */
  verdict(event: LoggedRequest, path: string): Steps<OverrideVerdict>
}

interface OverrideOptions {
  readonly nowMs: number
  /** Whether a rate decides instead of the rule: only of the group without a name. */
  readonly ratesDecide: boolean
  readonly privacy?: AddressPrivacy | undefined
}

/** Reads the table, independently of what this process has in force. */
export async function readOverrides(
  { query, dialect }: EntryTables,
  router: PathOptions,
  { nowMs, ratesDecide, privacy }: OverrideOptions,
): Promise<PreviewOverrides> {
  const reader = new OverrideReader(dialect, router)
  await reader.readTable(query, nowMs)
  const set = await reader.apply()
  const { hasNetworks, areAllKnown, addresses } = await findNetworks(set, privacy)
  const networks = new NarrowNetworks(set)

  return {
    rejected: reader.rejected(),
    all: () => set.all(),
    *verdict(event, path) {
      if (set.size === 0) return 'none'
      const logged = loggedAddress(event)
      const [first = '', length] = logged?.split('/') ?? []
      const pseudonym = PSEUDONYM.test(first) ? first : null
      const address = pseudonym !== null ? (addresses.get(pseudonym) ?? null) : isIP(first) === 0 ? null : first
      const user = loggedUser(event)
      const override = set.find(address, user, path, nowMs, pseudonym)
      // A server refuses the request: no rule decides it.
      if (override === null) return 'decides'
      if (address !== null && length !== undefined) {
        const bits = Number(length)
        const isWhole = override !== undefined && (override.client.kind !== 'ip' || override.client.bits <= bits)
        if (!isWhole && (yield* networks.within(address, bits))) return 'unclear'
      }
      if (override !== undefined) return ratesDecide || typeof override.effect === 'string' ? 'decides' : 'none'
      const isKnown =
        (!hasNetworks || (pseudonym === null ? logged !== null : areAllKnown)) && (!set.hasUsers || user !== null)
      return isKnown ? 'none' : 'assumed_none'
    },
  }
}

/** The facts about overrides for addresses and networks that a replay needs. */
interface OverriddenNetworks {
  /** Whether overrides for networks exist. */
  readonly hasNetworks: boolean
  /** Whether no override is for a network, of which any pseudonym may be. */
  readonly areAllKnown: boolean
  /** The addresses that have an override, by their pseudonyms. */
  readonly addresses: ReadonlyMap<string, string>
}

async function findNetworks(overrides: OverrideSet, privacy: AddressPrivacy | undefined): Promise<OverriddenNetworks> {
  const addresses = new Map<string, string>()
  let hasNetworks = false
  let areAllKnown = true
  const slices = new CooperativeYield()
  for (const { client } of overrides.all()) {
    if (slices.over()) await slices.pause()
    if (client.kind !== 'ip') continue
    hasNetworks = true
    // A client that is counted by itself has a pseudonym, a network of several has none.
    const counted = privacy?.toCounted(clientText(client)).slice('ip:'.length)
    if (counted !== undefined && PSEUDONYM.test(counted)) addresses.set(counted, client.address)
    else areAllKnown = false
  }
  return { hasNetworks, areAllKnown, addresses }
}

/** Finds whether a part of a network has an override: the log has networks of IPv6 as servers count them, or shortened addresses. */
class NarrowNetworks {
  readonly #overrides: OverrideSet
  /** Tables by the number of a network's bits, which servers rarely differ in. */
  readonly #tables = new Map<number, NetworkTable<true>>()

  constructor(overrides: OverrideSet) {
    this.#overrides = overrides
  }

  *within(address: string, bits: number): Steps<boolean> {
    let table = this.#tables.get(bits)
    if (table === undefined) {
      table = yield* this.#createTable(bits)
      this.#tables.set(bits, table)
    }
    return table.at(address).length > 0
  }

  *#createTable(bits: number): Steps<NetworkTable<true>> {
    const table = new NetworkTable<true>()
    for (const { client } of this.#overrides.all()) {
      if (isWithin(bits, client)) table.add({ address: client.address, bits }, true)
      yield
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
