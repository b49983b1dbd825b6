import { type ClientPart, formatKey, formatPart, isComposite, parseClient, parseParts } from '../../clients/client.js'
import { type ClientKind, countsBy, type KeyPart, partName, partsFor } from '../../clients/client-kind.js'
import { MAX_KEY_LENGTH } from '../../ground/storable.js'
import type { LoggedRequest } from './events.js'

/** The reasons why a request cannot be replayed, as operators read them. */
export const UNCOVERED = {
  address_not_logged: 'not counted by address, and the log has no address then',
  user_not_logged: 'without a user in the log',
  user_field_not_logged: 'not counted by this field of the user, and the log keeps no fields of users',
  header_not_logged: 'not counted by this header, and the log keeps no other headers',
  cookie_not_logged: 'not counted by this cookie, and the log keeps no other cookies',
  route_not_logged: 'not counted by route, and the log has no route then',
  key_cut: 'with a key that was too long for the log',
  condition_not_logged: 'under a condition that reads what is not known of them',
  path_cut: 'with a path that was too long for the log',
  too_long: 'with a path on which rules take too much work: servers refuse such requests with 414',
  deny_list: 'turned away by the deny list, by an override that no longer exists, or for a long path',
  override_unclear: 'of a network of which only a part has an override, and the log no longer has addresses',
  status_not_logged: 'counted only with certain statuses of their responses, which are not in the log',
  progress_not_logged: 'counted only while in progress, and the log does not have when that ended',
  amount_not_logged: 'counted by what they were charged for, which is not in the log',
  only_sums: 'that were allowed, of which the log only has sums',
  too_many_clients: 'from clients beyond the number that a preview keeps in memory',
} as const

export type UncoveredReason = keyof typeof UNCOVERED

/** A fact that a rule reads, and a preview does not know. */
export interface UnknownFact {
  /** The name of the rule: the candidate, or one that comes before it. */
  readonly rule: string
  /** The fact as conditions and keys spell it, such as `request.headers['user-agent']` or `user.org`. */
  readonly field: string
  /** Who lacks it: the log, or this process, which does not know the list or the file. */
  readonly lacks: 'log' | 'process'
}

/** The client of a recorded request, or why it is not known. */
export type Recovered = Recognised | Unrecognised

interface Recognised {
  readonly client: string
  /** Whether the client is taken for an anonymous one, since the log names no user. */
  readonly assumed?: true
}

interface Unrecognised {
  readonly reason: UncoveredReason
  /** What the rule reads and the log does not have; undefined where nothing is missing. */
  readonly field?: string
}

/** Further findings of reading clients from a log. */
interface LogFindings {
  /** Whether the log has users whose ids are not integers: such users leave no trace where addresses are counted. */
  hasTextualUsers: boolean
}

const ADDRESS: KeyPart = { kind: 'ip' }
const USER: KeyPart = { kind: 'user' }
const REASONS: Readonly<Record<KeyPart['kind'], UncoveredReason>> = {
  ip: 'address_not_logged',
  user: 'user_not_logged',
  userField: 'user_field_not_logged',
  route: 'route_not_logged',
  header: 'header_not_logged',
  cookie: 'cookie_not_logged',
}

/** The value of a kind in the log; null where the request had none; or the reason why the log lacks it. */
type LoggedPart = { readonly value: string | null; readonly assumed?: true } | Unrecognised

/**
 * Creates a function that returns the client that a candidate would have counted a request for, each value with its
 * escapes: `ip:203.0.113.7`, `header:x-a:1|user:7`. Where the log does not contain it, the function returns why.
 *
 * @param noIdIsAnonymous whether a request without an integer id is taken for one without a user
 */
export function createClientReader(
  kind: ClientKind,
  noIdIsAnonymous: boolean,
  findings: LogFindings,
): (event: LoggedRequest) => Recovered {
  if (kind.kind === 'all') return () => ({ client: 'all' })
  const parts = partsFor(kind)
  const hasAddress = countsBy(kind, 'ip')

  function read(event: LoggedRequest, part: KeyPart): LoggedPart {
    if (part.kind === 'ip') return readAddress(event)
    if (part.kind === 'user') return readUser(event)
    const value = loggedPart(event, part)
    if (value === undefined) return { reason: REASONS[part.kind], field: partName(part) }
    return isCut(event) ? { reason: 'key_cut', field: partName(part) } : { value }
  }

  function readUser(event: LoggedRequest): LoggedPart {
    const user = loggedUser(event)
    if (user === null) {
      if (loggedPart(event, USER) === null) return { value: null }
      return noIdIsAnonymous ? { value: null, assumed: true } : { reason: 'user_not_logged', field: USER.kind }
    }
    if (event.userId === null && !/^\d+$/.test(user)) findings.hasTextualUsers = true
    return event.userId === null && isCut(event) ? { reason: 'key_cut', field: USER.kind } : { value: user }
  }

  return function clientFor(event) {
    const found: ClientPart[] = []
    let isWhole = true
    let assumed = false
    for (const part of parts) {
      const logged = read(event, part)
      if ('reason' in logged) return logged
      if (logged.value === null) isWhole = false
      if (logged.assumed) assumed = true
      if (logged.value !== null || parts.length > 1) found.push({ name: partName(part), value: logged.value })
    }
    if (!isWhole && !hasAddress) {
      const address = readAddress(event)
      // A request without a user and an address may be of any client.
      if ('reason' in address) return assumed ? { reason: 'user_not_logged', field: USER.kind } : address
      found.push({ name: ADDRESS.kind, value: address.value })
    }
    const client = found.map(formatPart).join('|')
    return assumed ? { client, assumed } : { client }
  }
}

function readAddress(event: LoggedRequest): LoggedPart {
  const value = loggedAddress(event)
  if (value !== null) return { value }
  return { reason: isCut(event) ? 'key_cut' : 'address_not_logged', field: ADDRESS.kind }
}

/** Returns the user's id; null where the log names none. */
export function loggedUser(event: LoggedRequest): string | null {
  return event.userId === null ? (loggedPart(event, USER) ?? null) : String(event.userId)
}

/** Returns the address as it was counted, for IPv6 the network by the setting of then; null where it is not known. */
export function loggedAddress(event: LoggedRequest): string | null {
  // An address alone is never cut: what begins like one has further parts.
  return isCut(event) ? null : (loggedPart(event, ADDRESS) ?? null)
}

/** Returns what a request was counted by, of one kind: null where it lacked that, undefined where the log says nothing. */
function loggedPart(event: LoggedRequest, part: KeyPart): string | null | undefined {
  const client = parseClient(event.client, !isCut(event) && isComposite(event))
  return client?.parts.find(({ name }) => name === partName(part))?.value
}

/** Returns the key of a client that the reader above returned. */
export function shownKey(client: string, rule: string): string {
  const parsed = parseParts(client)
  return parsed === undefined ? `rule:${rule}:${client}` : formatKey(parsed, rule)
}

function isCut({ client }: LoggedRequest): boolean {
  return client.length >= MAX_KEY_LENGTH
}
