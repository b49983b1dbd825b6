import { SECOND_MS } from '../clock.js'
import type { Algorithm, Check, Decision, Policy } from '../limiter/algorithm.js'
import { Rounds } from '../limiter/rounds.js'
import { type Entry, newEntry } from './memory-entry.js'
import type { Store } from './store.js'

export interface MemoryStoreOptions {
  /** The most keys kept, 100000 unless given; about 250 bytes each. */
  readonly maxKeys?: number
}

/** How many of the oldest keys are looked at for one to evict, so that a full store stays quick. */
const EVICTION_LOOKS = 32
/** How many keys each new one makes the store look at for counters that have run out: more than one, so that it wins. */
const EXPIRY_LOOKS = 2
/** More periods than this have no rules in practice. */
const MAX_OVERFLOWS = 100
const EXPIRY_GRACE_MS = 10 * SECOND_MS
/** Fewer keys than this are not worth looking at. */
const FEW_KEYS = 1_000

/**
 * Counters in process memory: exact within one process, and forgotten when it ends.
 *
 * It is bounded: counters that have run out are forgotten when new ones come, and when that is not enough the oldest one
 * that blocks nobody makes room. A blocked client's counter is never evicted by strangers; when the oldest ones all
 * block, newcomers share one counter.
 */
export class MemoryStore implements Store {
  readonly concurrency = Number.POSITIVE_INFINITY
  readonly #maxKeys: number
  // Insertion order is the order of eviction.
  readonly #counters = new Map<string, Entry>()
  readonly #oldest = new Rounds(this.#counters)
  readonly #next = new Rounds(this.#counters)
  /** Count newcomers together when the store is full of blocked clients. */
  readonly #overflow = new Map<number, Entry>()

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
    const entry = this.#counters.get(key) ?? this.#create(key, policy, nowMs)
    const counter = entryOf(entry, policy.algorithm)
    const decision = counter.check(policy, cost, nowMs)
    counter.resetAtMs = nowMs + decision.resetMs
    counter.blocks = !decision.allowed
    return decision
  }

  reset(keys: readonly string[]): void {
    for (const key of keys) this.#counters.delete(key)
  }

  close(): void {
    this.#counters.clear()
  }

  #create(key: string, { algorithm, periodMs }: Policy, nowMs: number): Entry {
    if (this.#counters.size > FEW_KEYS) this.#expire(nowMs)
    if (this.#counters.size >= this.#maxKeys && !this.#evict(nowMs)) return this.#overflowOf(periodMs)
    const entry = newEntry(algorithm)
    this.#counters.set(key, entry)
    return entry
  }

  /** One for each period: another period would start it afresh. */
  #overflowOf(periodMs: number): Entry {
    let entry = this.#overflow.get(periodMs)
    if (entry === undefined) {
      if (this.#overflow.size >= MAX_OVERFLOWS) this.#overflow.clear()
      entry = newEntry('fixed_window')
      this.#overflow.set(periodMs, entry)
    }
    return entry
  }

  #expire(nowMs: number): void {
    for (let looks = EXPIRY_LOOKS; looks > 0; looks--) {
      const [key, entry] = this.#next.step() ?? []
      if (key !== undefined && entry !== undefined && isOver(entry, nowMs)) this.#counters.delete(key)
    }
  }

  /** Makes room for one key. Answers false when the oldest ones all block somebody. */
  #evict(nowMs: number): boolean {
    for (let looks = EVICTION_LOOKS; looks > 0; looks--) {
      const [key, entry] = this.#oldest.step() ?? []
      if (key === undefined || entry === undefined) return false
      this.#counters.delete(key)
      if (!blocks(entry, nowMs)) return true
      // To the back, so that the next search looks further.
      this.#counters.set(key, entry)
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
    if (entry.blocks && entry.resetAtMs > nowMs) return true
  }
  return false
}

/** Whether nothing is left of what all algorithms counted, also for a clock that is set back a little. */
function isOver(first: Entry, nowMs: number): boolean {
  for (let entry: Entry | undefined = first; entry !== undefined; entry = entry.next) {
    if (entry.resetAtMs + EXPIRY_GRACE_MS > nowMs) return false
  }
  return true
}
