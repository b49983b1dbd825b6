import type { Algorithm, Check, Decision } from '../limiter/algorithm.js'
import { type Entry, newEntry } from './memory-entry.js'
import type { Store } from './store.js'

export interface MemoryStoreOptions {
  /** The most keys kept, 100000 unless given; about 250 bytes each. */
  readonly maxKeys?: number
}

/** How many of the oldest keys are looked at for one to evict, so that a full store stays quick. */
const EVICTION_LOOKS = 32

/**
 * Counters in process memory: exact within one process, and forgotten when it ends.
 *
 * It is bounded: the oldest counter that blocks nobody makes room for a new one. A blocked client's counter is never
 * evicted by strangers; when the oldest ones all block, newcomers share one counter.
 */
export class MemoryStore implements Store {
  readonly concurrency = Number.POSITIVE_INFINITY
  readonly #maxKeys: number
  // Insertion order is the order of eviction.
  readonly #counters = new Map<string, Entry>()
  /** Count newcomers together when the store is full of blocked clients. */
  readonly #overflow = newEntry('fixed_window')

  constructor({ maxKeys = 100_000 }: MemoryStoreOptions = {}) {
    if (!Number.isInteger(maxKeys) || maxKeys < 1) throw new TypeError(`maxKeys is ${maxKeys}: give an integer >= 1`)
    this.#maxKeys = maxKeys
  }

  get size(): number {
    return this.#counters.size
  }

  check(checks: readonly Check[], nowMs: number): readonly Decision[] {
    return checks.map((check) => this.checkOne(check, nowMs))
  }

  /** Answers one check without the detour of a batch. */
  checkOne({ key, policy, cost }: Check, nowMs: number): Decision {
    const entry = this.#counters.get(key) ?? this.#create(key, policy.algorithm, nowMs)
    const counter = entryOf(entry, policy.algorithm)
    const decision = counter.check(policy, cost, nowMs)
    counter.blockedUntilMs = decision.allowed ? 0 : nowMs + decision.resetMs
    return decision
  }

  reset(key: string): void {
    this.#counters.delete(key)
  }

  close(): void {
    this.#counters.clear()
  }

  #create(key: string, algorithm: Algorithm, nowMs: number): Entry {
    if (this.#counters.size >= this.#maxKeys && !this.#evict(nowMs)) return this.#overflow
    const entry = newEntry(algorithm)
    this.#counters.set(key, entry)
    return entry
  }

  /** Makes room for one key. Answers false when the oldest ones all block somebody. */
  #evict(nowMs: number): boolean {
    let looks = EVICTION_LOOKS
    for (const [key, entry] of this.#counters) {
      this.#counters.delete(key)
      if (!blocks(entry, nowMs)) return true
      // To the back, so that the next search looks further.
      this.#counters.set(key, entry)
      if (--looks === 0) return false
    }
    return false
  }
}

/** The counter of an algorithm among those of one key. */
function entryOf(first: Entry, algorithm: Algorithm): Entry {
  let entry = first
  while (entry.algorithm !== algorithm) {
    entry.next ??= newEntry(algorithm)
    entry = entry.next
  }
  return entry
}

function blocks(first: Entry, nowMs: number): boolean {
  for (let entry: Entry | undefined = first; entry !== undefined; entry = entry.next) {
    if (entry.blockedUntilMs > nowMs) return true
  }
  return false
}
