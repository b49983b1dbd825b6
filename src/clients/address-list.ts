import { isIP } from 'node:net'
import { shortened } from '../ground/shortened.js'
import { CooperativeYield, type Steps } from '../ground/time/cooperative-yield.js'
import { visible } from '../ground/visible.js'
import { type ParsedNetwork, parseNetwork } from './network.js'

/** The most bytes of a list as a text, and the most entries. */
export const MAX_LIST_BYTES = 32 * 1024 * 1024
export const MAX_LIST_ENTRIES = 1_000_000

/** The longest line that is parsed, in bytes, and the most of it that a message quotes. */
const MAX_LINE = 256
const QUOTED = 60
/** The number of lines, or of compared ranges, between two looks at the time. */
const STRIDE = 1_024

const NEWLINE = 10
const COMMENT = 35
const WORD = 2 ** 32
const MAX_WORD = WORD - 1

/** The address that was parsed last, as words of 32 bits: one for IPv4, four for IPv6. No allocation per look-up. */
const address = new Uint32Array(4)

/** Ranges of addresses of one family, sorted, without overlaps: each address is one or four words of 32 bits. */
interface Ranges {
  readonly words: 1 | 4
  readonly count: number
  readonly starts: Uint32Array
  readonly ends: Uint32Array
}

/** Addresses and networks, of which a million take 8 MB (IPv4) or 32 MB (IPv6). Immutable. */
export class AddressList {
  static readonly EMPTY = new AddressList(0, emptyRanges(1), emptyRanges(4))
  readonly #ipv4: Ranges
  readonly #ipv6: Ranges

  /** @param size the number of entries, those that overlap others among them */
  constructor(
    readonly size: number,
    ipv4: Ranges,
    ipv6: Ranges,
  ) {
    this.#ipv4 = ipv4
    this.#ipv6 = ipv6
  }

  /** Returns whether a text is an address that the list has. A text that is none is in no list. */
  includes(text: string): boolean {
    const words = readAddress(text)
    if (words === 0) return false
    const ranges = words === 1 ? this.#ipv4 : this.#ipv6
    const index = lastAtMost(ranges, address)
    return index >= 0 && compareWords(ranges.ends, index * words, address, 0, words) >= 0
  }

  /** Returns whether the list has an address of a network. */
  meets(network: ParsedNetwork): boolean {
    const words = network.family === 'ipv4' ? 1 : 4
    const ranges = words === 1 ? this.#ipv4 : this.#ipv6
    if (readAddress(network.address) !== words) return false
    const first = address.slice(0, words)
    clearBits(first, 0, words, network.bits)
    const last = first.slice()
    setBits(last, 0, words, network.bits)
    const index = lastAtMost(ranges, last)
    return index >= 0 && compareWords(ranges.ends, index * words, first, 0, words) >= 0
  }

  /** The bytes that the ranges take. */
  get bytes(): number {
    return [this.#ipv4, this.#ipv6].reduce((sum, { starts, ends }) => sum + starts.byteLength + ends.byteLength, 0)
  }
}

/** Creates a list from entries in code. */
export function listOf(entries: readonly ParsedNetwork[]): Promise<AddressList> {
  const builder = new ListBuilder(entries.length)
  for (const entry of entries) builder.add(entry)
  return builder.finish(new CooperativeYield())
}

/**
 * Parses a list, one entry a line: `#` begins a comment, blank lines count for nothing. It works in slices, so that a
 * million lines hold up no request. A list with comments alone is empty; one without them is a download that failed.
 *
 * @throws Error that names the first line that cannot be read, or the bound that the list exceeds
 */
export async function parseAddressLines(bytes: Uint8Array): Promise<AddressList> {
  requireListSize(bytes.length)
  const slices = new CooperativeYield()
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const builder = new ListBuilder(Math.min(await countLines(text, slices), MAX_LIST_ENTRIES))
  // A byte order mark is no part of the first line.
  let start = text[0] === 0xef && text[1] === 0xbb && text[2] === 0xbf ? 3 : 0
  for (let line = 1; start < text.length; line++) {
    const newline = text.indexOf(NEWLINE, start)
    const end = newline === -1 ? text.length : newline
    const entry = readLine(text, start, end, line)
    if (entry !== '') {
      if (builder.size >= MAX_LIST_ENTRIES) throw new Error(`has more than ${MAX_LIST_ENTRIES} entries`)
      if (!builder.addText(entry)) throw unreadable(line, entry)
    }
    start = end + 1
    if (line % STRIDE === 0 && slices.over()) await slices.pause()
  }
  if (builder.size === 0 && !text.includes(COMMENT))
    throw new Error('has no line: a list without entries has a comment, such as "# none"')
  return builder.finish(slices)
}

/** @throws Error for more bytes than a list may have */
export function requireListSize(bytes: number): void {
  if (bytes > MAX_LIST_BYTES) throw new Error(`is larger than ${MAX_LIST_BYTES / 1024 / 1024} MB`)
}

async function countLines(text: Buffer, slices: CooperativeYield): Promise<number> {
  let lines = 1
  for (let at = text.indexOf(NEWLINE); at !== -1; at = text.indexOf(NEWLINE, at + 1)) {
    lines++
    if (lines > MAX_LIST_ENTRIES) break
    if (lines % STRIDE === 0 && slices.over()) await slices.pause()
  }
  return lines
}

/** Returns what a line has before its comment; empty for a blank one. */
function readLine(text: Buffer, start: number, end: number, line: number): string {
  let last = end
  if (end - start > MAX_LINE) {
    // The comment alone may be long.
    const comment = text.subarray(start, end).indexOf(COMMENT)
    if (comment === -1 || comment > MAX_LINE) throw unreadable(line, text.toString('latin1', start, start + MAX_LINE))
    last = start + comment
  }
  const entry = text.toString('latin1', start, last)
  const comment = entry.indexOf('#')
  return (comment === -1 ? entry : entry.slice(0, comment)).trim()
}

/** @param entry the bytes of a line, which whoever publishes the list has written */
function unreadable(line: number, entry: string): Error {
  const quoted = visible(JSON.stringify(shortened(Buffer.from(entry, 'latin1').toString(), QUOTED)))
  return new Error(`has ${quoted} in line ${line}: write an address or a network such as 10.0.0.0/8 in each line`)
}

/** The networks of a list in the order in which they were added. */
class ListBuilder {
  readonly #ipv4: Uint32Array
  readonly #bits4: Uint8Array
  /** Allocated with the first address of IPv6, since most lists have few. */
  #ipv6 = new Uint32Array(0)
  #bits6 = new Uint8Array(0)
  #count4 = 0
  #count6 = 0
  readonly #capacity: number

  constructor(capacity: number) {
    this.#capacity = capacity
    this.#ipv4 = new Uint32Array(capacity)
    this.#bits4 = new Uint8Array(capacity)
  }

  get size(): number {
    return this.#count4 + this.#count6
  }

  /** Returns false for a text that is neither an address nor a network. */
  addText(text: string): boolean {
    const slash = text.indexOf('/')
    const words = readAddress(slash === -1 ? text : text.slice(0, slash))
    if (words === 0 || text.includes('%')) return false
    if (slash === -1) {
      this.#push(words, words * 32)
      return true
    }
    const bits = readBits(text, slash + 1)
    // The bits of IPv4 that is written as IPv6 count from the front of that spelling.
    const isMapped = words === 1 && text.includes(':')
    if (bits < 0 || (!isMapped && bits > words * 32)) return false
    if (!isMapped) {
      this.#push(words, bits)
      return true
    }
    try {
      this.add(parseNetwork(text))
      return true
    } catch {
      return false
    }
  }

  add(network: ParsedNetwork): void {
    const words = readAddress(network.address)
    if (words !== 0) this.#push(words, network.bits)
  }

  /** Adds the address that was parsed last. */
  #push(words: 1 | 4, bits: number): void {
    if (words === 1) {
      this.#ipv4[this.#count4] = address[0] ?? 0
      this.#bits4[this.#count4++] = bits
      return
    }
    if (this.#bits6.length === 0) {
      this.#ipv6 = new Uint32Array(this.#capacity * 4)
      this.#bits6 = new Uint8Array(this.#capacity)
    }
    for (let word = 0; word < 4; word++) this.#ipv6[this.#count6 * 4 + word] = address[word] ?? 0
    this.#bits6[this.#count6++] = bits
  }

  /** Sorts and joins the networks, in slices. */
  async finish(slices: CooperativeYield): Promise<AddressList> {
    const finishing = this.#finish()
    for (;;) {
      const { done, value } = finishing.next()
      if (done) return value
      if (slices.over()) await slices.pause()
    }
  }

  *#finish(): Steps<AddressList> {
    const ipv4 = yield* toRanges(1, this.#ipv4, this.#bits4, this.#count4)
    const ipv6 = yield* toRanges(4, this.#ipv6, this.#bits6, this.#count6)
    return new AddressList(this.size, ipv4, ipv6)
  }
}

/** Returns the ranges of networks: overlapping and adjacent ones are one. */
function* toRanges(words: 1 | 4, addresses: Uint32Array, bits: Uint8Array, count: number): Steps<Ranges> {
  for (let index = 0; index < count; index++) {
    clearBits(addresses, index * words, words, bits[index] ?? 0)
    if (index % STRIDE === 0) yield
  }
  const order = yield* sorted(words, addresses, count)
  const starts = new Uint32Array(count * words)
  const ends = new Uint32Array(count * words)
  const last = new Uint32Array(words)
  let found = -1
  for (let index = 0; index < count; index++) {
    const at = (order[index] ?? 0) * words
    for (let word = 0; word < words; word++) last[word] = addresses[at + word] ?? 0
    setBits(last, 0, words, bits[order[index] ?? 0] ?? 0)
    if (found >= 0 && follows(ends, found * words, addresses, at, words)) {
      if (compareWords(last, 0, ends, found * words, words) > 0) ends.set(last, found * words)
    } else {
      found++
      for (let word = 0; word < words; word++) starts[found * words + word] = addresses[at + word] ?? 0
      ends.set(last, found * words)
    }
    if (index % STRIDE === 0) yield
  }
  const length = (found + 1) * words
  // What was joined away is given back.
  const isWhole = length === starts.length
  return {
    words,
    count: found + 1,
    starts: isWhole ? starts : starts.slice(0, length),
    ends: isWhole ? ends : ends.slice(0, length),
  }
}

/** The values of a digit of a word. */
const DIGITS = 65_536

/**
 * Sorts the indexes of addresses, digit by digit from the last one on, in steps: a sort of the engine's cannot pause, and
 * compares twenty times as often.
 */
function* sorted(words: 1 | 4, addresses: Uint32Array, count: number): Steps<Uint32Array> {
  let from = new Uint32Array(count)
  for (let index = 0; index < count; index++) from[index] = index
  let to = new Uint32Array(count)
  for (let digit = words * 2 - 1; digit >= 0; digit--) {
    const word = digit >> 1
    const shift = digit % 2 === 0 ? 16 : 0
    const positions = new Uint32Array(DIGITS + 1)
    for (let index = 0; index < count; index++) {
      const value = ((addresses[index * words + word] ?? 0) >>> shift) & 0xffff
      positions[value + 1] = (positions[value + 1] ?? 0) + 1
      if (index % STRIDE === 0) yield
    }
    // Networks often have whole digits in common.
    if (positions.includes(count, 1)) continue
    for (let value = 1; value < DIGITS; value++)
      positions[value] = (positions[value] ?? 0) + (positions[value - 1] ?? 0)
    for (let index = 0; index < count; index++) {
      const entry = from[index] ?? 0
      const value = ((addresses[entry * words + word] ?? 0) >>> shift) & 0xffff
      const position = positions[value] ?? 0
      to[position] = entry
      positions[value] = position + 1
      if (index % STRIDE === 0) yield
    }
    ;[from, to] = [to, from]
  }
  return from
}

/** Returns whether an address is within the range that ends at another one, or right behind it. */
function follows(ends: Uint32Array, endAt: number, addresses: Uint32Array, at: number, words: number): boolean {
  if (compareWords(addresses, at, ends, endAt, words) <= 0) return true
  // The end plus one, from the last word on.
  let carry = 1
  for (let word = words - 1; word >= 0; word--) {
    const sum = (ends[endAt + word] ?? 0) + carry
    carry = sum === WORD ? 1 : 0
    if ((carry === 1 ? 0 : sum) !== addresses[at + word]) return false
  }
  return carry === 0
}

function compareWords(one: Uint32Array, oneAt: number, other: Uint32Array, otherAt: number, words: number): number {
  for (let word = 0; word < words; word++) {
    const difference = (one[oneAt + word] ?? 0) - (other[otherAt + word] ?? 0)
    if (difference !== 0) return difference
  }
  return 0
}

/** Returns the index of the last range that begins at an address or before it; -1 where there is none. */
function lastAtMost({ starts, count, words }: Ranges, searched: Uint32Array): number {
  const first = searched[0] ?? 0
  let low = 0
  let high = count
  while (low < high) {
    const middle = (low + high) >>> 1
    const start = starts[middle * words] ?? 0
    const isBefore =
      start < first ||
      (start === first && (words === 1 || compareWords(starts, middle * words, searched, 0, words) <= 0))
    if (isBefore) low = middle + 1
    else high = middle
  }
  return low - 1
}

function clearBits(addresses: Uint32Array, at: number, words: number, bits: number): void {
  for (let word = 0; word < words; word++) {
    addresses[at + word] = ((addresses[at + word] ?? 0) & ~hostMask(bits - word * 32)) >>> 0
  }
}

function setBits(addresses: Uint32Array, at: number, words: number, bits: number): void {
  for (let word = 0; word < words; word++) {
    addresses[at + word] = ((addresses[at + word] ?? 0) | hostMask(bits - word * 32)) >>> 0
  }
}

/** Returns the bits of a word behind its leading ones. */
function hostMask(bits: number): number {
  return bits >= 32 ? 0 : bits <= 0 ? MAX_WORD : MAX_WORD >>> bits
}

function emptyRanges(words: 1 | 4): Ranges {
  return { words, count: 0, starts: new Uint32Array(0), ends: new Uint32Array(0) }
}

/** The longest text that may be an address; clients may write longer ones into headers. */
const MAX_ADDRESS_LENGTH = 64
const COLON = 58
const DOT = 46
const ZERO = 48

/** Reads an address into `address`, and returns the number of its words: 0 for another text. */
function readAddress(text: string): 0 | 1 | 4 {
  if (text.length < 2 || text.length > MAX_ADDRESS_LENGTH) return 0
  if (readIpv4(text)) return 1
  // Addresses are compared without their zones.
  const zone = text.indexOf('%')
  if (zone !== -1 && isIP(text) === 0) return 0
  if (!readIpv6(zone === -1 ? text : text.slice(0, zone))) return 0
  return takeIpv4() ? 1 : 4
}

/** Makes IPv6 that stands for IPv4 that address, as `parseAddress` does; returns whether it stands for one. */
function takeIpv4(): boolean {
  const [first = 0, second = 0, third = 0, last = 0] = address
  if (second !== 0) return false
  // IPv4 is mapped as ::ffff:0:0 and ::, and translated as ::ffff:0:0:0 and 64:ff9b::.
  const stands =
    first === 0
      ? third === 0xffff || third === 0xffff0000 || (third === 0 && last > 1)
      : first === 0x64ff9b && third === 0
  if (stands) address[0] = last
  return stands
}

/** Reads four numbers up to 255, without leading zeros. */
function readIpv4(text: string): boolean {
  let value = 0
  let octet = 0
  let digits = 0
  let dots = 0
  for (let index = 0; index < text.length; index++) {
    const code = text.charCodeAt(index)
    if (code === DOT) {
      if (digits === 0 || dots === 3) return false
      value = value * 256 + octet
      octet = 0
      digits = 0
      dots++
      continue
    }
    const digit = code - ZERO
    if (digit < 0 || digit > 9 || (digits > 0 && octet === 0)) return false
    octet = octet * 10 + digit
    digits++
    if (octet > 255) return false
  }
  if (dots !== 3 || digits === 0) return false
  address[0] = value * 256 + octet
  return true
}

/** The groups of sixteen bits of the address that is read. */
const groups = new Uint16Array(8)

/** Reads groups of hexadecimal digits, with `::` once at most; the last two may be written as IPv4. */
function readIpv6(text: string): boolean {
  let count = 0
  let gap = -1
  let index = 0
  if (text.charCodeAt(0) === COLON) {
    if (text.charCodeAt(1) !== COLON) return false
    gap = 0
    index = 2
  }
  while (index < text.length) {
    const start = index
    let group = 0
    let digits = 0
    for (; index < text.length; index++, digits++) {
      const digit = hexDigit(text.charCodeAt(index))
      if (digit < 0) break
      group = group * 16 + digit
    }
    if (text.charCodeAt(index) === DOT) {
      if (count > 6 || !readIpv4(text.slice(start))) return false
      const value = address[0] ?? 0
      groups[count++] = value >>> 16
      groups[count++] = value & 0xffff
      break
    }
    if (digits === 0 || digits > 4 || count === 8) return false
    groups[count++] = group
    if (index === text.length) break
    if (text.charCodeAt(index++) !== COLON) return false
    if (text.charCodeAt(index) === COLON) {
      if (gap >= 0) return false
      gap = count
      index++
    } else if (index === text.length) return false
  }
  if (gap < 0 ? count !== 8 : count > 7) return false
  const missing = 8 - count
  for (let word = 0; word < 4; word++) {
    address[word] = groupAt(2 * word, gap, missing) * 65_536 + groupAt(2 * word + 1, gap, missing)
  }
  return true
}

function groupAt(index: number, gap: number, missing: number): number {
  if (gap < 0 || index < gap) return groups[index] ?? 0
  return index < gap + missing ? 0 : (groups[index - missing] ?? 0)
}

function hexDigit(code: number): number {
  if (code >= ZERO && code <= 57) return code - ZERO
  const lower = code | 32
  return lower >= 97 && lower <= 102 ? lower - 87 : -1
}

/** Returns the number of a network's bits from a position on; -1 for another text. */
function readBits(text: string, from: number): number {
  const length = text.length - from
  if (length < 1 || length > 3) return -1
  let bits = 0
  for (let index = from; index < text.length; index++) {
    const digit = text.charCodeAt(index) - ZERO
    if (digit < 0 || digit > 9) return -1
    bits = bits * 10 + digit
  }
  return bits
}
