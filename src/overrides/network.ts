import { isIP } from 'node:net'
import ipaddr from 'ipaddr.js'

/** An address and the number of its leading bits that count: 32 or 128 for a single address. */
export interface Network {
  /** The usual spelling, without port and zone; IPv4-mapped IPv6 as IPv4. */
  readonly address: string
  readonly bits: number
}

export interface ParsedNetwork extends Network {
  readonly family: 'ipv4' | 'ipv6'
}

/**
 * Parses an address or a CIDR network. Bits of the address behind the prefix are kept.
 *
 * @throws Error whose message names the accepted forms
 */
export function parseNetwork(text: string): ParsedNetwork {
  const [written = '', length, ...rest] = text.split('/')
  // Addresses are compared without their zones, so that one with a zone would apply in other zones, too.
  if (isIP(written) === 0 || written.includes('%') || rest.length > 0) {
    throw new Error(
      `${JSON.stringify(text)} is no address: give 203.0.113.7, or a network such as 10.0.0.0/8 or 2001:db8::/32`,
    )
  }
  const ip = ipaddr.process(written)
  const family = ip.kind()
  const most = wholeBits(family)
  // The bits of an IPv4-mapped network count from the front of the IPv6 spelling.
  const before = family === 'ipv4' && written.includes(':') ? 96 : 0
  const bits = length === undefined ? most : /^\d{1,3}$/.test(length) ? Number(length) - before : -1
  if (bits < 0 || bits > most) {
    throw new Error(
      `${JSON.stringify(text)} is no network such as 10.0.0.0/8: the bits after / are ${before} to ${most + before}`,
    )
  }
  return { family, address: ip.toString(), bits }
}

/** Returns how many bits an address has. */
export function wholeBits(family: 'ipv4' | 'ipv6'): 32 | 128 {
  return family === 'ipv4' ? 32 : 128
}
