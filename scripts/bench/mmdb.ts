/** Makes files in the format of MaxMind DB, version 2: a tree of 32-bit records, and the values that it leads to. */
import ipaddr from 'ipaddr.js'

type Value = string | number | bigint | readonly Value[] | { readonly [name: string]: Value }

export interface MmdbOptions {
  readonly type?: string
  readonly builtAt?: Date
}

const SEPARATOR = Buffer.alloc(16)
const MARKER = Buffer.concat([Buffer.from('abcdef', 'hex'), Buffer.from('MaxMind.com')])

/**
 * Returns the bytes of a file.
 *
 * @param records by networks such as `203.0.113.0/24`, which do not overlap
 */
export function mmdb(
  records: Readonly<Record<string, Value>>,
  { type = 'Test', builtAt = new Date('2026-11-20T00:00:00Z') }: MmdbOptions = {},
): Buffer {
  const nodes: [Branch, Branch][] = [[EMPTY, EMPTY]]
  const values: Buffer[] = []
  let size = 0
  for (const [network, value] of Object.entries(records)) {
    insert(nodes, bitsOf(network), { offset: size })
    const encoded = encode(value)
    values.push(encoded)
    size += encoded.length
  }
  const tree = Buffer.alloc(nodes.length * 8)
  for (const [index, branches] of nodes.entries()) {
    for (const [side, branch] of branches.entries()) {
      const record =
        typeof branch === 'number' ? branch : nodes.length + (branch === EMPTY ? 0 : SEPARATOR.length + branch.offset)
      tree.writeUInt32BE(record, index * 8 + side * 4)
    }
  }
  const metadata = encode({
    binary_format_major_version: 2,
    binary_format_minor_version: 0,
    build_epoch: BigInt(Math.floor(builtAt.getTime() / 1_000)),
    database_type: type,
    description: { en: 'Made by a test' },
    ip_version: 6,
    languages: ['en'],
    node_count: nodes.length,
    record_size: 32,
  })
  return Buffer.concat([tree, SEPARATOR, ...values, MARKER, metadata])
}

/** Returns a file of countries. */
export function countries(codes: Readonly<Record<string, string>>, options?: MmdbOptions): Buffer {
  const records = Object.entries(codes).map(([network, code]) => [network, { country: { iso_code: code } }] as const)
  return mmdb(Object.fromEntries(records), { type: 'Test-Country', ...options })
}

/** Returns a file of network operators. */
export function operators(names: Readonly<Record<string, readonly [asn: number, name: string]>>): Buffer {
  const records = Object.entries(names).map(([network, [asn, name]]) => {
    return [network, { autonomous_system_number: asn, autonomous_system_organization: name }] as const
  })
  return mmdb(Object.fromEntries(records), { type: 'Test-ASN' })
}

/** A branch of a node: another node by its index, a value by its place, or nothing. */
type Branch = number | { readonly offset: number }

const EMPTY: Branch = { offset: -1 }

function insert(nodes: [Branch, Branch][], bits: readonly (0 | 1)[], value: Branch): void {
  let index = 0
  for (const [depth, bit] of bits.entries()) {
    const node = nodes[index]
    if (node === undefined) throw new Error('There is no such node')
    if (depth === bits.length - 1) {
      node[bit] = value
      return
    }
    const next = node[bit]
    if (typeof next === 'number') {
      index = next
    } else {
      index = nodes.push([EMPTY, EMPTY]) - 1
      node[bit] = index
    }
  }
}

/** Returns the bits of a network in a tree of IPv6, in which IPv4 stands at the front. */
function bitsOf(network: string): (0 | 1)[] {
  const [ip, length] = ipaddr.parseCIDR(network)
  const isShort = ip.kind() === 'ipv4'
  const bytes = [...(isShort ? Array<number>(12).fill(0) : []), ...ip.toByteArray()]
  const bits = bytes.flatMap((byte) => Array.from({ length: 8 }, (_, bit): 0 | 1 => ((byte >> (7 - bit)) & 1 ? 1 : 0)))
  return bits.slice(0, length + (isShort ? 96 : 0))
}

function encode(value: Value): Buffer {
  if (typeof value === 'string') {
    const bytes = Buffer.from(value)
    return Buffer.concat([head(2, bytes.length), bytes])
  }
  if (typeof value === 'number') {
    const bytes = Buffer.alloc(4)
    bytes.writeUInt32BE(value)
    return Buffer.concat([head(6, bytes.length), bytes])
  }
  if (typeof value === 'bigint') {
    const bytes = Buffer.alloc(8)
    bytes.writeBigUInt64BE(value)
    return Buffer.concat([head(9, bytes.length), bytes])
  }
  if (isList(value)) return Buffer.concat([head(11, value.length), ...value.map(encode)])
  const entries = Object.entries(value)
  return Buffer.concat([head(7, entries.length), ...entries.flatMap(([name, part]) => [encode(name), encode(part)])])
}

function isList(value: Value): value is readonly Value[] {
  return Array.isArray(value)
}

/** Returns what stands before a value: its type and its size, below 285. */
function head(type: number, size: number): Buffer {
  const [short, rest] = size < 29 ? [size, []] : [29, [size - 29]]
  return Buffer.from(type <= 7 ? [(type << 5) | short, ...rest] : [short, type - 7, ...rest])
}
