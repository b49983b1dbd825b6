import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { checkSlidingWindow, type SlidingWindowCounter } from '../../src/limiter/sliding-window.js'
import type { Step } from '../support/steps.js'

const PERIOD_MS = 60_000
const START_MS = 1_705_161_600_000
const LIMIT = 10

/** What a client sees, check by check: when, how much of which limit, and what has to come of it. */
const STEPS: readonly Step[] = [
  [30_000, 8, LIMIT, true, 8, 2, 90_000, 0], // counts in this cell, and in the next as what went before
  [30_000, 3, LIMIT, false, 11, 2, 90_000, 37_500], // 8 * 52.5 / 60 = 7 leave room for 3, 7.5 s into the next cell
  [30_000, 2, LIMIT, true, 10, 0, 90_000, 0], // the refused one cost nothing
  [20_000, 1, LIMIT, false, 11, 0, 100_000, 46_000], // a clock that goes back: the wait grows by as much
  [60_000, 1, LIMIT, false, 11, 0, 60_000, 6_000], // at the cell's end all of it still overlaps
  [65_999, 1, LIMIT, false, 11, 0, 54_001, 1], // 10 * 54.001 / 60 is a little above 9
  [66_000, 1, LIMIT, true, 10, 0, 114_000, 0], // exactly 9 + 1
  [66_000, 1, 20, true, 11, 9, 114_000, 0], // a raised limit knows what was used
  [66_000, 1, 5, false, 12, 0, 114_000, 42_000], // so does a lowered one: 10 * 12 / 60 + 2 leave room for 1, at 108 s
  [66_000, 6, 5, false, 17, 0, 114_000, null], // a cost above the limit
  [66_000, 1, 0, false, 12, 0, 114_000, null], // nothing is allowed
  [150_000, 1, LIMIT, true, 2, 8, 90_000, 0], // 2 * 30 / 60 = 1 from the cell before
  [240_000, 1, LIMIT, true, 1, 9, 120_000, 0], // an idle cell leaves nothing behind
]

describe('a sliding window of 10 per minute', () => {
  test('answers step by step as the table says', () => {
    let counter: SlidingWindowCounter | undefined
    for (const [offsetMs, cost, limit, ...expected] of STEPS) {
      const policy = { algorithm: 'sliding_window', limit, periodMs: PERIOD_MS } as const
      const checked = checkSlidingWindow(counter, policy, cost, START_MS + offsetMs)
      counter = checked.counter
      const { allowed, count, remaining, resetMs, retryAfterMs } = checked.decision
      assert.deepEqual([allowed, count, remaining, resetMs, retryAfterMs], expected, `${cost} at ${offsetMs}`)
    }
  })

  test('is exact where limit and period are the highest', () => {
    const [limit, periodMs] = [2_147_483_647, 366 * 86_400_000]
    const policy = { algorithm: 'sliding_window', limit, periodMs } as const
    const startMs = Math.ceil(START_MS / periodMs) * periodMs
    const { counter } = checkSlidingWindow(undefined, policy, limit, startMs)
    // One millisecond into the next cell 2147483647 * (P - 1) / P is 0.0679 less: rounded up, nothing is free.
    const { decision } = checkSlidingWindow(counter, policy, 1, startMs + periodMs + 1)
    assert.deepEqual([decision.allowed, decision.count], [false, limit + 1])
    // 15 ms: 1.0187 less.
    assert.equal(decision.retryAfterMs, 14)
    assert.equal(checkSlidingWindow(counter, policy, 1, startMs + periodMs + 15).decision.allowed, true)
  })
})
