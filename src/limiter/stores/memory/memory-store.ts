import { latestStartMs, SECOND_MS } from '../../../ground/time/clock.js'
import { type Check, type Decision, isRate, type RatePolicy, type Settlement } from '../../algorithm.js'
import { type ConcurrencyCounter, checkConcurrency, settleConcurrency } from '../../concurrency.js'
import { CyclicIterator } from '../../cyclic-iterator.js'
import type { Store } from '../store.js'
import { formFor, type MemoryCounter, newEntry } from './memory-entry.js'

export interface MemoryStoreOptions {
  /** The most keys kept, 100000 by default, 16777216 at most; about 250 bytes each. */
  readonly maxKeys?: number
}

/** The most keys that a `Map` holds: every new client would fail behind them. */
const MOST_KEYS = 2 ** 24
/** The number of keys that are inspected for expiry for each new key: more than one, so that the number shrinks. */
const EXPIRY_INSPECTIONS = 2
const EXPIRY_GRACE_MS = 10 * SECOND_MS
/** The number of keys that are not inspected, and of refused clients that are kept in any case. */
const FEW_KEYS = 1_000
/** The number of refused clients that are inspected for each further one, of which the first to expire is forgotten. */
const REFUSED_INSPECTIONS = 8

/**
 * Counters in process memory: exact within one process, and forgotten when it ends.
 *
 * The store is bounded: new counters evict expired ones, and when that is not enough the oldest one, so that no client is
 * refused for the requests of others. The counter of a refused client is kept apart until it has expired, or until as
 * many others are, which expire later.
 */
export class MemoryStore implements Store {
  readonly concurrency = Number.POSITIVE_INFINITY
  readonly #maxKeys: number
  // Insertion order is the order of eviction.
  readonly #counters = new Map<string, MemoryCounter>()
  readonly #oldest = new CyclicIterator(this.#counters)
  readonly #next = new CyclicIterator(this.#counters)
  /** The counters of refused clients that have made room for others. */
  readonly #refused = new Map<string, MemoryCounter>()
  readonly #nextRefused = new CyclicIterator(this.#refused)
  readonly #permits = new MemoryPermits()

  constructor({ maxKeys = 100_000 }: MemoryStoreOptions = {}) {
    if (!Number.isInteger(maxKeys) || maxKeys < 1 || maxKeys > MOST_KEYS) {
      throw new TypeError(`maxKeys is ${maxKeys}: give an integer from 1 to ${MOST_KEYS}`)
    }
    this.#maxKeys = maxKeys
  }

  get size(): number {
    return this.#counters.size + this.#permits.size
  }

  check(checks: readonly Check[], nowMs: number): readonly Decision[] {
    return checks.map((check) => this.checkOne(check, nowMs))
  }

  /** Decides one check without a batch. */
  checkOne(check: Check, nowMs: number): Decision {
    const { key, policy, cost, charges } = check
    const counter = this.#counters.get(key)
    if (counter?.form !== policy.algorithm || policy.windows !== undefined) return this.#checkOther(check, nowMs)
    return counter.check(policy, cost, nowMs, charges)
  }

  /** Decides one check where its key has a counter already. */
  checkExisting(check: Check, nowMs: number): Decision | undefined {
    return this.#counters.has(check.key) ? this.checkOne(check, nowMs) : undefined
  }

  settle(settlements: readonly Settlement[]): void {
    for (const settlement of settlements) {
      const { key, policy } = settlement
      if (!isRate(policy)) {
        this.#permits.settle(settlement)
        continue
      }
      let entry = this.#counters.get(key) ?? this.#refused.get(key)
      while (entry !== undefined && entry.algorithm !== policy.algorithm) entry = entry.next
      entry?.settle(settlement)
    }
  }

  reset(keys: readonly string[]): void {
    for (const key of keys) {
      this.#counters.delete(key)
      this.#refused.delete(key)
      this.#permits.reset(key)
    }
  }

  resetAll(prefixes: readonly string[]): void {
    const keys = [this.#counters, this.#refused, this.#permits.counters].flatMap((some) => [...some.keys()])
    this.reset(keys.filter((key) => prefixes.some((prefix) => key.startsWith(prefix))))
  }

  close(): void {
    this.#counters.clear()
    this.#refused.clear()
    this.#permits.clear()
  }

  /** Decides a check that is not for the first counter of its key, or for several windows. */
  #checkOther(check: Check, nowMs: number): Decision {
    const { key, policy, cost, charges } = check
    if (!isRate(policy)) return this.#permits.check(check, nowMs)
    const entry =
      this.#counters.get(key) ??
      // A check that takes nothing creates no counter, and takes the place of none.
      (cost > 0 ? this.#create(key, policy, nowMs) : (this.#refused.get(key) ?? newEntry(policy)))
    return this.#counterBeside(entry, key, policy, cost > 0).check(policy, cost, nowMs, charges)
  }

  #create(key: string, policy: RatePolicy, nowMs: number): MemoryCounter {
    if (this.#counters.size > FEW_KEYS) this.#next.sweep(EXPIRY_INSPECTIONS, (entry) => isOver(entry, nowMs))
    if (this.#counters.size >= this.#maxKeys) this.#evict(nowMs)
    const entry = this.#refused.get(key) ?? newEntry(policy)
    this.#refused.delete(key)
    this.#counters.set(key, entry)
    return entry
  }

  /**
   * Returns the counter of another algorithm under the same key, or of the same one with other windows.
   *
   * @param keeps whether one that is not there is created
   */
  #counterBeside(first: MemoryCounter, key: string, policy: RatePolicy, keeps: boolean): MemoryCounter {
    let before: MemoryCounter | undefined
    let entry = first
    while (entry.algorithm !== policy.algorithm) {
      if (entry.next === undefined && !keeps) return newEntry(policy)
      entry.next ??= newEntry(policy)
      before = entry
      entry = entry.next
    }
    if (entry.form === formFor(policy)) return entry
    // The windows were edited: the periods that stay keep their state.
    const edited = newEntry(policy, entry.windows())
    edited.next = entry.next
    if (before !== undefined) before.next = edited
    else if (this.#counters.has(key)) this.#counters.set(key, edited)
    else this.#refused.set(key, edited)
    return edited
  }

  /** Makes room for one key. */
  #evict(nowMs: number): void {
    const [key, first] = this.#oldest.step() ?? []
    if (key === undefined) return
    this.#counters.delete(key)
    let kept: MemoryCounter | undefined
    for (let entry = first; entry !== undefined; ) {
      const { next } = entry
      if (entry.blocks && entry.resetAtMs > nowMs) {
        entry.next = kept
        kept = entry
      }
      entry = next
    }
    if (kept !== undefined) this.#keepRefused(key, kept, nowMs)
  }

  #keepRefused(key: string, first: MemoryCounter, nowMs: number): void {
    let [soonest, soonestMs] = [key, expiryMs(first)]
    for (let inspections = REFUSED_INSPECTIONS; inspections > 0; inspections--) {
      const [other, entry] = this.#nextRefused.step() ?? []
      if (other === undefined || entry === undefined) break
      const otherMs = expiryMs(entry)
      if (otherMs <= nowMs || isAhead(entry, nowMs)) this.#refused.delete(other)
      else if (otherMs < soonestMs) [soonest, soonestMs] = [other, otherMs]
    }
    this.#refused.set(key, first)
    if (this.#refused.size > Math.max(this.#maxKeys, FEW_KEYS)) this.#refused.delete(soonest)
  }
}

/** Returns whether the counters of all algorithms have expired, also for a clock that is set back a little. */
function isOver(first: MemoryCounter, nowMs: number): boolean {
  return expiryMs(first) + EXPIRY_GRACE_MS <= nowMs
}

/** Returns when the counters of all algorithms have expired. */
function expiryMs({ resetAtMs, next }: MemoryCounter): number {
  return next === undefined ? resetAtMs : Math.max(resetAtMs, expiryMs(next))
}

/** Returns whether a wrong clock has written a counter, which would stay until its time comes. */
function isAhead(counter: MemoryCounter, nowMs: number): boolean {
  return counter.windows().some(([periodMs, startMs = 0]) => startMs > latestStartMs(nowMs, periodMs))
}

/** Returns whether the permits of a counter have ended, also for a clock that is set back a little. */
function isFree({ taken }: ConcurrencyCounter, nowMs: number): boolean {
  return (taken.at(-1)?.untilMs ?? 0) + EXPIRY_GRACE_MS <= nowMs
}

/**
 * The counters of requests in progress, in process memory. A counter without permits does not exist, so that there are
 * never more than requests in progress and permits that were not given back within their period. None is evicted: its
 * client could take all permits again.
 */
class MemoryPermits {
  readonly counters = new Map<string, ConcurrencyCounter>()
  readonly #next = new CyclicIterator(this.counters)

  get size(): number {
    return this.counters.size
  }

  check(check: Check, nowMs: number): Decision {
    const { key } = check
    const before = this.counters.get(key)
    if (before === undefined && this.size > FEW_KEYS)
      this.#next.sweep(EXPIRY_INSPECTIONS, (entry) => isFree(entry, nowMs))
    const { counter, decision } = checkConcurrency(before, check, nowMs)
    this.#keep(key, counter)
    return decision
  }

  settle({ key, permit = 0 }: Settlement): void {
    const counter = this.counters.get(key)
    if (counter !== undefined) this.#keep(key, settleConcurrency(counter, permit))
  }

  reset(key: string): void {
    this.counters.delete(key)
  }

  clear(): void {
    this.counters.clear()
  }

  #keep(key: string, counter: ConcurrencyCounter): void {
    if (counter.taken.length === 0) this.counters.delete(key)
    else this.counters.set(key, counter)
  }
}
