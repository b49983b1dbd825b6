import { createHmac } from 'node:crypto'
import { ClientMemory } from '../ground/remember.js'
import { boundedText, HASH_LENGTH, MAX_KEY_LENGTH } from '../ground/storable.js'
import type { KeyPart } from './client-kind.js'
import { compositeFromKey, compositeInAnyKey, compositeInKey, splitComposite } from './composite.js'

/** Longer than any genuine key; short enough for the counter's column, with the rule's name before it. */
const MAX_COUNTED_LENGTH = 128

/** Matches the key of a rule's client; names of rules have no colon. */
export const RULE_KEY = /^rule:([^:]+):(.*)$/s
/** The limits of the staff pages and the API: these count strangers by their address, the others what tells of no address. */
export const STAFF_LIMITS = {
  byAddress: ['refusal', 'token', 'sign-in'],
  byOther: ['sign-in-account', 'sign-in-browser'],
} as const
/** Matches their counters, in a namespace too. */
const STAFF_COUNTER = new RegExp(`^(?:[\\w.-]{1,50}\\|)?staff-(?:${Object.values(STAFF_LIMITS).flat().join('|')}):`)
const STAFF_BY_ADDRESS = new RegExp(`^staff-(?:${STAFF_LIMITS.byAddress.join('|')}):(.*)$`, 's')
/** Matches the beginning of a client in its counter. Behind the name of a rule or a staff limit an address has no kind. */
const COUNTED_CLIENT = /^(?:ip|user|header|cookie|pattern|key|parts):/
const ADDRESS = 'ip:'

/** The spellings of a counted client. */
export interface ClientKey {
  /** The client's name in the event log. */
  readonly name: string
  /** The client's name in the event log behind the name of a rule: without its kind, unless it is a user. */
  readonly shown: string
  /**
   * The client's name in its counter. It begins with the kind that was really used, so that a header whose value spells
   * an address or `user:7` has a counter of its own.
   */
  readonly counter: string
  /**
   * The same client whatever the rule: `ip:203.0.113.7`, `user:7`, `header:x-api-key:<value>`, `cookie:<name>:<value>`,
   * `route:/items/:id`, `all`, `key:<answer>`, or several of them with bars between.
   */
  readonly client: string
  /** The client as bans spell it: the same, unless addresses are shortened in the log. */
  readonly banned: string
  /** The client in clear: the same, unless addresses are not stored. It is compared with overrides, and never stored. */
  readonly clear: string
  /** Whether the client is counted by address, alone or together with others. */
  readonly byAddress: boolean
}

/** The key of all clients together. */
export const EVERYBODY: ClientKey = keyFor('all', 'all', 'all')

/** Returns the key of a client whose spelling hides nothing. */
function keyFor(name: string, shown: string, counter: string, client = name, byAddress = false): ClientKey {
  return { name, shown, counter, client, banned: client, clear: client, byAddress }
}

/** Returns the key of an address without a rule, such as `ip:203.0.113.7`. */
export function addressKey(address: string): ClientKey {
  const name = `ip:${address}`
  return keyFor(name, address, name, name, true)
}

/** Returns the key of an address that is not stored in full, such as `ip:~0f…`. */
export function privateAddressKey(address: string, logged: string, pseudonym: string): ClientKey {
  const name = `ip:${logged}`
  const counter = `ip:${pseudonym}`
  return { name, shown: logged, counter, client: name, banned: counter, clear: `ip:${address}`, byAddress: true }
}

export function userKey(id: string): ClientKey {
  const name = `user:${id}`
  return keyFor(name, name, `user:${bounded(id)}`)
}

export function headerKey(header: string, value: string): ClientKey {
  return namedKey('header', header, value)
}

export function cookieKey(cookie: string, value: string): ClientKey {
  return namedKey('cookie', cookie, value)
}

function namedKey(kind: 'header' | 'cookie', named: string, value: string): ClientKey {
  return keyFor(`${kind}:${value}`, value, `${kind}:${bounded(value)}`, `${kind}:${named}:${value}`)
}

/** Returns the key of a route by its pattern. Its counter is called otherwise, since scopes may begin with `route:`. */
export function routeKey(pattern: string): ClientKey {
  const name = `route:${pattern}`
  return keyFor(name, pattern, `pattern:${bounded(pattern)}`)
}

/**
 * Returns the key of a client that several kinds identify, from its spelling with kinds.
 *
 * @param counted the same as counters have it
 */
export function compositeKey(client: string, parts: readonly KeyPart[], counted = client): ClientKey {
  const shown = compositeInKey(client, parts)
  const byAddress = splitComposite(client).some((text) => text.startsWith(ADDRESS))
  return keyFor(shown, shown, compositeCounter(counted), client, byAddress)
}

function compositeCounter(client: string): string {
  return `parts:${bounded(client)}`
}

/** Returns the key of a client that the host's function named. */
export function customKey(key: string): ClientKey {
  return keyFor(key, key, `key:${bounded(key)}`, `key:${key}`)
}

/** Returns a client's key under a rule: the rule's name, then the client as the log shows it there. */
export function ruleKey(ruleName: string, key: ClientKey): ClientKey {
  const { client, banned, clear, byAddress } = key
  const name = `rule:${ruleName}:${key.shown}`
  // No other counter than an address's begins like an address.
  const shown = key.counter.startsWith(ADDRESS) ? key.counter.slice(ADDRESS.length) : key.counter
  // All keys are created with the same fields in the same order, so that V8 reads them with one shape.
  return { name, shown: name, counter: `rule:${ruleName}:${shown}`, client, banned, clear, byAddress }
}

/**
 * Returns whether a client has several parts. The value of a header alone may spell further ones; then the key shows it
 * as it is, with their kinds.
 */
export function isComposite({ client, key }: { readonly client: string; readonly key: string }): boolean {
  if (!client.includes('|')) return false
  const expected = compositeInAnyKey(client)
  const [, , shown = key] = RULE_KEY.exec(key) ?? []
  return shown === expected || (key.length >= MAX_KEY_LENGTH && expected.startsWith(shown))
}

/** Returns the scope of a counter from names that the host gave, with their bars escaped. */
export function scopeFor(...names: readonly string[]): string {
  return names.map((name) => name.replace(/[\\|]/g, '\\$&')).join('|')
}

/**
 * Returns the same client with a separate counter. A scope has unescaped bars only between its names, and no name
 * begins like a client: whatever a client spells, its counter is in no other scope.
 */
export function inScope(scope: string, key: ClientKey): ClientKey {
  const { name, shown, counter, client, banned, clear, byAddress } = key
  return { name, shown, counter: `${scope}|${counter}`, client, banned, clear, byAddress }
}

/** Returns a function that derives a value from each client's key once: keys of one kind differ in their counters. */
export function deriveOnce<Value>(derive: (key: ClientKey) => Value): (key: ClientKey) => Value {
  const memory = new ClientMemory<Value>()
  return (key) => memory.values.get(key.counter) ?? memory.keep(key.counter, derive(key))
}

/** Returns the counters, outside of any scope, that a client's key in the log may stand for. */
export function countersForKey(name: string): string[] {
  const functionCounter = `key:${bounded(name)}`
  const [, ruleName, client = ''] = RULE_KEY.exec(name) ?? []
  if (ruleName === undefined) return [clientCounter(name), compositeCounter(name), functionCounter]
  // The value of a header or cookie may equal an address or a user.
  const values = ['header', 'cookie', 'pattern', 'parts'].map((kind) => `${kind}:${bounded(client)}`)
  const counters = new Set([client, clientCounter(client), ...values])
  return [...[...counters].map((counter) => `rule:${ruleName}:${counter}`), functionCounter]
}

/** Returns the counter of a client that several kinds identify, by its key in the log; none for a key of other kinds. */
export function countersForComposite(name: string, parts: readonly KeyPart[]): string[] {
  const [, ruleName, shown = name] = RULE_KEY.exec(name) ?? []
  const client = compositeFromKey(shown, parts)
  if (client === undefined) return []
  const counter = compositeCounter(client)
  return [ruleName === undefined ? counter : `rule:${ruleName}:${counter}`]
}

/** Returns the counter of a limit of the staff pages or the API. */
export function staffCounter(limit: (typeof STAFF_LIMITS)[keyof typeof STAFF_LIMITS][number], client: string): string {
  return `staff-${limit}:${client}`
}

/** Returns whether a counter is of these limits: staff who reset it could guess the passwords of others without an end. */
export function isStaffCounter(key: string): boolean {
  return STAFF_COUNTER.test(key)
}

/**
 * Returns whose counter has a name: the rule, where there is one, and the client as counters spell it, such as
 * `ip:203.0.113.7`, `header:<value>` or `parts:ip:203.0.113.7|user:7`.
 */
export function readCounter(name: string): { readonly rule: string | undefined; readonly client: string } {
  const counter = withoutScopes(name)
  const [, rule, ofRule] = RULE_KEY.exec(counter) ?? []
  const behind = ofRule ?? STAFF_BY_ADDRESS.exec(counter)?.[1]
  if (behind === undefined) return { rule, client: counter }
  return { rule, client: COUNTED_CLIENT.test(behind) ? behind : ADDRESS + behind }
}

/** Returns the name of a counter without its namespace and scopes: none of them begins like a counter. */
function withoutScopes(name: string): string {
  let rest = name
  while (!COUNTED_CLIENT.test(rest) && !RULE_KEY.test(rest) && !STAFF_BY_ADDRESS.test(rest)) {
    const [scope = ''] = splitComposite(rest)
    if (scope.length === rest.length) return rest
    rest = rest.slice(scope.length + 1)
  }
  return rest
}

/** Returns the counter, outside of rules and scopes, of a client that one kind identifies, such as `header:x-api-key:7`. */
export function counterForClient(client: string): string {
  return clientCounter(client.replace(/^(header|cookie):[^:]+:/, '$1:'), /^(user|header|cookie|route|key):(.*)$/s)
}

function clientCounter(name: string, counted = /^(user|header|cookie|route):(.*)$/s): string {
  const [, kind, client = ''] = counted.exec(name) ?? []
  if (kind === undefined) return name
  return `${kind === 'route' ? 'pattern' : kind}:${bounded(client)}`
}

/** Bounds a text that clients choose, since it is kept as long as its counter: a long text becomes its hash. */
function bounded(text: string): string {
  return text.length < HASH_LENGTH ? text : boundedText(text, MAX_COUNTED_LENGTH)
}

/** Creates the function that replaces a secret by its HMAC, after a few characters for its owner to recognise it. */
export function createHeaderHash(secret: string): (value: string) => string {
  return function hashHeader(value) {
    const visible = value.slice(0, Math.min(4, Math.floor(value.length / 4)))
    return `${visible}~${createHmac('sha256', secret).update(value).digest('hex').slice(0, 32)}`
  }
}
