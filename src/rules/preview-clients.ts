import { isIP } from 'node:net'
import { MAX_KEY_LENGTH } from '../db/storable.js'
import type { LoggedRequest } from './preview-events.js'
import type { KindAt } from './preview-kinds.js'
import type { ClientKind } from './rule.js'

/** Why a request cannot be replayed, and how that is said to operators. */
export const UNCOVERED = {
  address_not_logged: 'were counted by something else than their address, which the log then leaves out',
  user_not_logged: 'have no user in the log',
  header_not_logged: 'were not counted by this header, and the log keeps no other headers',
  rule_changed:
    'were counted by a rule that was just edited, or is not known any more, and may have told clients apart otherwise',
  key_cut: 'have a key that was too long for the log',
  path_cut: 'have a path that was too long for the log',
  deny_list:
    'were refused by the deny list, by an override that is no more, by a static limit of 0, or for a long path',
  override_unclear: 'are of an IPv6 network of which only a part has an override, and the log has no longer addresses',
  too_many_clients: 'came from clients beyond the number that a preview keeps in memory',
} as const

export type UncoveredReason = keyof typeof UNCOVERED

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
    const client = loggedUser(event, kindAt)
    if (client !== undefined) {
      if (event.userId !== null) return { client }
      findings.hasTextualUsers = true
      return isCut(event) ? { reason: 'key_cut' } : { client }
    }
    const anonymous = byAddress(event, kindAt)
    if ('reason' in anonymous) return { reason: 'user_not_logged' }
    // A rule by user counts addresses for nobody but the anonymous.
    if (kindAt(event.ruleName, event.timestampMs)?.kind === 'user') return anonymous
    if (!noIdIsNobody) return { reason: 'user_not_logged' }
    return { client: anonymous.client, assumed: true }
  }
}

/** The user, as `user:7`; undefined where the log names none. */
export function loggedUser(event: LoggedRequest, kindAt: KindAt): string | undefined {
  const { userId, key, ruleName, timestampMs } = event
  if (userId !== null) return `${USER}${userId}`
  const shown = ruleName === '' ? key : kindAt(ruleName, timestampMs)?.kind === 'user' ? shownClient(event) : ''
  return shown.startsWith(USER) ? shown : undefined
}

/** The address as it was counted: an IPv6 one by its network, as the server was told then. */
export function byAddress(event: LoggedRequest, kindAt: KindAt): Recovered {
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
