import {
  type Decision,
  isPlain,
  isRate,
  type Policy,
  type RateAlgorithm,
  type RatePolicy,
  type Settlement,
} from '../../algorithm.js'
import { type BucketCounter, checkBucket } from '../../bucket.js'
import { advanceFixedWindow, decideFixedWindow, type FixedWindowCounter } from '../../fixed-window.js'
import { checkSlidingWindow, type SlidingWindowCounter } from '../../sliding-window.js'
import {
  longestResetMs,
  readBucket,
  readFixedWindow,
  readSlidingWindow,
  settleWindows,
  WINDOW_CHECKS,
  type WindowNumbers,
  type WindowsCounter,
  writeBucket,
  writeFixedWindow,
  writeSlidingWindow,
} from '../../windows.js'

/** The algorithm of a counter with one window, and `several:` before it for policies that list their windows. */
export type CounterForm = RateAlgorithm | `several:${RateAlgorithm}`

export function formFor({ algorithm, windows }: RatePolicy): CounterForm {
  return windows === undefined ? algorithm : `several:${algorithm}`
}

/** A counter of one algorithm in process memory. It is changed in place, so that a check creates no garbage. */
export interface MemoryCounter {
  /** The form of the counter: windows of one algorithm, one or several. */
  readonly form: CounterForm
  readonly algorithm: RateAlgorithm
  /** The time at which the client's usage is 0. */
  readonly resetAtMs: number
  /** Whether the client's last check that took anything was refused, or left nothing as a charge. */
  readonly blocks: boolean
  /** The counter of another algorithm under the same key. */
  next: MemoryCounter | undefined
  /** Decides, and notes the outcome. */
  check(policy: Policy, cost: number, nowMs: number, charges?: boolean): Decision
  settle(settlement: Settlement): void
  windows(): WindowsCounter
}

const NO_WINDOWS: WindowsCounter = []
const NO_NUMBERS: WindowNumbers = []

/**
 * Creates the counter of a policy. It goes on with windows of the same periods.
 *
 * @throws RangeError for a policy that counts requests in progress, which has no windows
 */
export function newEntry(policy: Policy, windows: WindowsCounter = NO_WINDOWS): MemoryCounter {
  if (!isRate(policy)) throw new RangeError('requests in progress are not counted in windows')
  const { algorithm } = policy
  if (!isPlain(policy)) return new WindowsEntry(algorithm, windows)
  const numbers = windows.find(([periodMs]) => periodMs === policy.periodMs) ?? NO_NUMBERS
  switch (algorithm) {
    case 'fixed_window':
      return new FixedWindowEntry(numbers)
    case 'sliding_window':
      return new SlidingWindowEntry(numbers)
    case 'token_bucket':
    case 'leaky_bucket':
      return new BucketEntry(algorithm, numbers)
  }
}

// An entry without numbers is all zeros, a counter without a period: the first check replaces it by a new counter.

class FixedWindowEntry implements MemoryCounter, FixedWindowCounter {
  readonly form = 'fixed_window'
  blocks = false
  next: MemoryCounter | undefined
  count = 0
  endMs = 0
  // V8 keeps a number as large as a moment outside of its object: with the length a check need not fetch `startMs`.
  lengthMs = 0
  startMs = 0

  constructor(numbers: WindowNumbers) {
    if (numbers !== NO_NUMBERS) this.#restore([numbers])
  }

  get algorithm(): RateAlgorithm {
    return this.form
  }

  get resetAtMs(): number {
    return this.endMs
  }

  check(policy: Policy, cost: number, nowMs: number, charges?: boolean): Decision {
    // Within its window it is advanced in place.
    const leftMs = this.endMs - nowMs
    if (leftMs > 0 && leftMs <= this.lengthMs && this.lengthMs === policy.periodMs) this.count += cost
    else this.#replace(advanceFixedWindow(this, policy.periodMs, cost, nowMs))
    const decision = decideFixedWindow(policy, this.count, this.endMs, cost, nowMs, charges)
    if (cost > 0) this.blocks = charges ? decision.remaining === 0 : !decision.allowed
    return decision
  }

  settle(settlement: Settlement): void {
    this.#restore(settleWindows(this.windows(), settlement))
  }

  windows(): WindowsCounter {
    return [writeFixedWindow(this, this.lengthMs)]
  }

  #restore([numbers = NO_NUMBERS]: WindowsCounter): void {
    this.#replace(readFixedWindow(numbers))
  }

  #replace({ count, startMs, endMs }: FixedWindowCounter): void {
    this.count = count
    this.startMs = startMs
    this.endMs = endMs
    this.lengthMs = endMs - startMs
  }
}

class SlidingWindowEntry implements MemoryCounter, SlidingWindowCounter {
  readonly form = 'sliding_window'
  resetAtMs = 0
  blocks = false
  next: MemoryCounter | undefined
  periodMs = 0
  cellStartMs = 0
  checkedMs = 0
  previous = 0
  current = 0

  constructor(numbers: WindowNumbers) {
    if (numbers !== NO_NUMBERS) Object.assign(this, readSlidingWindow(numbers))
  }

  get algorithm(): RateAlgorithm {
    return this.form
  }

  check(policy: Policy, cost: number, nowMs: number, charges?: boolean): Decision {
    const { counter, decision } = checkSlidingWindow(this, policy, cost, nowMs, charges)
    this.periodMs = counter.periodMs
    this.cellStartMs = counter.cellStartMs
    this.checkedMs = counter.checkedMs
    this.previous = counter.previous
    this.current = counter.current
    this.resetAtMs = nowMs + decision.resetMs
    if (cost > 0) this.blocks = charges ? decision.remaining === 0 : !decision.allowed
    return decision
  }

  settle(settlement: Settlement): void {
    const [numbers = NO_NUMBERS] = settleWindows(this.windows(), settlement)
    Object.assign(this, readSlidingWindow(numbers))
  }

  windows(): WindowsCounter {
    return [writeSlidingWindow(this)]
  }
}

/** A token bucket or a leaky bucket. */
class BucketEntry implements MemoryCounter, BucketCounter {
  readonly form: RateAlgorithm
  resetAtMs = 0
  blocks = false
  next: MemoryCounter | undefined
  periodMs = 0
  drainLimit = 0
  used = 0
  fraction = 0
  checkedMs = 0
  taken = 0

  constructor(algorithm: RateAlgorithm, numbers: WindowNumbers) {
    this.form = algorithm
    if (numbers !== NO_NUMBERS) Object.assign(this, readBucket(numbers))
  }

  get algorithm(): RateAlgorithm {
    return this.form
  }

  check(policy: Policy, cost: number, nowMs: number, charges?: boolean): Decision {
    const { counter, decision } = checkBucket(this, policy, cost, nowMs, charges)
    this.periodMs = counter.periodMs
    this.drainLimit = counter.drainLimit
    this.used = counter.used
    this.fraction = counter.fraction
    this.checkedMs = counter.checkedMs
    this.taken = counter.taken
    this.resetAtMs = nowMs + decision.resetMs
    if (cost > 0) this.blocks = charges ? decision.remaining === 0 : !decision.allowed
    return decision
  }

  settle(settlement: Settlement): void {
    const [numbers = NO_NUMBERS] = settleWindows(this.windows(), settlement)
    Object.assign(this, readBucket(numbers))
  }

  windows(): WindowsCounter {
    return [writeBucket(this)]
  }
}

/** The windows of policies that list them. */
class WindowsEntry implements MemoryCounter {
  readonly algorithm: RateAlgorithm
  resetAtMs = 0
  blocks = false
  next: MemoryCounter | undefined
  #windows: WindowsCounter

  constructor(algorithm: RateAlgorithm, windows: WindowsCounter) {
    this.algorithm = algorithm
    this.#windows = windows
  }

  get form(): CounterForm {
    return `several:${this.algorithm}`
  }

  check(policy: Policy, cost: number, nowMs: number, charges?: boolean): Decision {
    const { counter, decision } = WINDOW_CHECKS[this.algorithm](this.#windows, policy, cost, nowMs, charges)
    this.#windows = counter
    this.resetAtMs = nowMs + longestResetMs(decision)
    if (cost > 0) this.blocks = charges ? decision.remaining === 0 : !decision.allowed
    return decision
  }

  settle(settlement: Settlement): void {
    this.#windows = settleWindows(this.#windows, settlement)
  }

  windows(): WindowsCounter {
    return this.#windows
  }
}
