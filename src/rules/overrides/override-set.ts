import { NetworkTable, networksMeet, wholeBits } from '../../clients/network.js'
import { clientText, type OverrideClient } from '../../clients/override-client.js'
import { rememberClients } from '../../ground/remember.js'
import { CooperativeYield } from '../../ground/time/cooperative-yield.js'
import { type PathOptions, PathPatterns } from '../patterns/path-patterns.js'
import { patternSize } from '../patterns/pattern.js'
import { type RequestWork, SHORT_LENGTH, takeWork } from '../patterns/work.js'
import { isInForce, type Override } from './override.js'

/** Overrides that changed, by the ids of their rows; null for a deleted one. */
export type OverrideChanges = ReadonlyMap<number, ActiveOverride | null>

/** The number of changes above which the whole table is built anew; with fewer a change costs well under 10 ms. */
const MAX_OVERLAY_CHANGES = 1_000
/** The order of a refusal, a pass and a rate, for every kind of client. */
const EFFECT_ORDER = { deny: 0, allow: 1, rate: 2 } as const
/** The number is more than the bits of any network: a user is one client, an address may be several. */
const USER_BITS = 129
/** A pseudonym is as narrow as a single address. */
const PSEUDONYM_BITS = 128
const NO_CHANGES: OverrideChanges = new Map()

/**
 * The overrides in force at one moment. Immutable: a change creates a new set.
 *
 * A set consists of a large table and the few rows that changed since that was built, so that an edit costs the same
 * however many overrides there are.
 */
export class OverrideSet {
  readonly size: number
  /** Whether any override is for a user. */
  readonly hasUsers: boolean
  readonly #built: OverrideTable
  readonly #changes: OverrideChanges
  readonly #changed: OverrideTable
  readonly #patterns: PathPatterns

  private constructor(patterns: PathPatterns, built: OverrideTable, changes: OverrideChanges) {
    this.#patterns = patterns
    this.#built = built
    this.#changes = changes
    this.#changed = new OverrideTable()
    let { size, users } = built
    for (const [id, override] of changes) {
      const before = built.get(id)
      if (before !== undefined) size--
      if (before?.client.kind === 'user') users--
      if (override !== null) this.#changed.add(override)
    }
    this.size = size + this.#changed.size
    this.hasUsers = users + this.#changed.users > 0
  }

  static empty(options: PathOptions): OverrideSet {
    return new OverrideSet(new PathPatterns(options), new OverrideTable(), NO_CHANGES)
  }

  /** Returns the set after further changes, built in slices where they are many; the same set where there are none. */
  async with(changes: OverrideChanges): Promise<OverrideSet> {
    if (changes.size === 0) return this
    if (this.#changes.size + changes.size <= MAX_OVERLAY_CHANGES) {
      return new OverrideSet(this.#patterns, this.#built, new Map([...this.#changes, ...changes]))
    }
    const built = new OverrideTable()
    const slices = new CooperativeYield()
    for (const override of this.all()) {
      if (!changes.has(override.id)) built.add(override)
      if (slices.over()) await slices.pause()
    }
    for (const override of changes.values()) {
      if (override !== null) built.add(override)
      if (slices.over()) await slices.pause()
    }
    return new OverrideSet(this.#patterns, built, NO_CHANGES)
  }

  /** Yields all overrides, in no order. */
  *all(): Iterable<ActiveOverride> {
    for (const override of this.#built.all()) if (this.#holds(override)) yield override
    yield* this.#changed.all()
  }

  /** Yields the overrides of exactly this client, whatever their path. */
  *forClient(client: OverrideClient): Generator<ActiveOverride> {
    for (const table of [this.#built, this.#changed]) {
      for (const override of table.forClient(client))
        if (this.#holds(override) && bitsFor(override.client) === bitsFor(client)) yield override
    }
  }

  /**
   * Returns the override that decides on a request: a refusal before a pass before a rate, then a user before a single
   * address before a network, the longest prefix first, then one with a path pattern before one without. Null where the
   * path is too long to be searched for the patterns of the client's overrides.
   *
   * @param address the client's whole address in its usual spelling; null where there is none
   * @param user the user's id; null where there is none
   * @param path as the router sees it
   * @param pseudonym of the address; null where addresses are stored in full
   * @param request takes the work of a long path
   */
  find(
    address: string | null,
    user: string | null,
    path: string,
    nowMs: number,
    pseudonym: string | null = null,
    request: RequestWork = { work: 0 },
  ): ActiveOverride | null | undefined {
    if (this.size === 0) return undefined
    const isLong = path.length > SHORT_LENGTH
    if (isLong && !takeWork(request, this.#searchWork(address, user, pseudonym, path))) return null
    let first: ActiveOverride | undefined
    if (address !== null) {
      first = this.#first(this.#built.at(address), path, nowMs, first)
      if (this.#changed.size > 0) first = this.#first(this.#changed.at(address), path, nowMs, first)
    }
    if (user !== null) {
      first = this.#first(this.#built.forUser(user), path, nowMs, first)
      if (this.#changed.size > 0) first = this.#first(this.#changed.forUser(user), path, nowMs, first)
    }
    if (pseudonym !== null) {
      first = this.#first(this.#built.forPseudonym(pseudonym), path, nowMs, first)
      first = this.#first(this.#changed.forPseudonym(pseudonym), path, nowMs, first)
    }
    return first
  }

  /** Returns whether an override in force lets a client through, or a part of it, on any path. */
  allows(client: OverrideClient, nowMs: number): boolean {
    return [this.#built, this.#changed].some((table) =>
      allowingFor(table, client).some(
        (override) => override.effect === 'allow' && isInForce(override, nowMs) && this.#holds(override),
      ),
    )
  }

  /**
   * Returns all overrides with a rate for a client, or for a part of a network; for a pseudonym also those of all
   * addresses, any of which may be its own. It scans the whole set.
   */
  ratesFor(client: OverrideClient): ActiveOverride[] {
    const isHidden = client.kind === 'pseudonym'
    return [...this.all()].filter(
      (override) =>
        typeof override.effect === 'object' &&
        (clientsMeet(override.client, client) || (isHidden && override.client.kind === 'ip')),
    )
  }

  /** Returns the most work that a search of a path for the patterns of a client's overrides can take. */
  #searchWork(address: string | null, user: string | null, pseudonym: string | null, path: string): number {
    let size = 0
    for (const table of [this.#built, this.#changed]) {
      const ofClient = [
        ...(address === null ? [] : table.at(address)),
        ...(user === null ? [] : table.forUser(user)),
        ...(pseudonym === null ? [] : table.forPseudonym(pseudonym)),
      ]
      for (const { pathPattern } of ofClient) if (pathPattern !== '') size += patternSize(pathPattern)
    }
    return size * path.length
  }

  #first(
    overrides: readonly ActiveOverride[],
    path: string,
    nowMs: number,
    before: ActiveOverride | undefined,
  ): ActiveOverride | undefined {
    let first = before
    for (const override of overrides) {
      const { pathPattern } = override
      if (!isInForce(override, nowMs)) continue
      if (!this.#holds(override)) continue
      if (first !== undefined && compareOverrides(first, override) <= 0) continue
      if (pathPattern === '' || this.#patterns.matches(pathPattern, path)) first = override
    }
    return first
  }

  /** Returns whether an override of one of the tables has not changed since. */
  #holds(override: ActiveOverride): boolean {
    const changed = this.#changes.get(override.id)
    return changed === undefined || changed === override
  }
}

/** Compares two overrides that both hold: the deciding one is first; the older one where all else is equal. */
export function compareOverrides(one: ActiveOverride, other: ActiveOverride): number {
  return (
    effectOrder(one) - effectOrder(other) ||
    bitsFor(other.client) - bitsFor(one.client) ||
    Number(one.pathPattern === '') - Number(other.pathPattern === '') ||
    one.id - other.id
  )
}

function effectOrder({ effect }: ActiveOverride): number {
  return EFFECT_ORDER[typeof effect === 'object' ? 'rate' : effect]
}

function bitsFor(client: OverrideClient): number {
  if (client.kind === 'ip') return client.bits
  return client.kind === 'user' ? USER_BITS : PSEUDONYM_BITS
}

/** Returns a table's overrides that meet a client, those that let it through among them. */
function allowingFor(table: OverrideTable, client: OverrideClient): readonly ActiveOverride[] {
  if (client.kind !== 'ip' || client.bits === wholeBits(client.family)) return table.forClient(client)
  return table.allowing.filter((override) => clientsMeet(override.client, client))
}

function clientsMeet(one: OverrideClient, other: OverrideClient): boolean {
  if (one.kind === 'ip' && other.kind === 'ip') return networksMeet(one, other)
  return clientText(one) === clientText(other)
}

/** An override in force, with the id of its row. */
export interface ActiveOverride extends Override {
  readonly id: number
}

/** Overrides by their clients. A lookup costs the same for one override and for a hundred thousand. */
class OverrideTable {
  readonly #byId = new Map<number, ActiveOverride>()
  readonly #byNetwork = new NetworkTable<ActiveOverride>()
  readonly #allowing: ActiveOverride[] = []
  readonly #byUser = new Map<string, ActiveOverride[]>()
  readonly #byPseudonym = new Map<string, ActiveOverride[]>()
  readonly #findAt = rememberClients((address) => this.#byNetwork.at(address))
  #users = 0

  get size(): number {
    return this.#byId.size
  }

  /** The number of overrides for users. */
  get users(): number {
    return this.#users
  }

  /** Adds an override while the table is filled; never once a request may read it. */
  add(override: ActiveOverride): void {
    this.#byId.set(override.id, override)
    const { client, effect } = override
    if (effect === 'allow') this.#allowing.push(override)
    if (client.kind === 'ip') {
      this.#byNetwork.add(client, override)
      return
    }
    if (client.kind === 'pseudonym') {
      addTo(this.#byPseudonym, client.pseudonym, override)
      return
    }
    this.#users++
    addTo(this.#byUser, client.id, override)
  }

  /** The overrides that let clients through. */
  get allowing(): readonly ActiveOverride[] {
    return this.#allowing
  }

  get(id: number): ActiveOverride | undefined {
    return this.#byId.get(id)
  }

  all(): Iterable<ActiveOverride> {
    return this.#byId.values()
  }

  /** Returns the overrides of all networks that contain an address, in no order. */
  at(address: string): readonly ActiveOverride[] {
    return this.#findAt(address)
  }

  forUser(user: string): readonly ActiveOverride[] {
    return this.#byUser.get(user) ?? NONE
  }

  forPseudonym(pseudonym: string): readonly ActiveOverride[] {
    return this.#byPseudonym.get(pseudonym) ?? NONE
  }

  /** Returns the overrides of a client, and of the networks that contain it, in no order. */
  forClient(client: OverrideClient): readonly ActiveOverride[] {
    if (client.kind === 'ip') return this.at(client.address)
    return client.kind === 'user' ? this.forUser(client.id) : this.forPseudonym(client.pseudonym)
  }
}

function addTo(overrides: Map<string, ActiveOverride[]>, name: string, override: ActiveOverride): void {
  const sameName = overrides.get(name)
  if (sameName === undefined) overrides.set(name, [override])
  else sameName.push(override)
}

const NONE: readonly ActiveOverride[] = []
