import { BlockList, isIP } from 'node:net'
import ipaddr from 'ipaddr.js'
import { errorMessage, InvalidSettingError } from '../errors.js'
import { type ParsedNetwork, parseNetwork } from '../overrides/network.js'
import { remember } from '../remember.js'
import { addressKey, type ClientKey } from './client-key.js'

/** The address of a request's client, as limits use it. */
export interface ClientAddress {
  /** The client's address, for IPv6 its network; `unknown` where there is none. */
  readonly key: string
  /** The key for limits by address, created once, since every request would otherwise allocate a text. */
  readonly clientKey: ClientKey
  /** The whole address, IPv6 too; null where there is none. */
  readonly plain: string | null
  /** The list that has the address. */
  readonly listed: 'allow' | 'deny' | null
}

export interface AddressLists {
  readonly allow: BlockList
  readonly deny: BlockList
}

const UNKNOWN = createAddress('unknown', null, null)
/**
 * A client whose connection was gone before its address was read. It is refused like one of the deny list: the
 * lists and overrides cannot be applied without an address, and the client waits for no answer.
 */
export const GONE = createAddress('unknown', null, 'deny')
const WITH_PORT = /^(?:\[([^\]]+)\]|(\d+\.\d+\.\d+\.\d+))(?::\d+)?$/
/** How many parsed addresses are remembered. */
const REMEMBERED = 10_000
/** Longer than any address with its port and zone; a longer text is parsed each time, and not remembered. */
const REMEMBERED_LENGTH = 64

/** Returns an address in its usual spelling, without port and zone, IPv4-mapped IPv6 as IPv4; null for other texts. */
export function plainIp(text: string): string | null {
  const [, bracketed, withPort] = WITH_PORT.exec(text.trim()) ?? []
  const [address = ''] = (bracketed ?? withPort ?? text.trim()).split('%')
  if (isIP(address) === 4) return address
  return isIP(address) === 6 ? ipaddr.process(address).toString() : null
}

/**
 * Creates the function that resolves addresses of clients.
 *
 * @param ipv6Subnet the number of leading bits of an IPv6 address that make one client; 128 for all
 */
export function createAddressResolver(ipv6Subnet: number, { allow, deny }: AddressLists) {
  const parseOnce = remember(REMEMBERED, parse, REMEMBERED_LENGTH)

  function resolve(text: string | undefined): ClientAddress | undefined {
    return text === undefined ? undefined : parseOnce(text)
  }

  function parse(text: string): ClientAddress | undefined {
    const ip = plainIp(text)
    if (ip === null) return undefined
    const key = toNetwork(ip, ipv6Subnet)
    const family = ip.includes(':') ? 'ipv6' : 'ipv4'
    const listed = deny.check(ip, family) ? 'deny' : allow.check(ip, family) ? 'allow' : null
    return createAddress(key, ip, listed)
  }

  /** Resolves the client's address, or that of the socket's peer where `ip` is no address. */
  return function clientAddress(ip: string | undefined, peer: string | undefined): ClientAddress {
    return resolve(ip) ?? resolve(peer) ?? UNKNOWN
  }
}

function createAddress(key: string, plain: string | null, listed: ClientAddress['listed']): ClientAddress {
  return { key, clientKey: addressKey(key), plain, listed }
}

function toNetwork(ip: string, ipv6Subnet: number): string {
  if (ipv6Subnet === 128 || ip === '::1' || !ip.includes(':')) return ip
  const network = ipaddr.IPv6.networkAddressFromCIDR(`${ip}/${ipv6Subnet}`)
  return `${network.toString()}/${ipv6Subnet}`
}

/** Returns whether an address is private: proxies have such addresses, and clients on the internet do not. */
export function isPrivate(ip: string): boolean {
  return ['private', 'loopback', 'uniqueLocal', 'linkLocal', 'carrierGradeNat'].includes(ipaddr.process(ip).range())
}

/**
 * Parses a list of addresses and CIDR networks. An IPv4 entry also covers the IPv4-mapped IPv6 spelling.
 *
 * @throws InvalidSettingError naming the setting and the entry
 */
export function parseAddressList(setting: string, entries: readonly string[]): BlockList {
  const list = new BlockList()
  for (const entry of entries) {
    const { address, bits, family } = parseEntry(setting, entry)
    list.addSubnet(address, bits, family)
  }
  return list
}

function parseEntry(setting: string, entry: string): ParsedNetwork {
  try {
    return parseNetwork(entry)
  } catch (error) {
    throw new InvalidSettingError(`Setting "${setting}" has a wrong entry: ${errorMessage(error)}`)
  }
}
