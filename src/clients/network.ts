import { isIP } from 'node:net'
import ipaddr from 'ipaddr.js'

/** An address and the number of its leading bits that count: 32 or 128 for a single address. */
export interface Network {
  /** The usual spelling, without port and zone; IPv6 that stands for IPv4 as IPv4. */
  readonly address: string
  readonly bits: number
}

export interface ParsedNetwork extends Network {
  readonly family: 'ipv4' | 'ipv6'
}

/** The networks whose last 32 bits are an IPv4 address: of translators, and of a spelling that is out of use. */
const HOLDS_IPV4 = ['64:ff9b::', '::ffff:0:0:0', '::'].map((prefix) => ipaddr.IPv6.parse(prefix))
const IPV6_ONLY: readonly string[] = ['::', '::1']

/** Parses an address. IPv6 that stands for an IPv4 client, mapped or translated, is that client. */
export function parseAddress(text: string): ipaddr.IPv4 | ipaddr.IPv6 {
  const ip = ipaddr.process(text)
  if (ip instanceof ipaddr.IPv4 || IPV6_ONLY.includes(ip.toString())) return ip
  return HOLDS_IPV4.some((prefix) => ip.match(prefix, 96)) ? new ipaddr.IPv4(ip.toByteArray().slice(-4)) : ip
}

/** Matches IPv6 in brackets, and what a port follows without a doubt: dotted numbers, and eight groups. */
const WITH_PORT =
  /^(?:\[([^\]]+)\](?::\d{1,5})?|((?:[\da-f:]*:)?\d+\.\d+\.\d+\.\d+|(?:[\da-f]{1,4}:){7}[\da-f]{1,4}):\d{1,5})$/i

/**
 * Returns the address in a text as proxies write it, without its quotes, brackets, port and zone; undefined for another
 * text. `2001:db8::1:443` is read as it stands, though its end may have been meant as a port.
 */
export function bareAddress(text: string): string | undefined {
  const trimmed = text.trim()
  const unquoted = /^"(.*)"$/.exec(trimmed)?.[1] ?? trimmed
  const [, bracketed, withPort] = WITH_PORT.exec(unquoted) ?? []
  const [address = ''] = (bracketed ?? withPort ?? unquoted).split('%')
  return isIP(address) === 0 ? undefined : address
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
      `${JSON.stringify(text)} is not a valid address: give 203.0.113.7, or a network such as 10.0.0.0/8 or 2001:db8::/32`,
    )
  }
  const ip = parseAddress(written)
  const family = ip.kind()
  const most = wholeBits(family)
  // The bits of IPv4 that is written as IPv6 count from the front of that spelling.
  const before = family === 'ipv4' && written.includes(':') ? 96 : 0
  const bits = length === undefined ? most : /^\d{1,3}$/.test(length) ? Number(length) - before : -1
  // The text 64:ff9b::/96 may mean a translator, and not all of IPv4.
  const least = before === 0 ? 0 : 1
  if (bits < least || bits > most) {
    throw new Error(
      `${JSON.stringify(text)} is not a valid network: give one such as 10.0.0.0/8, with ${before + least} to ${before + most} after the slash`,
    )
  }
  return { family, address: ip.toString(), bits }
}

/** Returns the first address of a network, in the usual spelling. */
export function firstAddress({ family, address, bits }: ParsedNetwork): string {
  const parser = family === 'ipv4' ? ipaddr.IPv4 : ipaddr.IPv6
  return parser.networkAddressFromCIDR(`${address}/${bits}`).toString()
}

/** Returns how many bits an address has. */
export function wholeBits(family: 'ipv4' | 'ipv6'): 32 | 128 {
  return family === 'ipv4' ? 32 : 128
}

const GROUP_BITS = 16

/** The values of the networks of one length, by leading bits. */
interface Length<Value> {
  readonly bits: number
  readonly values: Map<string, Value[]>
}

/**
 * Values by network. The networks that contain an address are found with one hash lookup for each length that occurs,
 * however many networks there are.
 */
export class NetworkTable<Value> {
  readonly #ipv4: Length<Value>[] = []
  readonly #ipv6: Length<Value>[] = []

  add({ address, bits }: Network, value: Value): void {
    const lengths = this.#lengthsFor(address)
    let length = lengths.find((each) => each.bits === bits)
    if (length === undefined) {
      length = { bits, values: new Map() }
      lengths.push(length)
    }
    const key = leadingBits(toGroups(address), bits)
    const values = length.values.get(key)
    if (values === undefined) length.values.set(key, [value])
    else values.push(value)
  }

  /** Returns the values of all networks that contain an address, in no order. */
  at(address: string): readonly Value[] {
    const lengths = this.#lengthsFor(address)
    if (lengths.length === 0) return []
    const groups = toGroups(address)
    let found: readonly Value[] | undefined
    for (const { bits, values } of lengths) {
      const here = values.get(leadingBits(groups, bits))
      if (here !== undefined) found = found === undefined ? here : [...found, ...here]
    }
    return found ?? []
  }

  #lengthsFor(address: string): Length<Value>[] {
    return address.includes(':') ? this.#ipv6 : this.#ipv4
  }
}

/** Returns whether two networks have an address in common. */
export function networksMeet(one: Network, other: Network): boolean {
  if (one.address.includes(':') !== other.address.includes(':')) return false
  const bits = Math.min(one.bits, other.bits)
  return leadingBits(toGroups(one.address), bits) === leadingBits(toGroups(other.address), bits)
}

/** Splits an address into groups of sixteen bits: two numbers for IPv4, eight for IPv6. */
function toGroups(address: string): readonly number[] {
  if (address.includes(':')) return ipaddr.IPv6.parse(address).parts
  const [a, b, c, d] = address.split('.')
  return [Number(a) * 256 + Number(b), Number(c) * 256 + Number(d)]
}

/** Returns the leading bits as a text, a character for every sixteen bits, since a Map compares texts by content. */
function leadingBits(groups: readonly number[], bits: number): string {
  let text = ''
  let left = bits
  for (let index = 0; left > 0; index++) {
    const cut = Math.max(0, GROUP_BITS - left)
    text += String.fromCharCode(((groups[index] ?? 0) >> cut) << cut)
    left -= GROUP_BITS
  }
  return text
}
