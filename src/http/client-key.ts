import { createHmac } from 'node:crypto'
import type { FastifyRequest } from 'fastify'
import { boundedText, HASH_LENGTH } from '../db/storable.js'
import type { ClientKind } from '../rules/rule.js'

/** Longer than any key that is not made up; short enough for the counter's column, with the rule's name before it. */
const MAX_COUNTED_LENGTH = 128

/** Who is counted, and how that is written. */
export interface ClientKey {
  /** What the event log calls the client. */
  readonly name: string
  /**
   * What the counter calls the client. It says which kind was really used, so that a header whose value spells
   * somebody's address or `user:7` has a counter of its own.
   */
  readonly counter: string
  /** Whether it is the address that was counted. */
  readonly byAddress: boolean
}

/** Spells a client the way keys without a rule do: `ip:203.0.113.7`, `user:7`. */
export function addressKey(address: string): ClientKey {
  const name = `ip:${address}`
  return { name, counter: name, byAddress: true }
}

export function userKey(id: string): ClientKey {
  return { name: `user:${id}`, counter: `user:${bounded(id)}`, byAddress: false }
}

export function headerKey(value: string): ClientKey {
  return { name: `header:${value}`, counter: `header:${bounded(value)}`, byAddress: false }
}

/** A key that the host's own function made. */
export function customKey(key: string): ClientKey {
  return { name: key, counter: `key:${bounded(key)}`, byAddress: false }
}

/** Spells a client the way a rule's keys do: the address and the header's value stand bare behind the rule's name. */
export function ruleKey(ruleName: string, kind: ClientKind['kind'], client: ClientKey): ClientKey {
  const { name, counter, byAddress } = client
  const isHeader = kind === 'header' && !byAddress
  const shown = byAddress ? name.slice('ip:'.length) : isHeader ? name.slice('header:'.length) : name
  return {
    name: `rule:${ruleName}:${shown}`,
    counter: `rule:${ruleName}:${byAddress ? shown : counter}`,
    byAddress,
  }
}

/** What parts the counters of one client, by names that the host gave: in it they have no bar of their own. */
export function scopeFor(...names: readonly string[]): string {
  return names.map((name) => name.replace(/[\\|]/g, '\\$&')).join('|')
}

/**
 * The same client, counted apart from its other counters. A scope has no bare bar but between its names, and none of
 * these begins like a client: so whatever a client spells, its counter is in no other scope.
 */
export function inScope(scope: string, { name, counter, byAddress }: ClientKey): ClientKey {
  return { name, counter: `${scope}|${counter}`, byAddress }
}

/** The counters, outside of any scope, that the log's key of a client may stand for. */
export function countersOfKey(name: string): string[] {
  const ofFunction = `key:${bounded(name)}`
  const [, ruleName, client = ''] = /^rule:([^:]+):(.*)$/s.exec(name) ?? []
  if (ruleName === undefined) return [clientCounter(name), ofFunction]
  // A header's value may look like an address or a user.
  const counters = new Set([client, clientCounter(client), `header:${bounded(client)}`])
  return [...[...counters].map((counter) => `rule:${ruleName}:${counter}`), ofFunction]
}

function clientCounter(name: string): string {
  const [, kind, client = ''] = /^(user|header):(.*)$/s.exec(name) ?? []
  return kind === undefined ? name : `${kind}:${bounded(client)}`
}

/** What clients make up is kept for as long as its counter lives: a long text is kept as its hash. */
function bounded(text: string): string {
  return text.length < HASH_LENGTH ? text : boundedText(text, MAX_COUNTED_LENGTH)
}

/** A header's value without blanks around it, empty where it is missing. */
export function headerValue(request: FastifyRequest, name: string): string {
  const value = request.headers[name]
  if (typeof value === 'string') return value.trim()
  // Of a name such as `constructor` the headers have what every object has, where the client sent none.
  return Array.isArray(value) ? value.join(', ').trim() : ''
}

/** Replaces a secret by its HMAC, behind the first few characters of it, by which its owner can recognise it. */
export function createHeaderHash(secret: string): (value: string) => string {
  return function hashHeader(value) {
    const visible = value.slice(0, Math.min(4, Math.floor(value.length / 4)))
    return `${visible}~${createHmac('sha256', secret).update(value).digest('hex').slice(0, 32)}`
  }
}
