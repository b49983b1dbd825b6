import { type AddressPrivacy, PSEUDONYM } from '../clients/address-privacy.js'
import { createClient, formatKey, parseClient, parseComposite, splitKey } from '../clients/client.js'
import { clientAddress, containsNetwork, isAddress, networkClient, networksAround } from '../clients/client-networks.js'
import { bareAddress, type ParsedNetwork } from '../clients/network.js'
import { MAX_KEY_LENGTH, storable } from '../ground/storable.js'
import { MINUTE_MS } from '../ground/time/clock.js'
import { CooperativeYield } from '../ground/time/cooperative-yield.js'
import { DAY_SPAN } from '../log/rollups/counting.js'
import { readOtherKeys } from './other-keys.js'
import type { LogSnapshot } from './report.js'
import { type ReportWindow, windowFor } from './report-window.js'

/** The meanings that a search text may have. */
export interface ClientSearch {
  /** The clients that it spells. */
  readonly clients: readonly string[]
  /** The networks that an address may be counted by. */
  readonly networks: readonly string[]
  /** A range of spellings, without its end, among which `isMeant` chooses; undefined where there is none. */
  readonly range: { readonly from: string; readonly to: string } | undefined
  isMeant(client: string): boolean
  /** Returns the keys of the log that it may mean. */
  keysFor(rules: readonly string[]): string[]
}

const KIND = /^(?:ip|user(?:\.\w+)?|header|cookie|route|key):./s
/** The character behind the bar between parts of a client, and the one behind any. */
const AFTER_BAR = '}'
const AFTER_ALL = '\u{10FFFF}'

/**
 * Parses a text that an operator typed; undefined where it is empty, and for a network where the log has pseudonyms.
 *
 * @param privacy how addresses are stored; undefined where they are stored in full
 */
export function parseClientSearch(text: string, privacy?: AddressPrivacy): ClientSearch | undefined {
  if (privacy === undefined) return parseLogged(text)
  if (PSEUDONYM.test(text)) return parseLogged(`ip:${text}`)
  const network = parseAddress(text)
  const logged = privacy.toLogged(network === undefined ? text : networkClient(network))
  const isHidden = privacy.addresses === 'pseudonym' && clientAddress(logged) !== undefined
  return isHidden ? undefined : parseLogged(logged)
}

function parseLogged(text: string): ClientSearch | undefined {
  if (text === '') return undefined
  const { rule, shown: named } = splitKey(text)
  const network = parseAddress(named)
  if (network !== undefined) return searchForNetwork(network, text)
  const clients = named === 'all' || KIND.test(named) ? [named] : [`user:${named}`]
  return {
    clients: rule !== undefined && !KIND.test(named) ? [] : clients,
    networks: [],
    // Parts of a client follow one another with a bar between.
    range: { from: `${clients[0]}|`, to: `${clients[0]}${AFTER_BAR}` },
    isMeant: () => true,
    keysFor(rules) {
      const kinds = ['user', 'header', 'cookie', 'route', 'key'].map((kind) => `${kind}:${named}`)
      const spelled = [text, named, ...kinds, ...rules.map((rule) => `rule:${rule}:${named}`)]
      return [...new Set([...spelled, ...clients.flatMap((client) => keysForClient(client, rules))])]
    },
  }
}

/** Returns whether a search finds a client by its name, or by the key of an event. */
export function isFound(
  search: ClientSearch,
  { client, key }: { readonly client: string; readonly key: string },
): boolean {
  const { clients, networks, range, isMeant, keysFor } = search
  if (clients.includes(client) || networks.includes(client) || keysFor([]).includes(key)) return true
  return range !== undefined && client >= range.from && client < range.to && isMeant(client)
}

/** Parses an address or a network, with or without `ip:`, brackets and a port. */
function parseAddress(text: string): ParsedNetwork | undefined {
  const bare = text.replace(/^ip:/i, '')
  const [written = '', bits] = bare.split('/')
  const address = bareAddress(written)
  if (address === undefined) return undefined
  const parsed = clientAddress(`ip:${address}${bits === undefined ? '' : `/${bits}`}`)
  // An address of a network stands for the network.
  return parsed && networksAround(parsed)[0]
}

function searchForNetwork(network: ParsedNetwork, text: string): ClientSearch {
  const client = networkClient(network)
  const isOne = isAddress(network)
  return {
    clients: [client],
    // IPv6 clients are counted by network.
    networks: isOne && network.family === 'ipv6' ? networksAround(network).slice(1).map(networkClient) : [],
    range: isOne ? { from: `${client}|`, to: `${client}${AFTER_BAR}` } : spellingRange(network),
    isMeant: (found) => {
      if (isOne) return true
      const [first = ''] = found.split('|')
      const address = clientAddress(first)
      return address !== undefined && containsNetwork(network, address)
    },
    keysFor: (rules) => [...new Set([text, ...keysForClient(client, rules)])],
  }
}

/** Returns the range of spellings that contains those of a network's addresses, by its whole octets or groups. */
function spellingRange({ family, address, bits }: ParsedNetwork): { readonly from: string; readonly to: string } {
  const [separator, size] = family === 'ipv4' ? ['.', 8] : [':', 16]
  const groups = address.split(separator)
  let prefix = 'ip:'
  for (const group of groups.slice(0, Math.floor(bits / size))) {
    // Zeros may be spelled as "::".
    if (family === 'ipv6' && (group === '' || group === '0')) break
    prefix += group + separator
  }
  return { from: prefix, to: `${prefix}${AFTER_ALL}` }
}

/**
 * Returns the keys under which the event log may have a client.
 *
 * @param rules the names of all rules that may have decided
 */
export function keysForClient(client: string, rules: readonly string[]): string[] {
  // A text that is no client was written by others: its key is the same.
  const clients = [parseClient(client, false) ?? createClient({ name: 'key', value: client }), parseComposite(client)]
  const keys = clients.flatMap((each) =>
    each === undefined ? [] : [undefined, ...rules].map((rule) => storable(formatKey(each, rule), MAX_KEY_LENGTH)),
  )
  return [...new Set(keys)]
}

/** The number of rules whose names are made into keys between two looks at the clock. */
const RULES_AT_ONCE = 100

/** The most keys that are looked up: more would take a statement of megabytes, and as many searches of the index. */
const MAX_KEYS = 50_000

/**
 * Returns the keys to look up of clients in a window, and of a search; undefined where these are too many, as those of the
 * clients of a network where there are many rules. Then the events of the whole window are read, as for a path.
 */
export async function keysToLookUp(
  snapshot: LogSnapshot,
  window: ReportWindow,
  clients: readonly string[],
  search?: ClientSearch,
): Promise<string[] | undefined> {
  const [rules, others] = await Promise.all([readRuleNames(snapshot, window), readOtherKeys(snapshot, clients, window)])
  const further = [...others.values()].flat()
  if (rules.length * clients.length + further.length > MAX_KEYS) return undefined
  return [...new Set([...(await collectKeys(rules, clients, search)), ...further])]
}

/** Returns the keys of a search, and of clients, in slices: there may be thousands of rules. */
export async function collectKeys(
  rules: readonly string[],
  clients: readonly string[],
  search?: ClientSearch,
): Promise<string[]> {
  const keys = new Set<string>()
  const slices = new CooperativeYield()
  for (let start = 0; start === 0 || start < rules.length; start += RULES_AT_ONCE) {
    const some = rules.slice(start, start + RULES_AT_ONCE)
    for (const key of search?.keysFor(some) ?? []) keys.add(key)
    for (const client of clients) {
      for (const key of keysForClient(client, some)) keys.add(key)
      if (slices.over()) await slices.pause()
    }
    if (slices.over()) await slices.pause()
  }
  return [...keys]
}

/** Reads the names of all rules that decided about requests of a window, or may have. */
export async function readRuleNames(
  { query, dialect, entries, nowMs, sums }: LogSnapshot,
  window: ReportWindow,
): Promise<string[]> {
  const firstDay = Math.floor(windowFor(window, nowMs).startMs / (DAY_SPAN * MINUTE_MS))
  const [logged, rules] = await Promise.all([
    query<{ name: string }>(
      `SELECT DISTINCT rule_name AS name FROM ${dialect.table('rate_limit_traffic_rollup')}
       WHERE span = ${DAY_SPAN} AND bucket >= $1
     UNION SELECT rule_name FROM ${dialect.table('rate_limit_event')} WHERE id > $2`,
      [firstDay, sums.watermark],
    ),
    entries.query<{ name: string }>(`SELECT name FROM ${entries.dialect.table('rate_limit_rule')}`),
  ])
  const names = new Set([...logged, ...rules].map(({ name }) => name))
  names.delete('')
  return [...names]
}
