import ipaddr from 'ipaddr.js'
import type { Network } from './network.js'

const GROUP_BITS = 16

/** The networks of one length, by their leading bits. */
interface Length<Value> {
  readonly bits: number
  readonly values: Map<string, Value[]>
}

/**
 * Values by network. What contains an address is found with one look into a hash for each length of network that
 * occurs, however many networks there are.
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
    const key = leadingBits(groupsOf(address), bits)
    const values = length.values.get(key)
    if (values === undefined) length.values.set(key, [value])
    else values.push(value)
  }

  /** The values of all networks that contain an address, in no order. */
  at(address: string): readonly Value[] {
    const lengths = this.#lengthsFor(address)
    if (lengths.length === 0) return []
    const groups = groupsOf(address)
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

/** Whether two networks have an address in common. */
export function networksMeet(one: Network, other: Network): boolean {
  if (one.address.includes(':') !== other.address.includes(':')) return false
  const bits = Math.min(one.bits, other.bits)
  return leadingBits(groupsOf(one.address), bits) === leadingBits(groupsOf(other.address), bits)
}

/** The sixteen bits at a time of an address: two numbers of IPv4, eight of IPv6. */
function groupsOf(address: string): readonly number[] {
  if (address.includes(':')) return ipaddr.IPv6.parse(address).parts
  const [a, b, c, d] = address.split('.')
  return [Number(a) * 256 + Number(b), Number(c) * 256 + Number(d)]
}

/** As a text, a character for every sixteen bits: a Map tells texts apart by what they say. */
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
