import type { Check, Decision, Policy } from '../limiter/algorithm.js'
import { advanceFixedWindow, decideFixedWindow, type FixedWindowCounter } from '../limiter/fixed-window.js'
import { checkLeakyBucket, type LeakyBucketCounter } from '../limiter/leaky-bucket.js'
import { checkSlidingWindow, type SlidingWindowCounter } from '../limiter/sliding-window.js'
import { checkTokenBucket, type TokenBucketCounter } from '../limiter/token-bucket.js'
import type { Store } from './store.js'

export interface MemoryStoreOptions {
  /** The most counters kept, 100000 unless given; about 250 bytes each. */
  readonly maxKeys?: number
}

/** How many of the oldest counters are looked at for one to evict, so that a full store stays quick. */
const EVICTION_LOOKS = 32

/** All that is counted under one key: a counter per algorithm, as an algorithm knows nothing of another one's. */
class Entry {
  fixedWindow: FixedWindowCounter | undefined
  slidingWindow: SlidingWindowCounter | undefined
  tokenBucket: TokenBucketCounter | undefined
  leakyBucket: LeakyBucketCounter | undefined
  /** Until when the client's last check leaves it refused; 0 when that was allowed. */
  blockedUntilMs = 0

  check(policy: Policy, cost: number, nowMs: number): Decision {
    switch (policy.algorithm) {
      case 'fixed_window': {
        const counter = advanceFixedWindow(this.fixedWindow, policy.periodMs, cost, nowMs)
        this.fixedWindow = counter
        return decideFixedWindow(policy, counter.count, counter.endMs, cost, nowMs)
      }
      case 'sliding_window': {
        const { counter, decision } = checkSlidingWindow(this.slidingWindow, policy, cost, nowMs)
        this.slidingWindow = counter
        return decision
      }
      case 'token_bucket': {
        const { counter, decision } = checkTokenBucket(this.tokenBucket, policy, cost, nowMs)
        this.tokenBucket = counter
        return decision
      }
      case 'leaky_bucket': {
        const { counter, decision } = checkLeakyBucket(this.leakyBucket, policy, cost, nowMs)
        this.leakyBucket = counter
        return decision
      }
    }
  }
}

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
  /** Counts newcomers together when the store is full of blocked clients. */
  readonly #overflow = new Entry()

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
    const entry = this.#counters.get(key) ?? this.#create(key, nowMs)
    const decision = entry.check(policy, cost, nowMs)
    entry.blockedUntilMs = decision.allowed ? 0 : nowMs + decision.resetMs
    return decision
  }

  reset(key: string): void {
    this.#counters.delete(key)
  }

  close(): void {
    this.#counters.clear()
  }

  #create(key: string, nowMs: number): Entry {
    if (this.#counters.size >= this.#maxKeys && !this.#evict(nowMs)) return this.#overflow
    const entry = new Entry()
    this.#counters.set(key, entry)
    return entry
  }

  /** Makes room for one counter. Answers false when the oldest ones all block somebody. */
  #evict(nowMs: number): boolean {
    let looks = EVICTION_LOOKS
    for (const [key, entry] of this.#counters) {
      this.#counters.delete(key)
      if (entry.blockedUntilMs <= nowMs) return true
      // To the back, so that the next search looks further.
      this.#counters.set(key, entry)
      if (--looks === 0) return false
    }
    return false
  }
}
