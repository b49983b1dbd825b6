import { MAX_KEY_LENGTH } from '../db/storable.js'
import type { ClientKind } from '../rules/rule.js'
import type { LoggedRequest } from './events.js'

/** The reasons why a request cannot be replayed, as operators read them. */
export const UNCOVERED = {
  address_not_logged: 'were not counted by their address, and the log has no address then',
  user_not_logged: 'have no user in the log',
  header_not_logged: 'were not counted by this header, and the log keeps no other headers',
  key_cut: 'have a key that was too long for the log',
  condition_not_logged:
    'depend on a condition that reads what the log does not have: headers, query, host, route or the user',
  path_cut: 'have a path that was too long for the log',
  deny_list: 'were refused by the deny list, by an override that no longer exists, or for a long path',
  override_unclear: 'are of an IPv6 network of which only a part has an override, and the log has no longer addresses',
  too_many_clients: 'came from clients beyond the number that a preview keeps in memory',
} as const

export type UncoveredReason = keyof typeof UNCOVERED

/** The client of a recorded request, or why it is not known. */
export type Recovered = Recognised | { readonly reason: UncoveredReason }

export interface Recognised {
  readonly client: string
  /** Whether the client is taken for an anonymous one, since the log names no user. */
  readonly assumed?: true
}

/** Further findings of reading clients from a log. */
export interface LogFindings {
  /** Whether the log has users whose ids are not integers: such users leave no trace where addresses are counted. */
  hasTextualUsers: boolean
}

const ADDRESS = 'ip:'
const USER = 'user:'
const HEADER = 'header:'

/**
 * Creates a function that returns the client that a candidate would have counted a request for, spelled as in
 * counters: the bare address, `user:7`, `header:<value>`. Where the log does not contain it, the function returns why.
 *
 * @param noIdIsAnonymous whether a request without an integer id is taken for one without a user
 */
export function createClientReader(
  kind: ClientKind,
  noIdIsAnonymous: boolean,
  findings: LogFindings,
): (event: LoggedRequest) => Recovered {
  if (kind.kind === 'ip') {
    return function byAddress(event) {
      const address = loggedAddress(event)
      return address === null ? { reason: 'address_not_logged' } : { client: address }
    }
  }
  if (kind.kind === 'header') {
    const prefix = `${HEADER}${kind.name}:`
    return function byHeader(event) {
      if (!event.client.startsWith(prefix)) return { reason: 'header_not_logged' }
      return isCut(event) ? { reason: 'key_cut' } : { client: HEADER + event.client.slice(prefix.length) }
    }
  }
  return function byUser(event) {
    const user = loggedUser(event)
    if (user !== null) {
      if (event.userId !== null) return { client: USER + user }
      if (!/^\d+$/.test(user)) findings.hasTextualUsers = true
      return isCut(event) ? { reason: 'key_cut' } : { client: USER + user }
    }
    const address = loggedAddress(event)
    return address === null || !noIdIsAnonymous ? { reason: 'user_not_logged' } : { client: address, assumed: true }
  }
}

/** Returns the user's id; null where the log names none. */
export function loggedUser({ userId, client }: LoggedRequest): string | null {
  if (userId !== null) return String(userId)
  return client.startsWith(USER) ? client.slice(USER.length) : null
}

/** Returns the address as it was counted, for IPv6 the network by the setting of then; null where it is not known. */
export function loggedAddress({ client }: LoggedRequest): string | null {
  return client.startsWith(ADDRESS) ? client.slice(ADDRESS.length) : null
}

/** Returns a client as a rule's key shows it. */
export function shownInKey(client: string): string {
  return client.startsWith(HEADER) ? client.slice(HEADER.length) : client
}

function isCut({ client }: LoggedRequest): boolean {
  return client.length >= MAX_KEY_LENGTH
}
