import ipaddr from 'ipaddr.js'
import { type AddressPrivacy, PSEUDONYM } from './address-privacy.js'
import { createClient, parseComposite } from './client.js'
import { firstAddress, type ParsedNetwork, parseNetwork, wholeBits } from './network.js'
import { clientText, parseOverrideClient } from './override-client.js'

const ADDRESS = 'ip:'
const USER = 'user:'

/** Parses a client that is an address or a network, such as `ip:203.0.113.7`; undefined for any other. */
export function clientAddress(client: string): ParsedNetwork | undefined {
  if (!client.startsWith(ADDRESS)) return undefined
  try {
    return parseNetwork(client.slice(ADDRESS.length))
  } catch {
    return undefined
  }
}

/**
 * Returns the spellings of all overrides that may be for a client: for it, and for the networks that contain it. A
 * client that several kinds identify has those of its address and its user.
 */
export function overrideClientsFor(client: string): string[] {
  const spelled = new Set<string>()
  const parts = parseComposite(client)?.parts.map((part) => createClient(part).text) ?? [client]
  for (const part of parts) {
    const network = clientAddress(part)
    if (network !== undefined) for (const around of networksAround(network)) spelled.add(networkClient(around))
    else if (part.startsWith(USER) || isPseudonym(part)) spelled.add(part)
  }
  return [...spelled]
}

/**
 * Returns the spellings under which an override, or its history, may have a client that an operator types: as it is,
 * the normal one, and the pseudonym of its address.
 */
export function storedSpellings(typed: string, privacy: AddressPrivacy | undefined): string[] {
  const normal = normalClient(typed) ?? normalClient(ADDRESS + typed) ?? typed
  return [...new Set([typed, normal, privacy?.toCounted(normal) ?? normal])]
}

/** Returns a client that an operator types, with `ip:` before a bare address, network or pseudonym. */
export function namedClient(typed: string): string {
  return normalClient(ADDRESS + typed) ?? typed
}

function normalClient(typed: string): string | undefined {
  try {
    return clientText(parseOverrideClient(typed))
  } catch {
    return undefined
  }
}

/** Returns whether a client is an address of which only the pseudonym is known. */
export function isPseudonym(client: string): boolean {
  return client.startsWith(ADDRESS) && PSEUDONYM.test(client.slice(ADDRESS.length))
}

/** Returns a network, and all networks that contain it: the longest first. */
export function networksAround({ family, address, bits }: ParsedNetwork): ParsedNetwork[] {
  return Array.from({ length: bits + 1 }, (_, index) => {
    const around = { family, address, bits: bits - index }
    return { ...around, address: firstAddress(around) }
  })
}

/** Returns the first and the last address of a network as clients; what is no network is both. */
export function clientEnds(client: string): [first: string, last: string] {
  const network = clientAddress(client)
  if (network === undefined) return [client, client]
  const parser = network.family === 'ipv4' ? ipaddr.IPv4 : ipaddr.IPv6
  const last = parser.broadcastAddressFromCIDR(`${network.address}/${network.bits}`).toString()
  return [`${ADDRESS}${network.address}`, `${ADDRESS}${last}`]
}

/** Spells a network as the client of an event: an address without the number of its bits. */
export function networkClient(network: ParsedNetwork): string {
  return clientText({ kind: 'ip', ...network })
}

/** Returns the network of a client that addresses are grouped by: /24, for IPv6 /64; a larger one stays as it is. */
export function neighbourhood({ family, address, bits }: ParsedNetwork): ParsedNetwork {
  const most = family === 'ipv4' ? 24 : 64
  if (bits <= most) return { family, address, bits }
  return { family, address: firstAddress({ family, address, bits: most }), bits: most }
}

/** Returns whether a network contains another one, or is it. */
export function containsNetwork(network: ParsedNetwork, other: ParsedNetwork): boolean {
  if (network.family !== other.family || network.bits > other.bits) return false
  return ipaddr.process(other.address).match(ipaddr.process(network.address), network.bits)
}

/**
 * Returns whether a client is a network. One of IPv6 may be a client itself; it contains others where addresses are
 * counted apart.
 */
export function isNetwork(client: string): boolean {
  const network = clientAddress(client)
  return network !== undefined && !isAddress(network)
}

/** Returns whether the bits of a network name a single address. */
export function isAddress({ family, bits }: ParsedNetwork): boolean {
  return bits === wholeBits(family)
}
