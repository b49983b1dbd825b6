/** Finds the clients that an operator means, and the keys under which the log has them: it has no index of clients. */
import { splitKey } from '../clients/client.js'
import { clientAddress, isNetwork } from '../clients/client-networks.js'
import { Parameters } from '../database/list.js'
import { MAX_KEY_LENGTH, storable } from '../ground/storable.js'
import { CLIENT } from '../log/event-sql.js'
import { type ClientSearch, keysToLookUp, parseClientSearch, readRuleNames } from './client-search.js'
import { readKeysOf } from './other-keys.js'
import { type LogSnapshot, type Report, toLogged } from './report.js'
import type { ReportWindow } from './report-window.js'

/** The clients of the log that a text means. */
export interface LoggedClients {
  /** The text, as the log has it: it may be a key. */
  readonly key: string
  /** The clients that the text spells; undefined for the key of a rule, which is one client's by itself. */
  readonly clients: readonly string[] | undefined
  /** The ranges of spellings, without their ends, of the clients of a network; undefined unless the text is a network. */
  readonly ranges: readonly SpellingRange[] | undefined
  /** The keys under which the log may have these clients; undefined where there are too many to be looked up. */
  readonly keys: readonly string[] | undefined
  /** Returns whether a client of these ranges is in the network. */
  readonly isMeant: (client: string) => boolean
}

type SpellingRange = readonly [from: string, to: string]

/** The most keys of a network's clients that are collected: finding each takes a search of the index. */
const MAX_NETWORK_KEYS = 2_000
const OCTET_BITS = 8

/**
 * Finds the clients that a text means: `203.0.113.7`, `user:7`, `7` for the user, `203.0.113.0/24`, `header:x-api-key:abc`
 * or a key of the log, such as `rule:login:203.0.113.7`. Undefined for a text that the log cannot tell, such as a network
 * where it has pseudonyms.
 *
 * @param sinceMs the beginning of the period whose rules are known; all rules unless given
 */
export function loggedClients(text: string, sinceMs?: number): Report<LoggedClients | undefined> {
  return async (snapshot) => {
    const typed = storable(text.trim(), MAX_KEY_LENGTH)
    const key = toLogged(snapshot, typed)
    if (splitKey(typed).rule !== undefined)
      return { key, clients: undefined, ranges: undefined, keys: [key], isMeant: () => true }
    const search = parseClientSearch(typed, snapshot.privacy)
    if (search === undefined) return undefined
    const window = { since: Math.max(0, sinceMs ?? 0) }
    const [named = ''] = search.clients
    if (isNetwork(named)) {
      const ranges = rangesOf(search, named)
      const keys = await keysOfNetwork(snapshot, search, ranges, window)
      return { key, clients: search.clients, ranges, keys, isMeant: search.isMeant }
    }
    // An address of IPv6 is counted by its network.
    const clients = [...search.clients, ...search.networks]
    const keys = await keysToLookUp(snapshot, window, clients, search)
    return { key, clients, ranges: undefined, keys, isMeant: () => true }
  }
}

/** Returns the condition that an event is of one of the clients. */
export function isOfClients({ dialect }: LogSnapshot, found: LoggedClients, parameters: Parameters): string {
  const { key, clients, ranges } = found
  const isKey = `key = ${parameters.add(key)}`
  if (clients === undefined) return isKey
  if (ranges === undefined) {
    return `(${dialect.isOneOf(`(${CLIENT})`, parameters.add(JSON.stringify(clients)), 'text')} OR ${isKey})`
  }
  return `(${isInRanges(dialect.bytewise(`(${CLIENT})`), ranges, parameters)} OR ${isKey})`
}

function isInRanges(client: string, ranges: readonly SpellingRange[], parameters: Parameters): string {
  const conditions = ranges.map(
    ([from, to]) => `${client} >= ${parameters.add(from)} AND ${client} < ${parameters.add(to)}`,
  )
  return conditions.length === 0 ? 'false' : `(${conditions.join(' OR ')})`
}

/**
 * Returns the ranges of spellings of a network's clients: of its octets, the last of which may be several. Groups of IPv6
 * are spelled in several lengths, so that its one range may have other clients, too.
 */
function rangesOf({ range }: ClientSearch, network: string): SpellingRange[] {
  const { family, address, bits } = clientAddress(network) ?? {}
  if (family !== 'ipv4' || address === undefined || !bits) return range === undefined ? [] : [[range.from, range.to]]
  const octets = address.split('.').map(Number)
  const last = Math.ceil(bits / OCTET_BITS) - 1
  const before = octets.slice(0, last).map((octet) => `${octet}.`)
  return Array.from({ length: 2 ** ((last + 1) * OCTET_BITS - bits) }, (_, index) => {
    const begins = `ip:${before.join('')}${(octets[last] ?? 0) + index}`
    // The whole address, or one with further parts behind a bar.
    return last === octets.length - 1
      ? ([
          [begins, `${begins}!`],
          [`${begins}|`, `${begins}}`],
        ] as const)
      : ([[`${begins}.`, `${begins}/`]] as const)
  }).flat()
}

/** Collects the keys of the clients in a network, by one search of the index for each key that the log has. */
async function keysOfNetwork(
  snapshot: LogSnapshot,
  { isMeant }: ClientSearch,
  clients: readonly SpellingRange[],
  window: ReportWindow,
): Promise<string[] | undefined> {
  const { query, dialect } = snapshot
  const [rules, others] = await Promise.all([
    readRuleNames(snapshot, window),
    readKeysOf(snapshot, window.since ?? 0, (parameters) =>
      isInRanges(dialect.bytewise('client'), clients, parameters),
    ),
  ])
  if (clients.length * (rules.length + 1) > MAX_NETWORK_KEYS) return undefined
  const bare = (text: string) => text.slice('ip:'.length)
  const ranges = clients.flatMap(([from, to]) => [
    [from, to],
    ...rules.map((rule) => [`rule:${rule}:${bare(from)}`, `rule:${rule}:${bare(to)}`]),
  ])
  const table = dialect.table('rate_limit_event')
  const parameters = new Parameters()
  const first = (from: string, to: string, least: '>' | '>=') =>
    `(SELECT key FROM ${table} WHERE key ${least} ${from} AND key < ${to} ORDER BY key LIMIT 1)`
  const listed = dialect.jsonRows(parameters.add(JSON.stringify(ranges)))
  const rows = await query<{ key: string }>(
    `WITH RECURSIVE
       ranges(beginning, ending) AS (SELECT ${dialect.jsonField(0, 'text')}, ${dialect.jsonField(1, 'text')} FROM ${listed}),
       present(key, ending) AS (
         SELECT ${first('ranges.beginning', 'ranges.ending', '>=')}, ending FROM ranges
         UNION ALL
         SELECT ${first('present.key', 'present.ending', '>')}, ending FROM present WHERE present.key IS NOT NULL
       )
     SELECT key FROM present WHERE key IS NOT NULL LIMIT ${MAX_NETWORK_KEYS + 1}`,
    parameters.values,
  )
  const further = [...others].flatMap(([client, keys]) => (isMeant(client) ? keys : []))
  if (rows.length + further.length > MAX_NETWORK_KEYS) return undefined
  const found = rows.flatMap(({ key }) => {
    const { rule, shown } = splitKey(key)
    return isMeant(rule === undefined ? shown : `ip:${shown}`) ? [key] : []
  })
  return [...new Set([...found, ...further])]
}
