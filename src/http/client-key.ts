import { createHmac } from 'node:crypto'
import type { FastifyRequest } from 'fastify'
import type { ClientKind } from '../rules/rule.js'
import type { ClientAddress } from './client-address.js'

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
export function addressKey({ key }: ClientAddress): ClientKey {
  const name = `ip:${key}`
  return { name, counter: name, byAddress: true }
}

export function userKey(id: string): ClientKey {
  const name = `user:${id}`
  return { name, counter: name, byAddress: false }
}

export function headerKey(value: string): ClientKey {
  const name = `header:${value}`
  return { name, counter: name, byAddress: false }
}

/** A key that the host's own function made. */
export function customKey(key: string): ClientKey {
  return { name: key, counter: `key:${key}`, byAddress: false }
}

/** Spells a client the way a rule's keys do: the address and the header's value stand bare behind the rule's name. */
export function ruleKey(ruleName: string, kind: ClientKind['kind'], client: ClientKey): ClientKey {
  const bare = client.byAddress ? client.name.slice('ip:'.length) : client.name
  const shown = kind === 'header' && !client.byAddress ? client.name.slice('header:'.length) : bare
  return { name: `rule:${ruleName}:${shown}`, counter: `rule:${ruleName}:${bare}`, byAddress: client.byAddress }
}

/** A header's value without blanks around it, empty where it is missing. */
export function headerValue(request: FastifyRequest, name: string): string {
  const value = request.headers[name]
  return (Array.isArray(value) ? value.join(', ') : (value ?? '')).trim()
}

/** Replaces a secret by its HMAC, behind the first few characters of it, by which its owner can recognise it. */
export function createHeaderHash(secret: string): (value: string) => string {
  return function hashHeader(value) {
    const visible = value.slice(0, Math.min(4, Math.floor(value.length / 4)))
    return `${visible}~${createHmac('sha256', secret).update(value).digest('hex').slice(0, 32)}`
  }
}
