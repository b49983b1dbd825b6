import { type LookupAddress, lookup } from 'node:dns'
import { isIP, type LookupFunction } from 'node:net'
import ipaddr from 'ipaddr.js'

/** A URL that leads into a private network. The message names no address, which would map that network. */
export class PrivateNetworkError extends Error {
  constructor() {
    super('leads into a private network, which blockPrivateNetworks refuses')
  }
}

/** IPv6 addresses that are routed on the internet begin with these three bits. */
const GLOBAL_UNICAST: [ipaddr.IPv6, number] = [ipaddr.IPv6.parse('2000::'), 3]

/** The address under which Azure's hosts serve their machines, in the middle of public ones. */
const WIRE_SERVER = '168.63.129.16'

/**
 * Returns whether an address is known to be public. These are not: loopback, private, link-local and others that clouds
 * serve their machines from, carrier-grade NAT, documentation, and IPv6 that embeds IPv4 (6to4, Teredo, NAT64).
 */
export function isPublicAddress(address: string): boolean {
  if (isIP(address) === 0) return false
  const parsed = ipaddr.process(address)
  if (parsed.range() !== 'unicast' || parsed.toString() === WIRE_SERVER) return false
  return !(parsed instanceof ipaddr.IPv6) || parsed.match(...GLOBAL_UNICAST)
}

/**
 * Resolves a name for `net.connect`, right before it connects: the connection goes to the checked address, and a name
 * that resolves differently the next time (DNS rebinding) is checked again. One private address among others is enough
 * to refuse the name.
 */
export const lookupPublic: LookupFunction = (hostname, options, done) => {
  lookup(hostname, { ...options, all: true }, (error, addresses: LookupAddress[]) => {
    const [first] = addresses ?? []
    if (error !== null) done(error, '')
    else if (first === undefined || !addresses.every(({ address }) => isPublicAddress(address))) {
      done(new PrivateNetworkError(), '')
    } else if (options.all) done(null, addresses)
    else done(null, first.address, first.family)
  })
}

/**
 * Returns whether the host of a URL is a private address, which is connected to without a lookup. `URL` has normalized
 * unusual spellings.
 */
export function isPrivateHost(hostname: string): boolean {
  const host = hostname.replace(/^\[(.*)\]$/, '$1')
  return isIP(host) !== 0 && !isPublicAddress(host)
}
