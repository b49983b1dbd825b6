/**
 * The addresses of clients, where they are not stored in full.
 *
 * Clients are counted and banned by their pseudonym, an HMAC: the same for the same client, whatever the mode. The log
 * has the pseudonym, or the network of the address.
 */
import { createHmac } from 'node:crypto'
import { rememberClients } from '../ground/remember.js'
import { firstAddress, parseNetwork, wholeBits } from './network.js'

/** The forms of stored addresses: as they are, as their networks (/24, and /48 of IPv6), or as their pseudonyms. */
export const ADDRESS_FORMS = ['full', 'truncated', 'pseudonym'] as const

export type AddressForm = (typeof ADDRESS_FORMS)[number]

export interface AddressPrivacyOptions {
  readonly addresses: Exclude<AddressForm, 'full'>
  /** The secret of the HMAC. */
  readonly secret: string
  /** The number of leading bits of an IPv6 address that identify a client. */
  readonly ipv6Subnet: number
}

/** The spellings of addresses that are not stored in full. */
export interface AddressPrivacy {
  readonly addresses: Exclude<AddressForm, 'full'>
  /** Returns the pseudonym of an address as limits count it, for IPv6 its network. */
  pseudonymFor(counted: string): string
  /** Returns an address as the log has it. */
  loggedFor(counted: string): string
  /**
   * Returns a client or a key, as an operator spells it, as the log has it: its addresses are replaced. Networks of
   * several clients, and what has no address, stay as they are.
   */
  toLogged(text: string): string
  /** Returns the same as counters and bans have it. */
  toCounted(text: string): string
  /** Returns whether a client or a key has a network instead of its address. */
  isShortened(text: string): boolean
}

/** Matches a pseudonym, which no address looks like. */
export const PSEUDONYM = /^~[0-9a-f]{32}$/
/** Pseudonyms are 128 bits long, in hex: no two clients share one. */
const PSEUDONYM_LENGTH = 32
/** The bits of a network that `truncated` keeps. */
const KEPT_BITS = { ipv4: 24, ipv6: 48 } as const
/** The purpose of the derived secret: what other settings derive from the same secret is unrelated. */
const PURPOSE = 'fastify-smart-ratelimit addresses'
const PART = /^(rule:[^:]+:)?(ip:)?(.+)$/s

/**
 * Matches the IPv6 addresses that are one client each, since their network is no client's own: loopback, those of one
 * link (fe80::/10), and IPv4 clients behind a translator of the network itself (64:ff9b:1::/48).
 */
const ONE_CLIENT = /^(?:::1$|fe[89ab][\da-f]:|64:ff9b:1:)/

/** Returns how many leading bits of an address are one client. */
export function countedBits(ip: string, ipv6Subnet: number): number {
  if (!ip.includes(':')) return wholeBits('ipv4')
  return ONE_CLIENT.test(ip) ? wholeBits('ipv6') : ipv6Subnet
}

/** Returns the address as limits count it: for IPv6 its network. */
export function toCountedAddress(ip: string, ipv6Subnet: number): string {
  if (!ip.includes(':') || countedBits(ip, ipv6Subnet) === wholeBits('ipv6')) return ip
  return `${firstAddress({ family: 'ipv6', address: ip, bits: ipv6Subnet })}/${ipv6Subnet}`
}

/** Returns the counted address that a text spells; undefined for a network of several clients, and for other texts. */
export function countedAddress(text: string, ipv6Subnet: number): string | undefined {
  try {
    const { address, bits } = parseNetwork(text)
    return bits >= countedBits(address, ipv6Subnet) ? toCountedAddress(address, ipv6Subnet) : undefined
  } catch {
    return undefined
  }
}

/** Returns whether a text is a network. */
function isNetwork(text = ''): boolean {
  try {
    const { family, bits } = parseNetwork(text)
    return bits < wholeBits(family)
  } catch {
    return false
  }
}

/** Returns the network of an address or a network that `truncated` keeps. */
export function truncated(counted: string): string {
  const { family, address, bits } = parseNetwork(counted)
  const kept = Math.min(bits, KEPT_BITS[family])
  return `${firstAddress({ family, address, bits: kept })}/${kept}`
}

/**
 * Creates the function that returns a client or a key, as an operator spells it, with its addresses as limits count them:
 * IPv6 by its network.
 *
 * @param spell returns what stands there instead of a counted address; the address itself unless given
 */
export function createAddressSpelling(
  ipv6Subnet: number,
  spell = (counted: string) => counted,
): (text: string) => string {
  const mapPart = (part: string) => {
    const [, rule = '', kind = '', text = ''] = PART.exec(part) ?? []
    const counted = countedAddress(text, ipv6Subnet)
    return counted === undefined ? part : `${rule}${kind}${spell(counted)}`
  }
  // An address has no bar and no backslash: splitting at every bar finds it.
  return rememberClients((text) => text.split('|').map(mapPart).join('|'))
}

export function createAddressPrivacy({ addresses, secret, ipv6Subnet }: AddressPrivacyOptions): AddressPrivacy {
  const derived = createHmac('sha256', secret).update(PURPOSE).digest()

  function pseudonymFor(counted: string): string {
    return `~${createHmac('sha256', derived).update(counted).digest('hex').slice(0, PSEUDONYM_LENGTH)}`
  }

  const loggedFor = addresses === 'pseudonym' ? pseudonymFor : truncated

  return {
    addresses,
    pseudonymFor,
    loggedFor,
    toLogged: createAddressSpelling(ipv6Subnet, loggedFor),
    toCounted: createAddressSpelling(ipv6Subnet, pseudonymFor),
    isShortened: (text) => addresses === 'truncated' && text.split('|').some((part) => isNetwork(PART.exec(part)?.[3])),
  }
}
