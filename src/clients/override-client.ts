import { asText, validateStorable } from '../ground/storable.js'
import { PSEUDONYM } from './address-privacy.js'
import { firstAddress, type ParsedNetwork, parseNetwork, wholeBits } from './network.js'

/** The client that an override is for. */
export type OverrideClient =
  | ({ readonly kind: 'ip' } & ParsedNetwork)
  | { readonly kind: 'user'; readonly id: string }
  | { readonly kind: 'pseudonym'; readonly pseudonym: string }

export const MAX_CLIENT_LENGTH = 255
/**
 * Parses `ip:203.0.113.7`, `ip:10.0.0.0/8`, `ip:2001:db8::/32`, `user:7`, or an address by its pseudonym, `ip:~0f…`.
 * IPv4-mapped IPv6 is IPv4.
 */
export function parseOverrideClient(value: unknown): OverrideClient {
  const text = asText(value)
  validateStorable(text)
  if (text.length > MAX_CLIENT_LENGTH) throw new Error(`must be at most ${MAX_CLIENT_LENGTH} characters long`)
  const [, kind, name = ''] = /^(ip|user):(.*)$/s.exec(text) ?? []
  if (kind === 'ip') return PSEUDONYM.test(name) ? { kind: 'pseudonym', pseudonym: name } : clientNetwork(name)
  const id = name.trim()
  if (kind === 'user' && id !== '') return { kind, id }
  throw new Error(
    `${JSON.stringify(text)} is not a valid client: give ip:203.0.113.7, ip:10.0.0.0/8, ip:2001:db8::/32 or user:<id>`,
  )
}

/**
 * Parses a client as a person types it: a bare address or network, such as `203.0.113.7` or `10.0.0.0/8`, is that of
 * `ip:`.
 */
export function parseTypedClient(value: unknown): OverrideClient {
  return parseOverrideClient(typeof value === 'string' && isBareNetwork(value) ? `ip:${value.trim()}` : value)
}

/** Returns how to write what a wrong text seems to mean; undefined where that is unknown. */
export function guessClient(text: string): string | undefined {
  const [, id] = /^\s*user\s*[:=#\s]\s*(\S.*)$/i.exec(text) ?? []
  if (id !== undefined) return `user:${id.trim()}`
  try {
    const parsed = parseNetwork(text.replace(/^\s*ip:|\s/g, ''))
    return clientText({ kind: 'ip', ...parsed, address: firstAddress(parsed) })
  } catch {
    return undefined
  }
}

/** Returns whether a text is an address or a network, with anything else in its bits. */
function isBareNetwork(text: string): boolean {
  try {
    parseNetwork(text.trim())
    return true
  } catch {
    return false
  }
}

/** Returns the normal spelling of a client. */
export function clientText(client: OverrideClient): string {
  if (client.kind === 'user') return `user:${client.id}`
  if (client.kind === 'pseudonym') return `ip:${client.pseudonym}`
  const isWhole = client.bits === wholeBits(client.family)
  return `ip:${client.address}${isWhole ? '' : `/${client.bits}`}`
}

function clientNetwork(text: string): OverrideClient {
  const parsed = parseNetwork(text)
  const { address, bits } = parsed
  const network = firstAddress(parsed)
  // The bits are not cleared silently: 10.1.2.3/8 may have been meant as the single address.
  if (network !== address)
    throw new Error(`${text} names more than its /${bits}: give ${network}/${bits} or ${address}`)
  return { kind: 'ip', ...parsed }
}
