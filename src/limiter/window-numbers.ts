import type { Settlement } from './algorithm.js'
import type { BucketCounter } from './bucket.js'
import { type FixedWindowCounter, settleFixedWindow } from './fixed-window.js'
import { windowEndMs } from './period.js'
import { type SlidingWindowCounter, settleSlidingWindow } from './sliding-window.js'

/** A window of a counter in the form in which stores keep it: integers, the first of them its period. */
export type WindowNumbers = readonly number[]

/** The state that a store keeps per key: every window of the last check, in any order. */
export type WindowsCounter = readonly WindowNumbers[]

// By index, since destructuring an array takes several times as long.

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
  }
}

export function writeBucket({ periodMs, checkedMs, drainLimit, used, fraction }: BucketCounter): WindowNumbers {
  return [periodMs, checkedMs, drainLimit, used, fraction]
}

/** Returns what a settlement leaves of a counter. Buckets get nothing back. */
export function settleWindows(counter: WindowsCounter, settlement: Settlement): WindowsCounter {
  const { algorithm, periodMs } = settlement.policy
  return counter.map((numbers) => {
    if (numbers[0] !== periodMs) return numbers
    if (algorithm === 'fixed_window') {
      const window = readFixedWindow(numbers)
      return writeFixedWindow({ ...window, ...settleFixedWindow(window, settlement) }, periodMs)
    }
    if (algorithm !== 'sliding_window') return numbers
    const window = readSlidingWindow(numbers)
    return writeSlidingWindow({ ...window, ...settleSlidingWindow(window, settlement) })
  })
}
