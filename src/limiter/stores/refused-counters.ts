import { createHash, randomBytes } from 'node:crypto'
import { latestStartMs } from '../../ground/time/clock.js'
import { RATE_ALGORITHMS, type RateAlgorithm, type RatePolicy } from '../algorithm.js'
import type { WindowNumbers } from '../windows.js'
import { MAX_WINDOWS, type MemoryCounter, newEntry, WINDOW_NUMBERS } from './memory-entry.js'

/** The number of slots for a key's counter: enough that the table is nearly full before a counter finds none. */
const SLOTS = 32
/** A slot has the mark of a key, the moment when its counter expires, and one of its windows: 56 bytes. */
const SLOT_LENGTH = 2 + WINDOW_NUMBERS
/** The mark of an empty slot. */
const EMPTY = 0

interface KeptWindow {
  readonly index: number
  /** Its period and its beginning are the first ones. */
  readonly numbers: WindowNumbers
  readonly nowMs: number
}

/**
 * The counters of refused clients that a store in process memory has no room for, in a table of a fixed size. It
 * identifies a key by its mark, a hash with a secret of this process, so that a client cannot forge a key with the mark
 * of another one. Where all slots of a key are taken, one that a wrong clock wrote is forgotten, or the counter that expires first.
 */
export class RefusedCounters {
  readonly #secret = randomBytes(32)
  readonly #sets: number
  readonly #table: Float64Array

  /** @param capacity the approximate number of counters that fit */
  constructor(capacity: number) {
    this.#sets = Math.ceil(capacity / SLOTS)
    this.#table = new Float64Array(this.#sets * SLOTS * SLOT_LENGTH)
  }

  /** Keeps the counter of a key. */
  keep(key: string, entry: MemoryCounter, nowMs: number): void {
    for (const [index, numbers] of entry.windows().entries()) this.#keepWindow(key, entry, { index, numbers, nowMs })
  }

  #keepWindow(key: string, entry: MemoryCounter, { index, numbers, nowMs }: KeptWindow): void {
    const { mark, start, end } = this.#slotsFor(key, entry.algorithm, index)
    let [slot, soonestMs] = [start, entry.resetAtMs]
    for (let each = start; each < end; each += SLOT_LENGTH) {
      const isFree = this.#at(each) === EMPTY || this.#at(each + 3) > latestStartMs(nowMs, this.#at(each + 2))
      const resetAtMs = isFree ? Number.NEGATIVE_INFINITY : this.#at(each + 1)
      if (resetAtMs < soonestMs) [slot, soonestMs] = [each, resetAtMs]
    }
    if (soonestMs === entry.resetAtMs) return
    this.#table.fill(0, slot, slot + SLOT_LENGTH).set([mark, entry.resetAtMs, ...numbers], slot)
  }

  /** Removes and returns the counter of a key; undefined where there is none. */
  take(key: string, policy: RatePolicy): MemoryCounter | undefined {
    const taken: { readonly resetAtMs: number; readonly numbers: WindowNumbers }[] = []
    for (let index = 0; index < (policy.windows?.length ?? 1); index++) {
      taken.push(...this.#takeWindow(key, policy.algorithm, index))
    }
    const [first] = taken
    if (first === undefined) return undefined
    const entry = newEntry(
      policy,
      taken.map(({ numbers }) => numbers),
    )
    entry.note(first.resetAtMs, true)
    return entry
  }

  forget(key: string): void {
    for (const algorithm of RATE_ALGORITHMS) {
      for (let index = 0; index < MAX_WINDOWS; index++) this.#takeWindow(key, algorithm, index)
    }
  }

  #takeWindow(key: string, algorithm: RateAlgorithm, index: number) {
    const { mark, start, end } = this.#slotsFor(key, algorithm, index)
    for (let slot = start; slot < end; slot += SLOT_LENGTH) {
      if (this.#at(slot) !== mark) continue
      this.#table[slot] = EMPTY
      const numbers = [...this.#table.subarray(slot + 2, slot + SLOT_LENGTH)]
      return [{ resetAtMs: this.#at(slot + 1), numbers }]
    }
    return []
  }

  #at(index: number): number {
    return this.#table[index] ?? EMPTY
  }

  #slotsFor(key: string, algorithm: RateAlgorithm, index: number): { mark: number; start: number; end: number } {
    // Hashed as UTF-16, since two texts with half of a surrogate pair may be equal in UTF-8.
    const hash = createHash('sha256').update(this.#secret).update(`${algorithm} ${index} ${key}`, 'utf16le').digest()
    const start = (hash.readUInt32BE(0) % this.#sets) * SLOTS * SLOT_LENGTH
    return { mark: 1 + hash.readUIntBE(4, 6), start, end: start + SLOTS * SLOT_LENGTH }
  }
}
