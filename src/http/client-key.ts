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
  /** The same client whatever the rule: `ip:203.0.113.7`, `user:7`, `header:x-api-key:<value>`, `key:<answer>`. */
  readonly client: string
  /** Whether it is the address that was counted. */
  readonly byAddress: boolean
}

/** Spells a client the way keys without a rule do: `ip:203.0.113.7`, `user:7`. */
export function addressKey(address: string): ClientKey {
  const name = `ip:${address}`
  return { name, counter: name, client: name, byAddress: true }
}

export function userKey(id: string): ClientKey {
  const name = `user:${id}`
  return { name, counter: `user:${bounded(id)}`, client: name, byAddress: false }
}

export function headerKey(header: string, value: string): ClientKey {
  const counter = `header:${bounded(value)}`
  return { name: `header:${value}`, counter, client: `header:${header}:${value}`, byAddress: false }
}

/** A key that the host's own function made. */
export function customKey(key: string): ClientKey {
  return { name: key, counter: `key:${bounded(key)}`, client: `key:${key}`, byAddress: false }
}

/** Spells a client the way a rule's keys do: the address and the header's value stand bare behind the rule's name. */
export function ruleKey(ruleName: string, kind: ClientKind['kind'], key: ClientKey): ClientKey {
  const { name, counter, client, byAddress } = key
  const isHeader = kind === 'header' && !byAddress
  const shown = byAddress ? name.slice('ip:'.length) : isHeader ? name.slice('header:'.length) : name
  return {
    name: `rule:${ruleName}:${shown}`,
    counter: `rule:${ruleName}:${byAddress ? shown : counter}`,
    client,
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
export function inScope(scope: string, { name, counter, client, byAddress }: ClientKey): ClientKey {
  return { name, counter: `${scope}|${counter}`, client, byAddress }
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
