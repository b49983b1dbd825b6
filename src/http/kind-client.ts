/** Creates the functions that find the clients of requests. */
import type { FastifyBaseLogger } from 'fastify'
import type { AddressPrivacy } from '../clients/address-privacy.js'
import { type Client, type ClientPart, createClient, formatPart, parseParts } from '../clients/client.js'
import { type ClientKind, type KeyPart, partName } from '../clients/client-kind.js'
import { COUNTED_EVERYBODY, countClient, deriveOnce, type LimitClient } from '../clients/limit-client.js'
import { rememberClients } from '../ground/remember.js'
import { type Countable, type ToClient, toAddressClient } from './checked-request.js'
import type { ClientAddress } from './client-address.js'
import { type RequestFunction, tolerate } from './host-function.js'
import { type LateUserWarning, userFieldText } from './request-user.js'
import { cookieValue, headerValue, routePattern } from './request-values.js'

/** The readers of values that have a name; an empty one is missing. */
const VALUES = { header: headerValue, cookie: cookieValue } as const

export type KeyFunction = RequestFunction<string | number | bigint | null | undefined>

export interface KeyOptions {
  readonly log: FastifyBaseLogger
  /** Replaces values of headers and cookies that are secrets. */
  readonly hashHeader: ((value: string) => string) | undefined
  /** The way in which addresses are stored; undefined where they are stored in full. */
  readonly privacy?: AddressPrivacy | undefined
  /** Receives requests with and without users, where users are counted. */
  readonly users: LateUserWarning
}

/** Gives a client the counter of a limit. */
type InLimit = (counted: LimitClient) => LimitClient

/**
 * Creates the function of a kind. Without a user, header or cookie it uses the address.
 *
 * @param derive called once for each client; without it the default limit counts
 */
export function createKindClient(client: ClientKind, options: KeyOptions, derive?: InLimit): ToClient {
  if (derive === undefined) return createDerivedClient(client, options, toAddressClient, (key) => key)
  const addressClientOnce = deriveOnce(derive)
  return createDerivedClient(client, options, ({ address }) => addressClientOnce(address.client), derive)
}

function createDerivedClient(
  client: ClientKind,
  options: KeyOptions,
  addressClient: (checked: Countable) => LimitClient,
  derive: InLimit,
): ToClient {
  switch (client.kind) {
    case 'ip':
      return addressClient
    case 'all': {
      const everybody = derive(COUNTED_EVERYBODY)
      return () => everybody
    }
    case 'composite':
      return createCompositeClient(client.parts, options, derive)
    default: {
      const read = createReader(client, options)
      const toPart = createToPart(client, options)
      const clientOnce = rememberClients((value) => derive(countClient(createClient(toPart(value)))))
      return (checked) => {
        const value = read(checked)
        return value === null ? addressClient(checked) : clientOnce(value)
      }
    }
  }
}

/** Creates the function of several kinds. Where one is missing the address is a further part. */
function createCompositeClient(kinds: readonly KeyPart[], options: KeyOptions, derive: InLimit): ToClient {
  const hasAddress = kinds.some(({ kind }) => kind === 'ip')
  const readers = kinds.map((kind) => ({
    read: createPartReader(kind, options),
    missing: formatPart({ name: partName(kind), value: null }),
  }))
  const clientOnce = rememberClients((text) => derive(countClient(parseSpelled(text))))
  function spell(checked: Countable): string {
    let client = ''
    let isWhole = true
    for (const { read, missing } of readers) {
      const text = read(checked)
      if (text === null) isWhole = false
      if (client !== '') client += '|'
      client += text ?? missing
    }
    return isWhole || hasAddress ? client : `${client}|${checked.address.client.counted.text}`
  }
  if (options.privacy?.addresses !== 'truncated') return (checked) => clientOnce(spell(checked))
  const shortenedOnce = rememberClients((spelled) => derive(countShortened(spelled)))
  return (checked) => shortenedOnce(`${checked.address.logged} ${spell(checked)}`)
}

function parseSpelled(text: string): Client {
  const client = parseParts(text)
  if (client === undefined) throw new Error(`${JSON.stringify(text)} is not a valid client`)
  return client
}

/** Returns a client from its address as the log has it, a blank, and its spelling in counters. */
function countShortened(spelled: string): LimitClient {
  const begin = spelled.indexOf(' ')
  const [address, counted] = [spelled.slice(0, begin), parseSpelled(spelled.slice(begin + 1))]
  const logged = counted.parts.map((part) => (part.name === 'ip' ? { name: 'ip', value: address } : part))
  return countClient(counted, createClient(...logged))
}

/** Creates a function that spells a part of a request's client; null where the request lacks it. */
function createPartReader(kind: KeyPart, options: KeyOptions): (checked: Countable) => string | null {
  if (kind.kind === 'ip') return ({ address }) => address.client.counted.text
  const read = createReader(kind, options)
  const toPart = createToPart(kind, options)
  const spellOnce = rememberClients((value) => formatPart(toPart(value)))
  return (checked) => {
    const value = read(checked)
    return value === null ? null : spellOnce(value)
  }
}

type ReadKind = Exclude<KeyPart, { kind: 'ip' }>

/** Creates the function that reads what a kind tells of a request's client; null where the request lacks it. */
function createReader(kind: ReadKind, { users }: KeyOptions): (checked: Countable) => string | null {
  if (kind.kind === 'user') return (checked) => users.idOf(checked)
  if (kind.kind === 'userField') {
    return (checked) => {
      users.noteNeed(checked)
      return userFieldText(checked.userFields, kind.name)
    }
  }
  if (kind.kind === 'route') return ({ request }) => routePattern(request)
  const { name } = kind
  const read = VALUES[kind.kind]
  return ({ request }) => read(request, name) || null
}

/** Creates the function that makes a part of what was read; secrets are replaced. */
function createToPart(kind: ReadKind, { hashHeader }: KeyOptions): (value: string) => ClientPart {
  const name = partName(kind)
  if (hashHeader === undefined || !(kind.kind in VALUES)) return (value) => ({ name, value })
  return (value) => ({ name, value: hashHeader(value) })
}

/** Creates the function for a host's own function. Its failure is logged, and the address is used. */
export function createFunctionClient(keyFunction: KeyFunction, setting: string, { log }: KeyOptions): ToClient {
  const guarded = tolerate(keyFunction, setting, log)
  const keyOnce = rememberClients((text) =>
    text.trim() === '' ? undefined : countClient(createClient({ name: 'key', value: text })),
  )

  function toClient(key: unknown, { client }: ClientAddress): LimitClient {
    const isText = typeof key === 'string' || typeof key === 'number' || typeof key === 'bigint'
    return (isText ? keyOnce(String(key)) : undefined) ?? client
  }

  /** A function of its own: its closure would cost an allocation also where the key is not late. */
  function toClientLater(late: Promise<unknown>, address: ClientAddress): Promise<LimitClient> {
    return late.then((key) => toClient(key, address))
  }

  return ({ request, address }) => {
    const key = guarded(request)
    return key instanceof Promise ? toClientLater(key, address) : toClient(key, address)
  }
}
