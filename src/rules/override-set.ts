import { NetworkTable, networksMeet } from './network-table.js'
import type { Override } from './override.js'
import { PathPatterns } from './path-patterns.js'
import type { PathOptions } from './rule-set.js'

/** An override in force, with the id of its row. */
export interface ActiveOverride extends Override {
  readonly id: number
}

/** Addresses that come again are not looked up again; forgotten together when there are too many. */
const REMEMBERED = 10_000
/** What a refusal, a pass and a rate are worth, whoever they are for. */
const EFFECT_ORDER = { deny: 0, allow: 1, rate: 2 } as const
/** More than the bits of any network: a user is one client, an address may be many. */
const USER_BITS = 129

/**
 * The overrides of the table, ready to be asked. Asking costs the same for one and for a hundred thousand.
 *
 * There is one of them, which its reader changes a row at a time, in between requests: compiling a hundred thousand
 * again for every edit would cost far more than the edit.
 */
export class OverrideSet {
  readonly #byId = new Map<number, ActiveOverride>()
  readonly #byNetwork = new NetworkTable<ActiveOverride>()
  readonly #byUser = new Map<string, readonly ActiveOverride[]>()
  readonly #patterns: PathPatterns
  readonly #remembered = new Map<string, readonly ActiveOverride[]>()

  constructor(options: PathOptions) {
    this.#patterns = new PathPatterns(options)
  }

  get size(): number {
    return this.#byId.size
  }

  /** Whether it matters who the user is. */
  get hasUsers(): boolean {
    return this.#byUser.size > 0
  }

  all(): Iterable<ActiveOverride> {
    return this.#byId.values()
  }

  /** Takes a row in, in place of what was there before. */
  put(override: ActiveOverride): void {
    this.remove(override.id)
    this.#byId.set(override.id, override)
    const { client } = override
    if (client.kind === 'ip') {
      this.#byNetwork.add(client, override)
      this.#remembered.clear()
    } else {
      this.#byUser.set(client.id, [...(this.#byUser.get(client.id) ?? []), override])
    }
  }

  remove(id: number): void {
    const override = this.#byId.get(id)
    if (override === undefined) return
    this.#byId.delete(id)
    const { client } = override
    if (client.kind === 'ip') {
      this.#byNetwork.remove(client, override)
      this.#remembered.clear()
    } else {
      const others = this.#byUser.get(client.id)?.filter((known) => known !== override) ?? []
      if (others.length > 0) this.#byUser.set(client.id, others)
      else this.#byUser.delete(client.id)
    }
  }

  /** Other rows for the same client, whatever their path. */
  othersOf(id: number): readonly number[] {
    const client = this.#byId.get(id)?.client
    if (client === undefined) return []
    const known =
      client.kind === 'user'
        ? this.#byUser.get(client.id)
        : this.#byNetwork.at(client.address).filter((other) => bitsOf(other) === client.bits)
    return (known ?? []).map((other) => other.id).filter((other) => other !== id)
  }

  /**
   * The override that decides about a request: a refusal before a pass before a rate, then a user before a single
   * address before a network, the longest prefix first, then one with a path pattern before one without.
   *
   * @param address the client's whole address in its usual spelling; null where there is none
   * @param user what tells the user apart; null for nobody
   * @param path as the router sees it
   */
  find(address: string | null, user: string | null, path: string, nowMs: number): ActiveOverride | undefined {
    if (this.#byId.size === 0) return undefined
    let first: ActiveOverride | undefined
    if (address !== null) first = this.#first(this.#at(address), path, nowMs, first)
    const ofUser = user === null ? undefined : this.#byUser.get(user)
    return ofUser === undefined ? first : this.#first(ofUser, path, nowMs, first)
  }

  /** All overrides with a rate that hold for a client, or for a part of a network. Looks at every one there is. */
  ratesOf(client: Override['client']): ActiveOverride[] {
    return [...this.#byId.values()].filter(
      ({ effect, client: its }) => typeof effect === 'object' && clientsMeet(its, client),
    )
  }

  #first(
    overrides: readonly ActiveOverride[],
    path: string,
    nowMs: number,
    before: ActiveOverride | undefined,
  ): ActiveOverride | undefined {
    let first = before
    for (const override of overrides) {
      const { expiresAtMs, pathPattern } = override
      if (expiresAtMs !== null && nowMs >= expiresAtMs) continue
      if (first !== undefined && compareOverrides(first, override) <= 0) continue
      if (pathPattern === '' || this.#patterns.matches(pathPattern, path)) first = override
    }
    return first
  }

  #at(address: string): readonly ActiveOverride[] {
    let overrides = this.#remembered.get(address)
    if (overrides === undefined) {
      overrides = this.#byNetwork.at(address)
      if (this.#remembered.size >= REMEMBERED) this.#remembered.clear()
      this.#remembered.set(address, overrides)
    }
    return overrides
  }
}

/** Which of two goes first, where both hold; the older one where nothing else tells them apart. */
export function compareOverrides(one: ActiveOverride, other: ActiveOverride): number {
  return (
    effectOrder(one) - effectOrder(other) ||
    bitsOf(other) - bitsOf(one) ||
    Number(one.pathPattern === '') - Number(other.pathPattern === '') ||
    one.id - other.id
  )
}

function effectOrder({ effect }: ActiveOverride): number {
  return EFFECT_ORDER[typeof effect === 'object' ? 'rate' : effect]
}

function bitsOf({ client }: ActiveOverride): number {
  return client.kind === 'user' ? USER_BITS : client.bits
}

function clientsMeet(one: Override['client'], other: Override['client']): boolean {
  if (one.kind === 'user' || other.kind === 'user') {
    return one.kind === 'user' && other.kind === 'user' && one.id === other.id
  }
  return networksMeet(one, other)
}
