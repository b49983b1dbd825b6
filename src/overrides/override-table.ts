import { remember } from '../remember.js'
import { NetworkTable } from './network-table.js'
import type { Override, OverrideClient } from './override.js'

/** An override in force, with the id of its row. */
export interface ActiveOverride extends Override {
  readonly id: number
}

/** How many addresses keep their result. */
const REMEMBERED = 10_000

/** Overrides by their clients. A lookup costs the same for one override and for a hundred thousand. */
export class OverrideTable {
  readonly #byId = new Map<number, ActiveOverride>()
  readonly #byNetwork = new NetworkTable<ActiveOverride>()
  readonly #allowing: ActiveOverride[] = []
  readonly #byUser = new Map<string, ActiveOverride[]>()
  readonly #byPseudonym = new Map<string, ActiveOverride[]>()
  readonly #findAt = remember(REMEMBERED, (address) => this.#byNetwork.at(address))
  #users = 0

  get size(): number {
    return this.#byId.size
  }

  /** How many overrides are for users. */
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
  const known = overrides.get(name)
  if (known === undefined) overrides.set(name, [override])
  else known.push(override)
}

const NONE: readonly ActiveOverride[] = []
