import type { Algorithm, Decision, Policy, Settlement } from '../limiter/algorithm.js'
import { type BucketCounter, settleBucket } from '../limiter/bucket.js'
import {
  advanceFixedWindow,
  decideFixedWindow,
  type FixedWindowCounter,
  settleFixedWindow,
} from '../limiter/fixed-window.js'
import { checkLeakyBucket } from '../limiter/leaky-bucket.js'
import { checkSlidingWindow, type SlidingWindowCounter, settleSlidingWindow } from '../limiter/sliding-window.js'
import { checkTokenBucket } from '../limiter/token-bucket.js'

/** One algorithm's counter in process memory. It is changed in place, so that a check creates no garbage. */
export interface MemoryCounter {
  readonly algorithm: Algorithm
  /** The time at which the client's usage is 0. The store sets it, and `blocks`. */
  resetAtMs: number
  /** Whether the client's last check was refused. */
  blocks: boolean
  /** The counter of another algorithm under the same key. */
  next: MemoryCounter | undefined
  check(policy: Policy, cost: number, nowMs: number): Decision
  settle(settlement: Settlement): void
  /** Returns the counter as at most `COUNTER_NUMBERS` numbers. */
  numbers(): readonly number[]
  /** Restores the counter from the result of `numbers`. */
  restore(numbers: Iterable<number>): void
}

/** The most numbers in any algorithm's counter. */
export const COUNTER_NUMBERS = 5

export function newEntry(algorithm: Algorithm): MemoryCounter {
  if (algorithm === 'fixed_window') return new FixedWindowEntry()
  return algorithm === 'sliding_window' ? new SlidingWindowEntry() : new BucketEntry(algorithm)
}

// A new entry is all zeros, a counter without a period: the first check replaces it by a new counter.

class FixedWindowEntry implements MemoryCounter, FixedWindowCounter {
  resetAtMs = 0
  blocks = false
  next: MemoryCounter | undefined
  count = 0
  startMs = 0
  endMs = 0

  get algorithm(): Algorithm {
    return 'fixed_window'
  }

  check(policy: Policy, cost: number, nowMs: number): Decision {
    const { count, startMs, endMs } = advanceFixedWindow(this, policy.periodMs, cost, nowMs)
    this.count = count
    this.startMs = startMs
    this.endMs = endMs
    return decideFixedWindow(policy, count, endMs, cost, nowMs)
  }

  settle(settlement: Settlement): void {
    Object.assign(this, settleFixedWindow(this, settlement))
  }

  numbers(): readonly number[] {
    return [this.count, this.startMs, this.endMs]
  }

  restore([count = 0, startMs = 0, endMs = 0]: Iterable<number>): void {
    this.count = count
    this.startMs = startMs
    this.endMs = endMs
  }
}

class SlidingWindowEntry implements MemoryCounter, SlidingWindowCounter {
  resetAtMs = 0
  blocks = false
  next: MemoryCounter | undefined
  periodMs = 0
  cellStartMs = 0
  checkedMs = 0
  previous = 0
  current = 0

  get algorithm(): Algorithm {
    return 'sliding_window'
  }

  check(policy: Policy, cost: number, nowMs: number): Decision {
    const { counter, decision } = checkSlidingWindow(this, policy, cost, nowMs)
    this.periodMs = counter.periodMs
    this.cellStartMs = counter.cellStartMs
    this.checkedMs = counter.checkedMs
    this.previous = counter.previous
    this.current = counter.current
    return decision
  }

  settle(settlement: Settlement): void {
    Object.assign(this, settleSlidingWindow(this, settlement))
  }

  numbers(): readonly number[] {
    return [this.periodMs, this.cellStartMs, this.checkedMs, this.previous, this.current]
  }

  restore([periodMs = 0, cellStartMs = 0, checkedMs = 0, previous = 0, current = 0]: Iterable<number>): void {
    this.periodMs = periodMs
    this.cellStartMs = cellStartMs
    this.checkedMs = checkedMs
    this.previous = previous
    this.current = current
  }
}

/** A token bucket or a leaky bucket. */
class BucketEntry implements MemoryCounter, BucketCounter {
  readonly algorithm: Algorithm
  resetAtMs = 0
  blocks = false
  next: MemoryCounter | undefined
  periodMs = 0
  drainLimit = 0
  used = 0
  fraction = 0
  checkedMs = 0

  constructor(algorithm: Algorithm) {
    this.algorithm = algorithm
  }

  check(policy: Policy, cost: number, nowMs: number): Decision {
    const checkBucket = this.algorithm === 'token_bucket' ? checkTokenBucket : checkLeakyBucket
    const { counter, decision } = checkBucket(this, policy, cost, nowMs)
    this.periodMs = counter.periodMs
    this.drainLimit = counter.drainLimit
    this.used = counter.used
    this.fraction = counter.fraction
    this.checkedMs = counter.checkedMs
    return decision
  }

  settle(settlement: Settlement): void {
    Object.assign(this, settleBucket(this, settlement))
  }

  numbers(): readonly number[] {
    return [this.periodMs, this.drainLimit, this.used, this.fraction, this.checkedMs]
  }

  restore([periodMs = 0, drainLimit = 0, used = 0, fraction = 0, checkedMs = 0]: Iterable<number>): void {
    this.periodMs = periodMs
    this.drainLimit = drainLimit
    this.used = used
    this.fraction = fraction
    this.checkedMs = checkedMs
  }
}
