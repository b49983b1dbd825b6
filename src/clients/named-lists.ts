import { AddressList } from './address-list.js'
import type { ParsedNetwork } from './network.js'

/** The name of a list, as settings and conditions spell it. */
export const LIST_NAME = /^[A-Za-z][A-Za-z0-9_-]{0,49}$/
export const LIST_NAME_ALLOWED = 'a letter, then at most 49 of letters, digits, - and _'

/** What begins an entry of an allow list or a deny list that is a named list. */
const REFERENCE = 'list:'

/** Returns the name of the list that an entry means, such as `list:partners`; undefined for another entry. */
export function referredList(entry: string): string | undefined {
  return entry.startsWith(REFERENCE) ? entry.slice(REFERENCE.length) : undefined
}

/** The named lists of an app: the names stay, and what a list contains is replaced as a whole. */
export class NamedLists {
  readonly #lists = new Map<string, AddressList>()
  readonly #listeners = new Set<() => void>()

  constructor(names: Iterable<string>) {
    for (const name of names) this.#lists.set(name, AddressList.EMPTY)
  }

  get names(): readonly string[] {
    return [...this.#lists.keys()]
  }

  has(name: string): boolean {
    return this.#lists.has(name)
  }

  /** Returns whether a list has an address; one that does not exist has none. */
  includes(name: string, address: string): boolean {
    return this.#lists.get(name)?.includes(address) ?? false
  }

  /** Returns whether a list has an address of a network. */
  meets(name: string, network: ParsedNetwork): boolean {
    return this.#lists.get(name)?.meets(network) ?? false
  }

  sizeOf(name: string): number {
    return this.#lists.get(name)?.size ?? 0
  }

  replace(name: string, list: AddressList): void {
    this.#lists.set(name, list)
    for (const listener of this.#listeners) listener()
  }

  /** Calls a function whenever a list is replaced. */
  onReplaced(listener: () => void): void {
    this.#listeners.add(listener)
  }
}

/** The lists of apps without any. */
export const NO_LISTS = new NamedLists([])

/** Returns the complaint about a list that does not exist, with those that do. */
export function unknownList(name: string, { names }: Pick<NamedLists, 'names'>): string {
  const remedy = names.length === 0 ? 'the setting lists has none' : `the setting lists has ${names.join(', ')}`
  return `the list ${JSON.stringify(name)} does not exist: ${remedy}`
}
