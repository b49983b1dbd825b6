import { isIP } from 'node:net'
import type { Query } from '../db/dialect.js'
import { MAX_KEY_LENGTH } from '../db/storable.js'
import type { LoggedRequest } from './preview-events.js'
import { type ClientKind, parseClientKind } from './rule.js'

/** Why a request cannot be replayed, and how that is said to operators. */
export const UNCOVERED = {
  address_not_logged: 'were counted by something else than their address, which the log then leaves out',
  user_not_logged: 'have no user in the log',
  header_not_logged: 'were not counted by this header, and the log keeps no other headers',
  rule_changed: 'were counted by a rule that was edited or deleted since, and may have told clients apart otherwise',
  key_cut: 'have a key that was too long for the log',
  path_cut: 'have a path that was too long for the log',
  deny_list: 'were refused by the deny list, which goes before rules, or by a static limit of 0',
  too_many_clients: 'came from clients beyond the number that a preview keeps in memory',
} as const

export type UncoveredReason = keyof typeof UNCOVERED

/** Answers how a rule told clients apart when it recorded an event; undefined where nobody knows any more. */
export type KindAt = (ruleName: string, timestampMs: number) => ClientKind | undefined

/** How the client of a recorded request is called, or why it cannot be told. */
export type Recovered = Recognised | { readonly reason: UncoveredReason }

export interface Recognised {
  readonly client: string
  /** Taken for an anonymous client since the log names no user. */
  readonly assumed?: true
}

/** What reading clients from a log found out besides. */
export interface Findings {
  /** Whether the log has users whose ids are no integers: such users leave no trace where addresses are counted. */
  hasTextualUsers: boolean
}

const USER = 'user:'
const HEADER = 'header:'
/** How requests without any address are called. */
const UNKNOWN_ADDRESS = 'unknown'

/**
 * Who a candidate would have counted a request for, spelled as counters do: the bare address, `user:7`,
 * `header:<value>`. Only what the log says is used; where it does not say, the answer is why.
 *
 * @param noIdIsNobody whether a request without an integer id is taken for one without a user
 */
export function createClientReader(
  kind: ClientKind,
  kindAt: KindAt,
  noIdIsNobody: boolean,
  findings: Findings,
): (event: LoggedRequest) => Recovered {
  if (kind.kind === 'ip') return (event: LoggedRequest) => byAddress(event, kindAt)
  if (kind.kind === 'user') return byUser
  const { name } = kind
  return (event: LoggedRequest) => byHeader(event, name, kindAt)

  function byUser(event: LoggedRequest): Recovered {
    if (event.userId !== null) return { client: `${USER}${event.userId}` }
    const recordedBy = kindAt(event.ruleName, event.timestampMs)?.kind
    const shown = event.ruleName === '' ? event.key : recordedBy === 'user' ? shownClient(event) : ''
    if (shown.startsWith(USER)) {
      findings.hasTextualUsers = true
      return isCut(event) ? { reason: 'key_cut' } : { client: shown }
    }
    const anonymous = byAddress(event, kindAt)
    if ('reason' in anonymous) return { reason: 'user_not_logged' }
    // A rule by user counts addresses for nobody but the anonymous.
    if (recordedBy === 'user') return anonymous
    if (!noIdIsNobody) return { reason: 'user_not_logged' }
    return { client: anonymous.client, assumed: true }
  }
}

/** The address as it was counted: an IPv6 one by its network, as the server was told then. */
function byAddress(event: LoggedRequest, kindAt: KindAt): Recovered {
  if (event.clientIp !== null) return { client: event.clientIp }
  if (event.ruleName === '') {
    const address = event.key.startsWith('ip:') ? event.key.slice('ip:'.length) : ''
    return isAddress(address) ? { client: address } : { reason: 'address_not_logged' }
  }
  const recordedBy = kindAt(event.ruleName, event.timestampMs)
  const shown = shownClient(event)
  const isShown = recordedBy !== undefined && recordedBy.kind !== 'header' && isAddress(shown)
  return isShown ? { client: shown } : { reason: 'address_not_logged' }
}

function byHeader(event: LoggedRequest, name: string, kindAt: KindAt): Recovered {
  if (event.ruleName === '') return { reason: 'header_not_logged' }
  const recordedBy = kindAt(event.ruleName, event.timestampMs)
  if (recordedBy === undefined) return { reason: 'rule_changed' }
  if (recordedBy.kind !== 'header' || recordedBy.name !== name) return { reason: 'header_not_logged' }
  // The header was missing or blank.
  if (event.clientIp !== null) return { client: event.clientIp }
  const value = shownClient(event)
  // Somebody without header and address, or a header that says so: nobody can tell.
  if (value === '' || value === UNKNOWN_ADDRESS) return { reason: 'header_not_logged' }
  return isCut(event) ? { reason: 'key_cut' } : { client: `${HEADER}${value}` }
}

/** How a rule's key would show a client. */
export function shownInKey(client: string): string {
  return client.startsWith(HEADER) ? client.slice(HEADER.length) : client
}

/** What stands behind the rule's name in a key; empty where the key is not that rule's. */
function shownClient({ key, ruleName }: LoggedRequest): string {
  const prefix = `rule:${ruleName}:`
  return key.startsWith(prefix) ? key.slice(prefix.length) : ''
}

function isCut({ key }: LoggedRequest): boolean {
  return key.length >= MAX_KEY_LENGTH
}

function isAddress(text: string): boolean {
  if (text === UNKNOWN_ADDRESS) return true
  const slash = text.indexOf('/')
  return isIP(slash === -1 ? text : text.slice(0, slash)) !== 0
}

interface KindRow {
  readonly name: string
  readonly key: string
  readonly updated: number
}

/**
 * How the rules that are in the table now told clients apart. The table knows only how a rule is now: from before its
 * last edit nothing is known. An edit that lies in the future belongs to another clock, and says nothing.
 */
export async function readKinds(query: Query, ruleTable: string, nowMs: number): Promise<KindAt> {
  const rows = await query<KindRow>(`SELECT name, key, updated_at AS updated FROM ${ruleTable}`)
  const kinds = new Map<string, { kind: ClientKind; sinceMs: number }>()
  for (const { name, key, updated } of rows) {
    const kind = understood(key)
    if (kind !== undefined) kinds.set(name, { kind, sinceMs: updated <= nowMs ? updated : 0 })
  }
  return (ruleName, timestampMs) => {
    const known = kinds.get(ruleName)
    return known === undefined || timestampMs < known.sinceMs ? undefined : known.kind
  }
}

/** Undefined for a key that raw SQL made wrong: no server counted by it. */
function understood(key: string): ClientKind | undefined {
  try {
    return parseClientKind(key)
  } catch {
    return undefined
  }
}
