import { type Algorithm, type Decision, isPlain, type Policy, type Settlement } from '../limiter/algorithm.js'
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
import {
  WINDOW_CHECKS,
  type WindowNumbers,
  type WindowsCounter,
  writeBucket,
  writeFixedWindow,
  writeSlidingWindow,
} from '../limiter/windows.js'

/** One algorithm's counter in process memory. It is changed in place, so that a check creates no garbage. */
export interface MemoryCounter {
  readonly algorithm: Algorithm
  /** Whether it is the counter of policies that list their windows. */
  readonly listsWindows: boolean
  /** The time at which the client's usage is 0. The store sets it, and `blocks`. */
  resetAtMs: number
  /** Whether the client's last check was refused. */
  blocks: boolean
  /** The counter of another algorithm under the same key. */
  next: MemoryCounter | undefined
  check(policy: Policy, cost: number, nowMs: number): Decision
  settle(settlement: Settlement): void
  /** Returns the windows, each as at most `WINDOW_NUMBERS` numbers. */
  windows(): WindowsCounter
}

/** The most numbers in any algorithm's window. */
export const WINDOW_NUMBERS = 5
/** The most windows in a counter. */
export const MAX_WINDOWS = 4

/** Creates the counter of a policy. It goes on with windows of the same periods. */
export function newEntry(policy: Policy, windows: WindowsCounter = []): MemoryCounter {
  const { algorithm } = policy
  if (!isPlain(policy)) return new WindowsEntry(algorithm, windows)
  const numbers = windows.find(([periodMs]) => periodMs === policy.periodMs) ?? []
  if (algorithm === 'fixed_window') return new FixedWindowEntry(numbers)
  return algorithm === 'sliding_window' ? new SlidingWindowEntry(numbers) : new BucketEntry(algorithm, numbers)
}

// Without numbers an entry is all zeros, a counter without a period: the first check replaces it by a new counter.

class FixedWindowEntry implements MemoryCounter, FixedWindowCounter {
  resetAtMs = 0
  blocks = false
  next: MemoryCounter | undefined
  count: number
  startMs: number
  endMs: number

  constructor([, startMs = 0, count = 0, endMs = 0]: WindowNumbers) {
    this.count = count
    this.startMs = startMs
    this.endMs = endMs
  }

  get algorithm(): Algorithm {
    return 'fixed_window'
  }

  get listsWindows(): boolean {
    return false
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

  windows(): WindowsCounter {
    return [writeFixedWindow(this, this.endMs - this.startMs)]
  }
}

class SlidingWindowEntry implements MemoryCounter, SlidingWindowCounter {
  resetAtMs = 0
  blocks = false
  next: MemoryCounter | undefined
  periodMs: number
  cellStartMs: number
  checkedMs: number
  previous: number
  current: number

  constructor([periodMs = 0, cellStartMs = 0, checkedMs = 0, previous = 0, current = 0]: WindowNumbers) {
    this.periodMs = periodMs
    this.cellStartMs = cellStartMs
    this.checkedMs = checkedMs
    this.previous = previous
    this.current = current
  }

  get algorithm(): Algorithm {
    return 'sliding_window'
  }

  get listsWindows(): boolean {
    return false
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

  windows(): WindowsCounter {
    return [writeSlidingWindow(this)]
  }
}

/** A token bucket or a leaky bucket. */
class BucketEntry implements MemoryCounter, BucketCounter {
  readonly algorithm: Algorithm
  resetAtMs = 0
  blocks = false
  next: MemoryCounter | undefined
  periodMs: number
  drainLimit: number
  used: number
  fraction: number
  checkedMs: number

  constructor(
    algorithm: Algorithm,
    [periodMs = 0, checkedMs = 0, drainLimit = 0, used = 0, fraction = 0]: WindowNumbers,
  ) {
    this.algorithm = algorithm
    this.periodMs = periodMs
    this.drainLimit = drainLimit
    this.used = used
    this.fraction = fraction
    this.checkedMs = checkedMs
  }

  get listsWindows(): boolean {
    return false
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

  windows(): WindowsCounter {
    return [writeBucket(this)]
  }
}

/** The windows of policies that list them. */
class WindowsEntry implements MemoryCounter {
  readonly algorithm: Algorithm
  resetAtMs = 0
  blocks = false
  next: MemoryCounter | undefined
  #windows: WindowsCounter

  constructor(algorithm: Algorithm, windows: WindowsCounter) {
    this.algorithm = algorithm
    this.#windows = windows
  }

  get listsWindows(): boolean {
    return true
  }

  check(policy: Policy, cost: number, nowMs: number): Decision {
    const { counter, decision } = WINDOW_CHECKS[this.algorithm](this.#windows, policy, cost, nowMs)
    this.#windows = counter
    return decision
  }

  /** Nothing is taken of such a counter that could be given back. */
  settle(): void {}

  windows(): WindowsCounter {
    return this.#windows
  }
}
