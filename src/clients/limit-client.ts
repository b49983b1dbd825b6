import { createHmac } from 'node:crypto'
import { ClientMemory } from '../ground/remember.js'
import { addressClient, type Client, EVERYBODY, formatKey } from './client.js'
import { DEFAULT_LIMIT, formatCounter, ruleLimitName } from './counter.js'

/** A client as one limit counts it. Its texts are formatted once, since every request reads them. */
export interface LimitClient {
  /** The client of counters and bans: addresses are pseudonyms where they are not stored. */
  readonly counted: Client
  /** The client of the log: the same, unless addresses are shortened there. */
  readonly logged: Client
  /** The client in clear. It is compared with overrides, and never stored. */
  readonly clear: Client
  /** The key of the log. */
  readonly key: string
  /** The name of the counter. */
  readonly counter: string
}

/** Creates a client as the default limit counts it. */
export function countClient(counted: Client, logged = counted, clear = counted): LimitClient {
  return { counted, logged, clear, key: formatKey(logged), counter: formatCounter(DEFAULT_LIMIT, counted) }
}

export const COUNTED_EVERYBODY: LimitClient = countClient(EVERYBODY)

/** Returns a client by its address, such as `ip:203.0.113.7`. */
export function countAddress(address: string, logged = address, counted = address): LimitClient {
  const clear = addressClient(address)
  if (address === logged && address === counted) return countClient(clear)
  return countClient(addressClient(counted), addressClient(logged), clear)
}

/** Returns the same client as another limit counts it. */
export function inLimit(limit: string, { counted, logged, clear, key }: LimitClient): LimitClient {
  return { counted, logged, clear, key, counter: formatCounter(limit, counted) }
}

/** Returns the same client as a rule counts it. */
export function underRule(rule: string, { counted, logged, clear }: LimitClient): LimitClient {
  return { counted, logged, clear, key: formatKey(logged, rule), counter: formatCounter(ruleLimitName(rule), counted) }
}

/** Returns a function that derives a value from each client once. */
export function deriveOnce<Value>(derive: (client: LimitClient) => Value): (client: LimitClient) => Value {
  const memory = new ClientMemory<Value>()
  return (client) => memory.values.get(client.counter) ?? memory.keep(client.counter, derive(client))
}

/** Creates the function that replaces a secret by its HMAC, after a few characters for its owner to recognise it. */
export function createHeaderHash(secret: string): (value: string) => string {
  return function hashHeader(value) {
    const visible = value.slice(0, Math.min(4, Math.floor(value.length / 4)))
    return `${visible}~${createHmac('sha256', secret).update(value).digest('hex').slice(0, 32)}`
  }
}
