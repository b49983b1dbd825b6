import { createHmac } from 'node:crypto'
import type { FastifyRequest } from 'fastify'
import { boundedText, HASH_LENGTH } from '../db/storable.js'
import type { ClientKind } from '../rules/rule.js'

/** Longer than any genuine key; short enough for the counter's column, with the rule's name before it. */
const MAX_COUNTED_LENGTH = 128

/** The spellings of a counted client. */
export interface ClientKey {
  /** The client's name in the event log. */
  readonly name: string
  /**
   * The client's name in its counter. It begins with the kind that was really used, so that a header whose value spells
   * an address or `user:7` has a counter of its own.
   */
  readonly counter: string
  /** The same client whatever the rule: `ip:203.0.113.7`, `user:7`, `header:x-api-key:<value>`, `key:<answer>`. */
  readonly client: string
  /** Whether the client is counted by address. */
  readonly byAddress: boolean
}

/** Returns the key of an address without a rule, such as `ip:203.0.113.7`. */
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

/** Returns the key of a client that the host's function named. */
export function customKey(key: string): ClientKey {
  return { name: key, counter: `key:${bounded(key)}`, client: `key:${key}`, byAddress: false }
}

/** Returns a client's key under a rule: the rule's name, then the bare address or header value, or the other key. */
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

/** Returns the scope of a counter from names that the host gave, with their bars escaped. */
export function scopeFor(...names: readonly string[]): string {
  return names.map((name) => name.replace(/[\\|]/g, '\\$&')).join('|')
}

/**
 * Returns the same client with a separate counter. A scope has unescaped bars only between its names, and no name
 * begins like a client: whatever a client spells, its counter is in no other scope.
 */
export function inScope(scope: string, { name, counter, client, byAddress }: ClientKey): ClientKey {
  return { name, counter: `${scope}|${counter}`, client, byAddress }
}

/** Returns the counters, outside of any scope, that a client's key in the log may stand for. */
export function countersForKey(name: string): string[] {
  const functionCounter = `key:${bounded(name)}`
  const [, ruleName, client = ''] = /^rule:([^:]+):(.*)$/s.exec(name) ?? []
  if (ruleName === undefined) return [clientCounter(name), functionCounter]
  // A header's value may equal an address or a user.
  const counters = new Set([client, clientCounter(client), `header:${bounded(client)}`])
  return [...[...counters].map((counter) => `rule:${ruleName}:${counter}`), functionCounter]
}

function clientCounter(name: string): string {
  const [, kind, client = ''] = /^(user|header):(.*)$/s.exec(name) ?? []
  return kind === undefined ? name : `${kind}:${bounded(client)}`
}

/** Bounds a text that clients choose, since it is kept as long as its counter: a long text becomes its hash. */
function bounded(text: string): string {
  return text.length < HASH_LENGTH ? text : boundedText(text, MAX_COUNTED_LENGTH)
}

/** Returns a header's value without surrounding blanks; empty where it is missing. */
export function headerValue(request: FastifyRequest, name: string): string {
  const value = request.headers[name]
  if (typeof value === 'string') return value.trim()
  // For a name such as `constructor` that the client did not send, the headers inherit a value from Object.
  return Array.isArray(value) ? value.join(', ').trim() : ''
}

/** Creates the function that replaces a secret by its HMAC, after a few characters for its owner to recognise it. */
export function createHeaderHash(secret: string): (value: string) => string {
  return function hashHeader(value) {
    const visible = value.slice(0, Math.min(4, Math.floor(value.length / 4)))
    return `${visible}~${createHmac('sha256', secret).update(value).digest('hex').slice(0, 32)}`
  }
}
