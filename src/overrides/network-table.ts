import ipaddr from 'ipaddr.js'
import type { Network } from './network.js'

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
    let length = lengths.find((known) => known.bits === bits)
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
  for (let place = 0; left > 0; place++) {
    const cut = Math.max(0, GROUP_BITS - left)
    text += String.fromCharCode(((groups[place] ?? 0) >> cut) << cut)
    left -= GROUP_BITS
  }
  return text
}
