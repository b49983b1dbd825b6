import type { Algorithm, Checked, Decision, NamedWindow, Policy } from './algorithm.js'
import type { BucketCounter } from './bucket.js'
import { checkFixedWindow, type FixedWindowCounter } from './fixed-window.js'
import { checkLeakyBucket } from './leaky-bucket.js'
import { checkSlidingWindow, type SlidingWindowCounter } from './sliding-window.js'
import { checkTokenBucket } from './token-bucket.js'

/** A window of a counter in the form in which stores keep it: integers, the first of them its period. */
export type WindowNumbers = readonly number[]

/** The state that a store keeps per key: every window of the last check, in any order. */
export type WindowsCounter = readonly WindowNumbers[]

type CheckFunction<Counter> = (
  counter: Counter | undefined,
  policy: Policy,
  cost: number,
  nowMs: number,
) => Checked<Counter>

/** How an algorithm checks one window, and how its counter is written as numbers. */
interface Form<Counter> {
  readonly check: CheckFunction<Counter>
  readonly read: (numbers: WindowNumbers) => Counter
  readonly write: (counter: Counter, periodMs: number) => WindowNumbers
  /** Whether a check counts in every window although one of them refuses it. */
  readonly countsRefused: boolean
}

/** Creates the check of one window, from numbers. */
function bucketForm(check: CheckFunction<BucketCounter>): Form<BucketCounter> {
  return { check, read: readBucket, write: writeBucket, countsRefused: false }
}

export function readFixedWindow([periodMs = 0, startMs = 0, count = 0, endMs = startMs + periodMs]: WindowNumbers) {
  return { startMs, endMs, count } satisfies FixedWindowCounter
}

export function writeFixedWindow({ startMs, count, endMs }: FixedWindowCounter, periodMs: number): WindowNumbers {
  return [periodMs, startMs, count, endMs]
}

export function readSlidingWindow(numbers: WindowNumbers): SlidingWindowCounter {
  const [periodMs = 0, cellStartMs = 0, checkedMs = 0, previous = 0, current = 0] = numbers
  return { periodMs, cellStartMs, checkedMs, previous, current }
}

export function writeSlidingWindow(counter: SlidingWindowCounter): WindowNumbers {
  const { periodMs, cellStartMs, checkedMs, previous, current } = counter
  return [periodMs, cellStartMs, checkedMs, previous, current]
}

export function readBucket([periodMs = 0, checkedMs = 0, drainLimit = 0, used = 0, fraction = 0]: WindowNumbers) {
  return { periodMs, checkedMs, drainLimit, used, fraction } satisfies BucketCounter
}

export function writeBucket({ periodMs, checkedMs, drainLimit, used, fraction }: BucketCounter): WindowNumbers {
  return [periodMs, checkedMs, drainLimit, used, fraction]
}

/** The checks of policies with several windows, which hold for those with one as well. */
export const WINDOW_CHECKS: Readonly<Record<Algorithm, CheckFunction<WindowsCounter>>> = {
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
  token_bucket: createWindowsCheck(bucketForm(checkTokenBucket)),
  leaky_bucket: createWindowsCheck(bucketForm(checkLeakyBucket)),
}

/**
 * Creates the check of several windows from that of one: a check is allowed when every window allows it. A fixed window
 * counts it in any case; with the other algorithms one that any window refuses costs nothing in all of them.
 *
 * A window keeps its state as long as its period is among those of each check; other periods are forgotten.
 */
function createWindowsCheck<Counter>(form: Form<Counter>): CheckFunction<WindowsCounter> {
  return function checkWindows(counter, policy, cost, nowMs) {
    const { algorithm } = policy
    const windows: readonly Pick<NamedWindow, 'limit' | 'periodMs'>[] = policy.windows ?? [policy]
    const checkOne = ({ limit, periodMs }: (typeof windows)[number], used: number) => {
      const numbers = counter?.find(([period]) => period === periodMs)
      const before = numbers === undefined ? undefined : form.read(numbers)
      return form.check(before, { algorithm, limit, periodMs }, used, nowMs)
    }
    const asked = windows.map((window) => checkOne(window, cost))
    const isRefused = asked.some(({ decision }) => !decision.allowed)
    const checked =
      isRefused && !form.countsRefused
        ? windows.map((window, index) => (asked[index]?.decision.allowed ? checkOne(window, 0) : asked[index]))
        : asked
    const counters = windows.flatMap(({ periodMs }, index) => {
      const after = checked[index]?.counter
      return after === undefined ? [] : [form.write(after, periodMs)]
    })
    const told = asked
      .map(({ decision }, index) => ({ decision, periodMs: windows[index]?.periodMs ?? 0 }))
      .reduce(moreTelling).decision
    if (policy.windows === undefined) return { counter: counters, decision: told }
    const states = checked.flatMap((one) => (one === undefined ? [] : [toState(one.decision)]))
    return { counter: counters, decision: { ...told, windows: states } }
  }
}

function toState({ limit, remaining, resetMs }: Decision): { limit: number; remaining: number; resetMs: number } {
  return { limit, remaining, resetMs }
}

interface DecidedWindow {
  readonly decision: Decision
  readonly periodMs: number
}

/**
 * Returns the window that a decision tells of: the one that refuses, of two the one with the longer wait, and of equal
 * waits the longer one; where both allow, the one with the smaller share left.
 */
function moreTelling(one: DecidedWindow, other: DecidedWindow): DecidedWindow {
  const [a, b] = [one.decision, other.decision]
  if (a.allowed && b.allowed) return b.remaining * a.limit < a.remaining * b.limit ? other : one
  if (a.allowed || b.allowed) return a.allowed ? other : one
  const [waitA, waitB] = [waitOf(a), waitOf(b)]
  return waitB > waitA || (waitB === waitA && other.periodMs > one.periodMs) ? other : one
}

function waitOf({ retryAfterMs }: Decision): number {
  return retryAfterMs ?? Number.POSITIVE_INFINITY
}

/** Returns the milliseconds until the client's usage is 0 in every window. */
export function longestResetMs({ resetMs, windows }: Decision): number {
  return windows === undefined ? resetMs : Math.max(...windows.map((window) => window.resetMs))
}
