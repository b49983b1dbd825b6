import type { AddressPrivacy } from '../../clients/address-privacy.js'
import { countedAddress } from '../../clients/address-privacy.js'
import { type Client, type ClientPart, createClient, parseClient } from '../../clients/client.js'
import { createHeaderHash } from '../../clients/limit-client.js'
import { InvalidSettingError } from '../../ground/errors.js'
import { shown } from '../../ground/setting.js'

export interface NamedClientOptions {
  readonly ipv6Subnet: number
  readonly privacy: AddressPrivacy | undefined
  /** The secret of header values; undefined where they are counted as they are. */
  readonly hashSecret: string | undefined
}

/** The longest name of a part that limits of apps have: that of a header, and its kind. */
const MAX_NAME_LENGTH = 107

/**
 * Creates the function that returns the client that a text names, as limits of apps count it. A text of another form is what a
 * function of a host could have answered as the key.
 *
 * @returns a function that throws InvalidSettingError for a text without a client, and for a client without a value
 */
export function createNamedClient({ ipv6Subnet, privacy, hashSecret }: NamedClientOptions): (text: string) => Client {
  const hashHeader = hashSecret === undefined ? (value: string) => value : createHeaderHash(hashSecret)

  function toPart({ name, value }: ClientPart): ClientPart {
    if (value === null) return { name, value }
    if (name === 'ip') {
      const counted = countedAddress(value, ipv6Subnet)
      return { name, value: counted === undefined ? value : (privacy?.pseudonymFor(counted) ?? counted) }
    }
    if (name.startsWith('cookie:')) return { name, value: hashHeader(value) }
    return name.startsWith('header:') ? { name: name.toLowerCase(), value: hashHeader(value) } : { name, value }
  }

  return function toNamedClient(text) {
    if (typeof text !== 'string' || text.trim() === '') throw refused(text)
    const client = parseClient(text)
    if (client === undefined || client.parts.some(({ name }) => name.length > MAX_NAME_LENGTH)) {
      return createClient({ name: 'key', value: text })
    }
    // Those without a value would share one counter.
    if (client.parts.some(({ value }) => value?.trim() === '')) throw refused(text)
    return client.parts.length === 0 ? client : createClient(...client.parts.map(toPart))
  }
}

function refused(client: unknown): Error {
  return new InvalidSettingError(
    `The client is ${shown(client)}: give a text such as user:7, ip:203.0.113.7 or key:job-12`,
  )
}
