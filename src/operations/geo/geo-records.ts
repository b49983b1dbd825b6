/** Finds the records of a file in the format of MaxMind DB by the tree that leads to them. */
import { CooperativeYield } from '../../ground/time/cooperative-yield.js'

/** The number of branches between two looks at the time. */
const STRIDE = 256

/** What the metadata of a file say about its tree. */
export interface TreeMetadata {
  readonly nodeCount: number
  /** The bits of a branch: 24, 28 or 32. */
  readonly recordSize: number
  readonly ipVersion: number
}

/**
 * Calls a function with an address of each record of a file, once per record, in slices.
 *
 * @throws Error for a tree that is deeper than addresses are long
 */
export async function forEachRecord(
  file: Buffer,
  { nodeCount, recordSize, ipVersion }: TreeMetadata,
  call: (ip: string) => void,
): Promise<void> {
  const bits = ipVersion === 4 ? 32 : 128
  const slices = new CooperativeYield()
  const records = new Set<number>()
  // Networks that stand for those of IPv4 share their nodes.
  const isVisited = new Uint8Array(nodeCount)
  const nodes = new Uint32Array(bits)
  /** The branch that is followed at each depth: 0 or 1, which are the bits of the address. */
  const branches = new Int8Array(bits).fill(-1)
  let depth = 0
  for (let steps = 1; depth >= 0; steps++) {
    if (steps % STRIDE === 0 && slices.over()) await slices.pause()
    const branch = (branches[depth] ?? 0) + 1
    branches[depth] = branch
    if (branch > 1) {
      branches[depth--] = -1
      continue
    }
    const next = readBranch(file, recordSize, nodes[depth] ?? 0, branch)
    if (next > nodeCount && !records.has(next)) {
      records.add(next)
      call(toAddress(branches))
    } else if (next < nodeCount && isVisited[next] === 0) {
      isVisited[next] = 1
      if (++depth === bits) throw new Error('its tree is too deep')
      nodes[depth] = next
    }
  }
}

/** Reads where a branch of a node leads to: a node, a record (above the number of nodes), or nothing (that number). */
function readBranch(file: Buffer, size: number, node: number, branch: number): number {
  const start = (node * size) / 4
  if (size === 32) return file.readUInt32BE(start + branch * 4)
  if (size === 24) return file.readUIntBE(start + branch * 3, 3)
  // The byte in the middle has the highest four bits of both branches.
  const middle = file.readUInt8(start + 3)
  const highest = branch === 0 ? middle >>> 4 : middle & 0x0f
  return highest * 2 ** 24 + file.readUIntBE(start + branch * 4, 3)
}

/** Returns the address whose first bits are those of branches that were followed; the others are 0. */
function toAddress(branches: Int8Array): string {
  const [width, radix, separator] = branches.length === 32 ? ([8, 10, '.'] as const) : ([16, 16, ':'] as const)
  let address = ''
  let group = 0
  for (let bit = 0; bit < branches.length; bit++) {
    if (bit > 0 && bit % width === 0) {
      address += group.toString(radix) + separator
      group = 0
    }
    group = group * 2 + (branches[bit] === 1 ? 1 : 0)
  }
  return address + group.toString(radix)
}
