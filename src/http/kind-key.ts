/** Creates the functions that find the clients of requests. */
import type { FastifyBaseLogger } from 'fastify'
import type { AddressPrivacy } from '../clients/address-privacy.js'
import { type Client, createClient, formatPart, parseParts } from '../clients/client.js'
import { type ClientKind, type KeyPart, partName } from '../clients/client-kind.js'
import { COUNTED_EVERYBODY, countClient, deriveOnce, type LimitClient } from '../clients/limit-client.js'
import { rememberClients } from '../ground/remember.js'
import { type Countable, type DeriveClientKey, toAddressKey } from './checked-request.js'
import type { ClientAddress } from './client-address.js'
import { type RequestFunction, tolerate } from './host-function.js'
import type { LateUserWarning } from './request-user.js'
import { cookieValue, headerValue, routePattern } from './request-values.js'

/** The readers of values that have a name; an empty one is missing. */
const VALUES = { header: headerValue, cookie: cookieValue } as const

export type KeyFunction = RequestFunction<string | number | bigint | null | undefined>

export interface KeyOptions {
  readonly log: FastifyBaseLogger
  /** Replaces values of headers and cookies that are secrets. */
  readonly hashHeader: ((value: string) => string) | undefined
  /** How addresses are stored; undefined where they are stored in full. */
  readonly privacy?: AddressPrivacy | undefined
  /** Receives requests with and without users, where users are counted. */
  readonly users: LateUserWarning
}

/** Gives a client the counter of a limit. */
type DeriveKey = (counted: LimitClient) => LimitClient

/**
 * Creates the key function of a kind. Without a user, header or cookie it uses the address.
 *
 * @param derive called once for each client; without it the default limit counts
 */
export function createKindKey(client: ClientKind, options: KeyOptions, derive?: DeriveKey): DeriveClientKey {
  if (derive === undefined) return createDerivedKey(client, options, toAddressKey, (key) => key)
  const addressKeyOnce = deriveOnce(derive)
  return createDerivedKey(client, options, ({ address }) => addressKeyOnce(address.counted), derive)
}

function createDerivedKey(
  client: ClientKind,
  options: KeyOptions,
  addressKey: (checked: Countable) => LimitClient,
  derive: DeriveKey,
): DeriveClientKey {
  const count = (name: string, value: string) => derive(countClient(createClient({ name, value })))
  switch (client.kind) {
    case 'ip':
      return addressKey
    case 'user': {
      const keyOnce = rememberClients((id) => count('user', id))
      const { users } = options
      return (checked) => {
        const id = users.idOf(checked)
        return id === null ? addressKey(checked) : keyOnce(id)
      }
    }
    case 'header':
    case 'cookie': {
      const { kind, name } = client
      const { hashHeader = (value) => value } = options
      const called = partName(client)
      const read = VALUES[kind]
      const keyOnce = rememberClients((value) => count(called, hashHeader(value)))
      return (checked) => {
        const value = read(checked.request, name)
        return value === '' ? addressKey(checked) : keyOnce(value)
      }
    }
    case 'route': {
      const keyOnce = rememberClients((pattern) => count('route', pattern))
      return ({ request }) => keyOnce(routePattern(request))
    }
    case 'all': {
      const everybody = derive(COUNTED_EVERYBODY)
      return () => everybody
    }
    case 'composite':
      return createCompositeKey(client.parts, options, derive)
  }
}

/** Creates the key function of several kinds. Where one is missing the address is a further part. */
function createCompositeKey(parts: readonly KeyPart[], options: KeyOptions, derive: DeriveKey): DeriveClientKey {
  const hasAddress = parts.some(({ kind }) => kind === 'ip')
  const readers = parts.map((part) => ({
    read: createPartReader(part, options),
    missing: formatPart({ name: partName(part), value: null }),
  }))
  const keyOnce = rememberClients((text) => derive(countClient(parseSpelled(text))))
  function spell(checked: Countable): string {
    let client = ''
    let isWhole = true
    for (const { read, missing } of readers) {
      const text = read(checked)
      if (text === undefined) isWhole = false
      if (client !== '') client += '|'
      client += text ?? missing
    }
    return isWhole || hasAddress ? client : `${client}|${checked.address.counted.counted.text}`
  }
  if (options.privacy?.addresses !== 'truncated') return (checked) => keyOnce(spell(checked))
  const shortenedOnce = rememberClients((spelled) => derive(countShortened(spelled)))
  return (checked) => shortenedOnce(`${checked.address.logged} ${spell(checked)}`)
}

function parseSpelled(text: string): Client {
  const client = parseParts(text)
  if (client === undefined) throw new Error(`${JSON.stringify(text)} is no client`)
  return client
}

/** Returns a client from its address as the log has it, a blank, and its spelling in counters. */
function countShortened(spelled: string): LimitClient {
  const begin = spelled.indexOf(' ')
  const [address, counted] = [spelled.slice(0, begin), parseSpelled(spelled.slice(begin + 1))]
  const logged = counted.parts.map((part) => (part.name === 'ip' ? { name: 'ip', value: address } : part))
  return countClient(counted, createClient(...logged))
}

/** Creates a function that spells a part of a request's client; undefined where the request lacks it. */
function createPartReader(part: KeyPart, options: KeyOptions): (checked: Countable) => string | undefined {
  if (part.kind === 'ip') return ({ address }) => address.counted.counted.text
  const { hashHeader } = options
  const called = partName(part)
  const spell = (value: string) => formatPart({ name: called, value })
  if (part.kind === 'user') {
    const spellOnce = rememberClients(spell)
    const { users } = options
    return (checked) => {
      const id = users.idOf(checked)
      return id === null ? undefined : spellOnce(id)
    }
  }
  if (part.kind === 'route') {
    const spellOnce = rememberClients(spell)
    return ({ request }) => spellOnce(routePattern(request))
  }
  const { kind, name } = part
  const read = VALUES[kind]
  const spellOnce = rememberClients((value) => spell(hashHeader === undefined ? value : hashHeader(value)))
  return ({ request }) => {
    const value = read(request, name)
    return value === '' ? undefined : spellOnce(value)
  }
}

/** Creates the key function of a host's own function. Its failure is logged, and the address is used. */
export function createFunctionKey(keyFunction: KeyFunction, setting: string, { log }: KeyOptions): DeriveClientKey {
  const guarded = tolerate(keyFunction, setting, log)
  const keyOnce = rememberClients((text) =>
    text.trim() === '' ? undefined : countClient(createClient({ name: 'key', value: text })),
  )

  function toKey(key: unknown, { counted }: ClientAddress): LimitClient {
    const isText = typeof key === 'string' || typeof key === 'number' || typeof key === 'bigint'
    return (isText ? keyOnce(String(key)) : undefined) ?? counted
  }

  /** A function of its own: its closure would cost an allocation also where the key is not late. */
  function toKeyLater(late: Promise<unknown>, address: ClientAddress): Promise<LimitClient> {
    return late.then((key) => toKey(key, address))
  }

  return ({ request, address }) => {
    const key = guarded(request)
    return key instanceof Promise ? toKeyLater(key, address) : toKey(key, address)
  }
}
