import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { advanceFixedWindow, decideFixedWindow, type FixedWindowCounter } from '../../src/limiter/fixed-window.js'

const PERIOD_MS = 60_000
const START_MS = 1_705_161_600_000

/** What a client sees, check by check: when, how much, and what has to come of it. */
const STEPS: readonly (readonly [
  nowMs: number,
  cost: number,
  allowed: boolean,
  count: number,
  retryAfterMs: number,
])[] = [
  [45_000, 1, true, 1, 0], // the first of a window that is 45 s old
  [45_000, 1, true, 2, 0], // the same moment counts as well
  [59_000, 1, true, 3, 0], // the limit itself is allowed
  [59_000, 1, false, 4, 1_000], // one more is not
  [59_999, 1, false, 5, 1], // refused ones are counted, the wait shrinks
  [58_000, 1, false, 6, 2_000], // a clock that goes back stays in the window
  [60_000, 1, true, 1, 0], // the next window begins on the minute
  [50_000, 1, true, 2, 0], // and is not left again, although the clock is before it
  [180_000, 3, true, 3, 0], // idle windows leave nothing behind
  [180_000, 1, false, 4, 60_000],
]

describe('a fixed window of 3 per minute', () => {
  test('answers step by step as the table says', () => {
    const policy = { algorithm: 'fixed_window', limit: 3, periodMs: PERIOD_MS } as const
    let counter: FixedWindowCounter | undefined
    for (const [offsetMs, cost, allowed, count, retryAfterMs] of STEPS) {
      const nowMs = START_MS + offsetMs
      counter = advanceFixedWindow(counter, PERIOD_MS, cost, nowMs)
      const decision = decideFixedWindow(policy, counter.count, counter.endMs, cost, nowMs)
      assert.deepEqual(
        [decision.allowed, decision.count, decision.retryAfterMs],
        [allowed, count, retryAfterMs],
        `at ${offsetMs}`,
      )
      assert.equal(decision.remaining, Math.max(0, 3 - count))
    }
  })

  test('is aligned to the epoch: at 1705161645 it ends at 1705161660', () => {
    assert.deepEqual(advanceFixedWindow(undefined, PERIOD_MS, 1, 1_705_161_645_000), {
      count: 1,
      startMs: 1_705_161_600_000,
      endMs: 1_705_161_660_000,
    })
  })
})
