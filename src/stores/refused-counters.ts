import { createHash, randomBytes } from 'node:crypto'
import { ALGORITHMS, type Algorithm } from '../limiter/algorithm.js'
import { COUNTER_NUMBERS, type MemoryCounter, newEntry } from './memory-entry.js'

/** The number of places for a key's counter: enough that the table is nearly full before a counter finds none. */
const PLACES = 32
/** A place has the mark of a key, the moment when its counter expires, and the counter: 56 bytes. */
const PLACE_LENGTH = 2 + COUNTER_NUMBERS
/** The mark of an empty place. */
const EMPTY = 0

/**
 * The counters of refused clients that a store in process memory has no room for, in a table of a fixed size. It
 * identifies a key by its mark, a hash with a secret of this process, so that a client cannot forge a key with the mark
 * of another one. Where all places of a key are taken, the counter that expires first is forgotten.
 */
export class RefusedCounters {
  readonly #secret = randomBytes(32)
  readonly #sets: number
  readonly #table: Float64Array

  /** @param capacity the approximate number of counters that fit */
  constructor(capacity: number) {
    this.#sets = Math.ceil(capacity / PLACES)
    this.#table = new Float64Array(this.#sets * PLACES * PLACE_LENGTH)
  }

  /** Keeps the counter of a key. */
  keep(key: string, entry: MemoryCounter): void {
    const { mark, start, end } = this.#placesFor(key, entry.algorithm)
    let [place, soonestMs] = [start, entry.resetAtMs]
    for (let each = start; each < end; each += PLACE_LENGTH) {
      const resetAtMs = this.#at(each) === EMPTY ? Number.NEGATIVE_INFINITY : this.#at(each + 1)
      if (resetAtMs < soonestMs) [place, soonestMs] = [each, resetAtMs]
    }
    if (soonestMs === entry.resetAtMs) return
    this.#table.set([mark, entry.resetAtMs, ...entry.numbers()], place)
  }

  /** Removes and returns the counter of a key; undefined where there is none. */
  take(key: string, algorithm: Algorithm): MemoryCounter | undefined {
    const { mark, start, end } = this.#placesFor(key, algorithm)
    for (let place = start; place < end; place += PLACE_LENGTH) {
      if (this.#at(place) !== mark) continue
      this.#table[place] = EMPTY
      const entry = newEntry(algorithm)
      entry.restore(this.#table.subarray(place + 2, place + PLACE_LENGTH))
      entry.resetAtMs = this.#at(place + 1)
      entry.blocks = true
      return entry
    }
    return undefined
  }

  forget(key: string): void {
    for (const algorithm of ALGORITHMS) this.take(key, algorithm)
  }

  #at(index: number): number {
    return this.#table[index] ?? EMPTY
  }

  #placesFor(key: string, algorithm: Algorithm): { mark: number; start: number; end: number } {
    // Hashed as UTF-16, since two texts with half of a surrogate pair may be equal in UTF-8.
    const hash = createHash('sha256').update(this.#secret).update(`${algorithm} ${key}`, 'utf16le').digest()
    const start = (hash.readUInt32BE(0) % this.#sets) * PLACES * PLACE_LENGTH
    return { mark: 1 + hash.readUIntBE(4, 6), start, end: start + PLACES * PLACE_LENGTH }
  }
}
