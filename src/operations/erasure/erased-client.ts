/** The client whose traces are deleted, and how to tell them from those of others. */

import { type AddressPrivacy, countedBits, PSEUDONYM, toCountedAddress } from '../../clients/address-privacy.js'
import {
  clientsForKey,
  createClient,
  formatKey,
  formatPart,
  parseClient,
  splitKey,
  splitParts,
} from '../../clients/client.js'
import { type ClientKind, partName, partsFor } from '../../clients/client-kind.js'
import { clientAddress, containsNetwork, networkClient } from '../../clients/client-networks.js'
import { formatCountedPart, parseCounter } from '../../clients/counter.js'
import type { ParsedNetwork } from '../../clients/network.js'
import { InvalidSettingError } from '../../ground/errors.js'
import { counterKey, MAX_KEY_LENGTH, storable } from '../../ground/storable.js'

/** The beginning of a client, before its value. */
const NAME = /^(?:ip|key|route|user\.\w+|(?:header|cookie):[^:]+):/
const NAMED = /^(?:user\.\w+|(?:header|cookie):[^:]+):/
/** Matches a kind in a key, which does not name the header or cookie. */
const NAMELESS = /^(?:user\.\w+|header|cookie):/
/** The part of a client that is searched for. Counters keep 63 characters of a long value, fewer behind long names. */
const TOKEN_LENGTH = 48
const ADDRESS = 'ip:'
const USER = 'user:'

export class ErasedClient {
  /** The spellings as a client: in clear, and by its pseudonym where there is one. */
  readonly names: readonly string[]
  /** The texts of which every trace contains one, unless it was cut before. */
  readonly tokens: readonly string[]
  /**
   * The address, for IPv6 its network; undefined for a client that is none, or of which only the pseudonym is known.
   */
  readonly network: ParsedNetwork | undefined
  /** The id of its user as events have it. */
  readonly userId: number | undefined
  /** The client as the log shortens it, together with its neighbours; undefined where it does not. */
  readonly shared: string | undefined
  /** The names as the log has them, which cuts long ones. */
  readonly #logged: ReadonlySet<string>
  /** The spellings in combinations, and in counters. */
  readonly #parts: ReadonlySet<string>
  readonly #countedParts: ReadonlySet<string>
  /** The keys in the log without a rule. */
  readonly #keys: ReadonlySet<string>
  /** The spellings in keys of the log, and in combinations there. */
  readonly #shown: ReadonlySet<string>
  /** The field, header or cookie, such as `header:x-api-key`. */
  readonly #named: string | undefined
  readonly #kinds: ReadonlyMap<string, ClientKind>

  /**
   * @param text as operators write it: `ip:203.0.113.7`, `203.0.113.7`, `ip:~0f…`, `user:7`
   * @param kinds by what the rules count, by their names; it may be filled later
   * @throws InvalidSettingError for what is no client, or several
   */
  constructor(
    text: string,
    ipv6Subnet: number,
    privacy: AddressPrivacy | undefined,
    kinds: ReadonlyMap<string, ClientKind> = new Map(),
  ) {
    this.#kinds = kinds
    const trimmed = text.trim()
    this.network = readAddress(trimmed, ipv6Subnet)
    const counted = this.network && networkClient(this.network)
    const isPseudonym = counted === undefined && trimmed.startsWith(ADDRESS)
    if (isPseudonym && !PSEUDONYM.test(trimmed.slice(ADDRESS.length))) throw noClient(text)
    const name = counted ?? trimmed
    this.names = [...new Set([name, privacy?.toCounted(name) ?? name])]
    const parts = this.names.flatMap((each) => parseClient(each, false)?.parts ?? [])
    if (parts.length < this.names.length || parts.some(({ value }) => value === '')) throw noClient(text)
    this.shared = privacy?.addresses === 'truncated' && counted !== undefined ? privacy.toLogged(name) : undefined
    // Keys and counters show a user with its kind, and the value alone of the others.
    this.#parts = new Set(parts.map(formatPart))
    const spelled = [...this.names, ...this.#parts].map((name) =>
      name.startsWith(USER) ? name : name.replace(NAME, ''),
    )
    this.#shown = new Set(spelled)
    // Keys cut a long value, and counters shorten it.
    this.tokens = [...this.#shown].map(this.network === undefined ? (text) => text.slice(0, TOKEN_LENGTH) : beginning)
    this.userId = name.startsWith(USER) ? toInteger(name.slice(USER.length)) : undefined
    this.#logged = new Set(this.names.map((name) => storable(name, MAX_KEY_LENGTH)))
    this.#countedParts = new Set(parts.map(formatCountedPart))
    this.#keys = new Set(parts.map((part) => formatKey(createClient(part))))
    this.#named = NAMED.exec(name)?.[0].slice(0, -1)
  }

  /** Returns whether a client of the log is this one, alone or together with other kinds. */
  has(client: string, isComposite: boolean): boolean {
    if (this.#logged.has(client) || this.#isWithin(client)) return true
    return isComposite && splitParts(client).some((part) => this.#parts.has(part) || this.#isWithin(part))
  }

  /** Returns whether an address column has its address. */
  hasAddress(address: string | null): boolean {
    return address !== null && this.has(ADDRESS + address, false)
  }

  /** Returns whether an override is for this client alone. */
  hasOverride(client: string): boolean {
    return this.has(client, false)
  }

  /** Returns whether an override is for a network of this client and others. */
  isAmong(client: string): boolean {
    const around = this.network && clientAddress(client)
    return around !== undefined && this.network !== undefined && !this.has(client, false)
      ? containsNetwork(around, this.network)
      : false
  }

  /** Returns whether a counter is of this client, alone or together with others. */
  hasCounter(name: string): boolean {
    const counter = parseCounter(name)
    if (counter === undefined) return false
    if (counter.parts.some((part) => this.#countedParts.has(part) || this.#isWithin(part))) return true
    // Stores have a hash of what is behind the beginning of a long name.
    return [...this.#countedParts].some((part) => counterKey(counter.before + part) === name)
  }

  /** Returns whether a key of the log, or of an alert, is of this client, or may be: few keys name all kinds. */
  hasKey(key: string): boolean {
    const { rule, shown } = splitKey(key)
    const kind = rule === undefined ? undefined : this.#kinds.get(rule)
    if (kind?.kind === 'composite') return clientsForKey(key, kind).some(({ text }) => this.has(text, true))
    const isCut = key.length === MAX_KEY_LENGTH
    const isShown = (text: string) =>
      this.#shown.has(text) || this.has(ADDRESS + text, false) || (isCut && this.#beginsWith(text))
    if (kind !== undefined) return isShown(shown) && (this.#mayCount(rule) || this.has(ADDRESS + shown, false))
    if (rule === undefined && (this.has(key, false) || this.#keys.has(key))) return true
    return isShown(shown) || splitParts(shown).some(isShown)
  }

  /** Returns whether a text that was cut may be the beginning of this client. */
  #beginsWith(cut: string): boolean {
    const value = cut.replace(NAMELESS, '')
    return value !== '' && [...this.#shown].some((text) => text.startsWith(value))
  }

  /** Returns whether a rule may count this client's field, header or cookie. */
  #mayCount(rule: string | undefined): boolean {
    const kind = rule === undefined ? undefined : this.#kinds.get(rule)
    if (kind === undefined || this.#named === undefined) return true
    return partsFor(kind).some((part) => partName(part) === this.#named)
  }

  #isWithin(client: string): boolean {
    if (this.network === undefined || this.network.family === 'ipv4' || !client.startsWith(ADDRESS)) return false
    const address = clientAddress(client)
    return address !== undefined && containsNetwork(this.network, address)
  }
}

function noClient(text: string): Error {
  return new InvalidSettingError(
    `Option "client" is ${JSON.stringify(text)}, which is not a single client: give ip:203.0.113.7, user:<id>, or a client as the reports spell it`,
  )
}

/** Parses an address with or without its kind, as limits count it; undefined for another client. */
function readAddress(text: string, ipv6Subnet: number): ParsedNetwork | undefined {
  const parsed = clientAddress(text) ?? clientAddress(ADDRESS + text)
  if (parsed === undefined) return undefined
  const { address, bits } = parsed
  if (bits < countedBits(address, ipv6Subnet)) throw noClient(text)
  return clientAddress(ADDRESS + toCountedAddress(address, ipv6Subnet))
}

/** Returns what all spellings in a network of IPv6 begin with: its first group; another text as it is. */
function beginning(address: string): string {
  return address.slice(0, address.indexOf(':') + 1) || address
}

function toInteger(id: string): number | undefined {
  const number = /^-?\d{1,15}$/.test(id) ? Number(id) : undefined
  return String(number) === id ? number : undefined
}
