import {
  type Algorithm,
  type Checked,
  type Decision,
  isPlain,
  neededFor,
  type PlainPolicy,
  type Policy,
  type RateAlgorithm,
  type Settlement,
  type WindowState,
} from './algorithm.js'
import { type BucketCounter, type BucketSettlement, checkBucket, settleBucket } from './bucket.js'
import { checkFixedWindow, type FixedWindowCounter, settleFixedWindow } from './fixed-window.js'
import { windowEndMs } from './period.js'
import { checkSlidingWindow, type SlidingWindowCounter, settleSlidingWindow } from './sliding-window.js'

/** An algorithm: a check of one window, from the counter as it stands. */
export type CheckFunction<Counter> = (
  counter: Counter | undefined,
  policy: Policy,
  cost: number,
  nowMs: number,
  charges?: boolean,
) => Checked<Counter>

/** The check of one window by an algorithm, and the numbers as which its counter is written. */
interface Form<Counter> {
  readonly check: CheckFunction<Counter>
  readonly read: (numbers: WindowNumbers) => Counter
  readonly write: (counter: Counter, periodMs: number) => WindowNumbers
  /** Whether a check counts in every window although one of them refuses it. */
  readonly countsRefused: boolean
}

const checkBuckets = createWindowsCheck({
  check: checkBucket,
  read: readBucket,
  write: writeBucket,
  countsRefused: false,
})

/** The checks of policies with several windows, which hold for those with one as well. */
export const WINDOW_CHECKS: Readonly<Record<RateAlgorithm, CheckFunction<WindowsCounter>>> = {
  fixed_window: createWindowsCheck({
    check: checkFixedWindow,
    read: readFixedWindow,
    write: writeFixedWindow,
    countsRefused: true,
  }),
  sliding_window: createWindowsCheck({
    check: checkSlidingWindow,
    read: readSlidingWindow,
    write: writeSlidingWindow,
    countsRefused: false,
  }),
  token_bucket: checkBuckets,
  leaky_bucket: checkBuckets,
}

/**
 * Creates the check of several windows from that of one: a check is allowed when every window allows it. A fixed window
 * counts it in any case, unless the policy reserves; with the other algorithms one that any window refuses costs nothing in
 * all of them. A charge costs in all of them.
 *
 * A window keeps its state as long as its period is among those of each check; other periods are forgotten.
 */
function createWindowsCheck<Counter>(form: Form<Counter>): CheckFunction<WindowsCounter> {
  function checkWindow(
    counter: WindowsCounter | undefined,
    window: Policy,
    cost: number,
    nowMs: number,
    charges?: boolean,
  ) {
    const numbers = findWindow(counter, window.periodMs)
    return form.check(numbers === undefined ? undefined : form.read(numbers), window, cost, nowMs, charges)
  }

  /** Returns a window that refuses as it stands, and when it would allow the cost. */
  function reserveNothing(
    counter: WindowsCounter | undefined,
    window: Policy,
    cost: number,
    nowMs: number,
    { retryAfterMs }: Decision,
  ): Checked<Counter> {
    const standing = checkWindow(counter, window, 0, nowMs)
    const count = standing.decision.count + neededFor(cost)
    return { counter: standing.counter, decision: { ...standing.decision, allowed: false, count, retryAfterMs } }
  }

  return function checkWindows(counter, policy, cost, nowMs, charges) {
    const windows = singlePolicies(policy)
    const checked: Checked<Counter>[] = []
    let shown: Decision | undefined
    let shownPeriodMs = 0
    for (const window of windows) {
      const one = checkWindow(counter, window, cost, nowMs, charges)
      checked.push(one)
      if (shown !== undefined && !tellsMore(one.decision, window.periodMs, shown, shownPeriodMs)) continue
      shown = one.decision
      shownPeriodMs = window.periodMs
    }
    if (shown === undefined) throw new RangeError('a policy without windows')
    if (!shown.allowed && (policy.reserves || !form.countsRefused)) {
      for (const [index, window] of windows.entries()) {
        const decision = checked[index]?.decision
        if (decision === undefined) continue
        if (decision.allowed) checked[index] = checkWindow(counter, window, 0, nowMs)
        else if (policy.reserves) checked[index] = reserveNothing(counter, window, cost, nowMs, decision)
        if (decision === shown) shown = checked[index]?.decision ?? shown
      }
    }
    const counters = checked.map((one, index) => form.write(one.counter, windows[index]?.periodMs ?? 0))
    if (isPlain(policy)) return { counter: counters, decision: shown }
    const { allowed, count, limit, remaining, resetMs, retryAfterMs } = shown
    const states = checked.map(allowed ? toTakenState : toState)
    return {
      counter: counters,
      decision: { allowed, count, limit, remaining, resetMs, retryAfterMs, windows: states },
    }
  }
}

function findWindow(counter: WindowsCounter | undefined, periodMs: number): WindowNumbers | undefined {
  if (counter === undefined) return undefined
  for (const numbers of counter) if (numbers[0] === periodMs) return numbers
  return undefined
}

const SINGLE_POLICIES = new WeakMap<Policy, readonly PlainPolicy[]>()

/** Returns the windows of a policy as policies of one window each; the period of a month is `MONTH_MS`. */
export function singlePolicies(policy: Policy): readonly PlainPolicy[] {
  if (isPlain(policy)) return [policy]
  const { algorithm, windows = [] } = policy
  let policies = SINGLE_POLICIES.get(policy)
  if (policies === undefined) {
    policies = windows.map(({ limit, periodMs }) => ({ algorithm, limit, periodMs }))
    SINGLE_POLICIES.set(policy, policies)
  }
  return policies
}

function toState({ decision: { limit, remaining, resetMs, moreMs, retryAfterMs } }: Checked<unknown>): WindowState {
  return moreMs === undefined
    ? { limit, remaining, resetMs, retryAfterMs }
    : { limit, remaining, resetMs, moreMs, retryAfterMs }
}

function toTakenState(checked: Checked<unknown>): WindowState {
  const { limit, remaining, resetMs, moreMs = resetMs, retryAfterMs, taken } = checked.decision
  return taken === undefined ? toState(checked) : { limit, remaining, resetMs, moreMs, retryAfterMs, taken }
}

/**
 * Returns whether a decision tells more than another one: a refusal, of two the one with the longer wait, and of equal
 * waits that of the longer window; where both allow, the one with the smaller share left.
 */
function tellsMore(a: Decision, periodMs: number, b: Decision, otherPeriodMs: number): boolean {
  if (a.allowed && b.allowed) return hasLessLeft(a, b)
  if (a.allowed || b.allowed) return b.allowed
  const [waitA, waitB] = [refusalMs(a), refusalMs(b)]
  return waitA > waitB || (waitA === waitB && periodMs > otherPeriodMs)
}

/** Returns whether a smaller share of a window's limit is left than of another one's. */
export function hasLessLeft(a: WindowState, b: WindowState): boolean {
  return a.remaining * b.limit < b.remaining * a.limit
}

/** Returns how long a refusal lasts, for comparison: one that no waiting ends is the longest. */
export function refusalMs({ retryAfterMs }: Decision): number {
  return retryAfterMs ?? Number.POSITIVE_INFINITY
}

/** Returns the milliseconds until the client's usage is 0 in every window. */
export function longestResetMs({ resetMs, windows }: Decision): number {
  if (windows === undefined) return resetMs
  let longestMs = 0
  for (const window of windows) longestMs = Math.max(longestMs, window.resetMs)
  return longestMs
}

/**
 * Returns the index of the window that a decision tells of: of windows that are alike the longest, as in a refusal; -1
 * where it lists none.
 */
export function shownIndex({ windows = [], ...shown }: Decision, { windows: named = [] }: Policy): number {
  let found = -1
  for (const [index, { limit, remaining, resetMs }] of windows.entries()) {
    if (limit !== shown.limit || remaining !== shown.remaining || resetMs !== shown.resetMs) continue
    if (found === -1 || (named[index]?.periodMs ?? 0) > (named[found]?.periodMs ?? 0)) found = index
  }
  return found
}

/** A window of a counter in the form in which stores keep it: integers, the first of them its period. */
export type WindowNumbers = readonly number[]

/** The state that a store keeps per key: every window of the last check, in any order. */
export type WindowsCounter = readonly WindowNumbers[]

// Indexes are used, since destructuring an array takes several times as long.

export function readFixedWindow(numbers: WindowNumbers): FixedWindowCounter {
  const startMs = numbers[1] ?? 0
  return { startMs, endMs: windowEndMs(numbers[0] ?? 0, startMs), count: numbers[2] ?? 0 }
}

export function writeFixedWindow(
  { startMs, count }: Pick<FixedWindowCounter, 'startMs' | 'count'>,
  periodMs: number,
): WindowNumbers {
  return [periodMs, startMs, count]
}

export function readSlidingWindow(numbers: WindowNumbers): SlidingWindowCounter {
  return {
    periodMs: numbers[0] ?? 0,
    cellStartMs: numbers[1] ?? 0,
    checkedMs: numbers[2] ?? 0,
    previous: numbers[3] ?? 0,
    current: numbers[4] ?? 0,
  }
}

export function writeSlidingWindow(counter: SlidingWindowCounter): WindowNumbers {
  const { periodMs, cellStartMs, checkedMs, previous, current } = counter
  return [periodMs, cellStartMs, checkedMs, previous, current]
}

export function readBucket(numbers: WindowNumbers): BucketCounter {
  return {
    periodMs: numbers[0] ?? 0,
    checkedMs: numbers[1] ?? 0,
    drainLimit: numbers[2] ?? 0,
    used: numbers[3] ?? 0,
    fraction: numbers[4] ?? 0,
    taken: numbers[5] ?? 0,
  }
}

export function writeBucket({ periodMs, checkedMs, drainLimit, used, fraction, taken }: BucketCounter): WindowNumbers {
  return [periodMs, checkedMs, drainLimit, used, fraction, taken]
}

/** Returns what a settlement leaves of a counter: windows that the policy does not have stay as they are. */
export function settleWindows(counter: WindowsCounter, settlement: Settlement): WindowsCounter {
  const { cost, marks = [], checkedMs = 0 } = settlement
  const windows = singlePolicies(settlement.policy)
  return counter.map((numbers) => {
    const index = windows.findIndex(({ periodMs }) => periodMs === numbers[0])
    const [window, mark] = [windows[index], marks[index]]
    if (window === undefined || mark === undefined) return numbers
    return settleWindow(window.algorithm, numbers, { cost, mark, checkedMs, limit: window.limit })
  })
}

function settleWindow(algorithm: Algorithm, numbers: WindowNumbers, settled: BucketSettlement): WindowNumbers {
  const { cost, mark } = settled
  switch (algorithm) {
    case 'fixed_window': {
      const [window, periodMs] = [readFixedWindow(numbers), numbers[0] ?? 0]
      return writeFixedWindow({ ...window, ...settleFixedWindow(window, periodMs, cost, mark) }, periodMs)
    }
    case 'sliding_window': {
      const window = readSlidingWindow(numbers)
      return writeSlidingWindow({ ...window, ...settleSlidingWindow(window, cost, mark) })
    }
    case 'token_bucket':
    case 'leaky_bucket': {
      const bucket = readBucket(numbers)
      return writeBucket({ ...bucket, ...settleBucket(bucket, settled) })
    }
    case 'concurrency':
      return numbers
  }
}
