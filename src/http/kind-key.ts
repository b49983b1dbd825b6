/** Creates the functions that find the clients of requests. */
import type { FastifyBaseLogger } from 'fastify'
import type { AddressPrivacy } from '../clients/address-privacy.js'
import {
  type ClientKey,
  compositeKey,
  cookieKey,
  customKey,
  deriveOnce,
  EVERYBODY,
  headerKey,
  routeKey,
  userKey,
} from '../clients/client-key.js'
import type { ClientKind, KeyPart } from '../clients/client-kind.js'
import { spellPart, splitComposite } from '../clients/composite.js'
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

/** Derives the key of a limit from that of a client. */
type DeriveKey = (key: ClientKey) => ClientKey

/**
 * Creates the key function of a kind. Without a user, header or cookie it uses the address.
 *
 * @param derive called once for each client, whose own key is used unless given
 */
export function createKindKey(client: ClientKind, options: KeyOptions, derive?: DeriveKey): DeriveClientKey {
  if (derive === undefined) return createDerivedKey(client, options, toAddressKey, (key) => key)
  const addressKeyOnce = deriveOnce(derive)
  return createDerivedKey(client, options, ({ address }) => addressKeyOnce(address.clientKey), derive)
}

function createDerivedKey(
  client: ClientKind,
  options: KeyOptions,
  addressKey: (checked: Countable) => ClientKey,
  derive: DeriveKey,
): DeriveClientKey {
  switch (client.kind) {
    case 'ip':
      return addressKey
    case 'user': {
      const keyOnce = rememberClients((id) => derive(userKey(id)))
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
      const toKey = kind === 'header' ? headerKey : cookieKey
      const read = VALUES[kind]
      const keyOnce = rememberClients((value) => derive(toKey(name, hashHeader(value))))
      return (checked) => {
        const value = read(checked.request, name)
        return value === '' ? addressKey(checked) : keyOnce(value)
      }
    }
    case 'route': {
      const keyOnce = rememberClients((pattern) => derive(routeKey(pattern)))
      return ({ request }) => keyOnce(routePattern(request))
    }
    case 'all': {
      const everybody = derive(EVERYBODY)
      return () => everybody
    }
    case 'composite':
      return createCompositeKey(client.parts, options, derive)
  }
}

/** Creates the key function of several kinds. Where one is missing the address is a further part. */
function createCompositeKey(parts: readonly KeyPart[], options: KeyOptions, derive: DeriveKey): DeriveClientKey {
  const hasAddress = parts.some(({ kind }) => kind === 'ip')
  const readers = parts.map((part) => ({ read: createPartReader(part, options), missing: spellPart(part, null) }))
  const keyOnce = rememberClients((client) => derive(compositeKey(client, parts)))
  function spell(checked: Countable): string {
    let client = ''
    let isWhole = true
    for (const { read, missing } of readers) {
      const text = read(checked)
      if (text === undefined) isWhole = false
      if (client !== '') client += '|'
      client += text ?? missing
    }
    return isWhole || hasAddress ? client : `${client}|${checked.address.clientKey.banned}`
  }
  if (options.privacy?.addresses !== 'truncated') return (checked) => keyOnce(spell(checked))
  const shortenedOnce = rememberClients((spelled) => derive(shortenedKey(spelled, parts)))
  return (checked) => shortenedOnce(`${checked.address.clientKey.client} ${spell(checked)}`)
}

/** Returns a client's key from its address as the log has it, a blank, and its spelling in counters. */
function shortenedKey(spelled: string, parts: readonly KeyPart[]): ClientKey {
  const begin = spelled.indexOf(' ')
  const [address, counted] = [spelled.slice(0, begin), spelled.slice(begin + 1)]
  const logged = splitComposite(counted).map((text) => (text.startsWith('ip:') ? address : text))
  return compositeKey(logged.join('|'), parts, counted)
}

/** Creates a function that spells a part of a request's client; undefined where the request lacks it. */
function createPartReader(part: KeyPart, options: KeyOptions): (checked: Countable) => string | undefined {
  if (part.kind === 'ip') return ({ address }) => address.clientKey.banned
  const { hashHeader } = options
  if (part.kind === 'user') {
    const spellOnce = rememberClients((id) => spellPart(part, id))
    const { users } = options
    return (checked) => {
      const id = users.idOf(checked)
      return id === null ? undefined : spellOnce(id)
    }
  }
  if (part.kind === 'route') {
    const spellOnce = rememberClients((pattern) => spellPart(part, pattern))
    return ({ request }) => spellOnce(routePattern(request))
  }
  const { kind, name } = part
  const read = VALUES[kind]
  const spellOnce = rememberClients((value) => spellPart(part, hashHeader === undefined ? value : hashHeader(value)))
  return ({ request }) => {
    const value = read(request, name)
    return value === '' ? undefined : spellOnce(value)
  }
}

/** Creates the key function of a host's own function. Its failure is logged, and the address is used. */
export function createFunctionKey(keyFunction: KeyFunction, setting: string, { log }: KeyOptions): DeriveClientKey {
  const guarded = tolerate(keyFunction, setting, log)
  const keyOnce = rememberClients((text) => (text.trim() === '' ? undefined : customKey(text)))

  function toKey(key: unknown, { clientKey }: ClientAddress): ClientKey {
    const isText = typeof key === 'string' || typeof key === 'number' || typeof key === 'bigint'
    return (isText ? keyOnce(String(key)) : undefined) ?? clientKey
  }

  /** A function of its own: its closure would cost an allocation also where the key is not late. */
  function toKeyLater(late: Promise<unknown>, address: ClientAddress): Promise<ClientKey> {
    return late.then((key) => toKey(key, address))
  }

  return ({ request, address }) => {
    const key = guarded(request)
    return key instanceof Promise ? toKeyLater(key, address) : toKey(key, address)
  }
}
