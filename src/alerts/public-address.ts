import { type LookupAddress, lookup } from 'node:dns'
import { isIP, type LookupFunction } from 'node:net'
import ipaddr from 'ipaddr.js'

/** Thrown where a webhook leads into a private network. It names no address, which would be a map of that network. */
export class PrivateNetworkError extends Error {
  constructor() {
    super('leads into a private network, which blockPrivateNetworks refuses')
  }
}

/** IPv6 addresses that are routed on the internet begin with these three bits. */
const GLOBAL_UNICAST: [ipaddr.IPv6, number] = [ipaddr.IPv6.parse('2000::'), 3]

/**
 * Whether an address is one of the internet. Everything that is not known to be is none: loopback, private, link-local
 * (the metadata of clouds), carrier-grade NAT, documentation, and IPv6 that hides IPv4 in it (6to4, Teredo, NAT64).
 */
export function isPublicAddress(address: string): boolean {
  if (isIP(address) === 0) return false
  const parsed = ipaddr.process(address)
  if (parsed.range() !== 'unicast') return false
  return !(parsed instanceof ipaddr.IPv6) || parsed.match(...GLOBAL_UNICAST)
}

/**
 * Resolves a name as `net.connect` asks for it, right before it connects: what is connected to is what was checked, and a
 * name that answers otherwise the next time (DNS rebinding) is checked again. One private address among others is enough
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
 * Whether the host of a URL is an address that is not one of the internet: it is connected to without a lookup. `URL` has
 * read its odd spellings by then.
 */
export function isPrivateHost(hostname: string): boolean {
  const host = hostname.replace(/^\[(.*)\]$/, '$1')
  return isIP(host) !== 0 && !isPublicAddress(host)
}
