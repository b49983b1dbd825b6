import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { type BucketCounter, checkBucket } from '../../src/limiter/bucket.js'
import type { Step } from '../support/steps.js'

const PERIOD_MS = 60_000
const START_MS = 1_705_161_600_000
const LIMIT = 3

/** What a client sees, check by check: when, how much of which limit, and what has to come of it. */
const TOKEN_BUCKET: readonly Step[] = [
  [0, 1, LIMIT, true, 1, 2, 20_000, 0], // full at first; a token returns every 20 s
  [0, 2, LIMIT, true, 3, 0, 60_000, 0], // a burst may take all
  [0, 1, LIMIT, false, 4, 0, 60_000, 20_000],
  [5_000, 3, LIMIT, false, 4, 0, 55_000, 55_000], // refused checks take nothing: the wait only shrinks
  [-5_000, 1, LIMIT, false, 4, 0, 65_000, 25_000], // a clock that goes back: the wait grows by as much
  [19_999, 1, LIMIT, false, 4, 0, 40_001, 1], // 0.99995 tokens are none
  [20_000, 1, LIMIT, true, 3, 0, 60_000, 0],
  [50_000, 1, LIMIT, true, 3, 0, 50_000, 0], // 1.5 tokens returned; the half is kept
  [60_000, 1, LIMIT, true, 3, 0, 60_000, 0], // and makes a whole one with the next half
  [60_000, 2, 6, true, 5, 1, 50_000, 0], // a raised limit knows what was used, and returns twice as much
  [60_000, 1, 2, false, 3, 0, 50_000, 40_000], // a lowered one has to wait until 1 is used, at the pace of before
  [90_000, 3, 6, true, 5, 1, 50_000, 0], // 30 s at that pace: 3 tokens
  [90_000, 7, 6, false, 7, 1, 50_000, null], // more than the bucket ever holds
  [90_000, 1, 0, false, 1, 0, 50_000, null], // a bucket that never holds any
  [200_000, 1, LIMIT, true, 1, 2, 20_000, 0], // full again, and no fuller than full
]

/** The same from the other side: how full the bucket is. */
const LEAKY_BUCKET: readonly Step[] = [
  [0, 1, LIMIT, true, 1, 2, 20_000, 0], // empty at first; 1 leaks out in 20 s
  [0, 2, LIMIT, true, 3, 0, 60_000, 0], // filled to the brim
  [0, 1, LIMIT, false, 4, 0, 60_000, 20_000], // would overflow, and is not poured in
  [-5_000, 1, LIMIT, false, 4, 0, 65_000, 25_000], // nothing flows back when the clock does
  [30_000, 1, LIMIT, true, 3, 0, 50_000, 0], // 1.5 leaked out: 1.5 + 1 leave no room for another one
  [30_000, 1, LIMIT, false, 4, 0, 50_000, 10_000],
  [40_000, 1, LIMIT, true, 3, 0, 60_000, 0],
  [40_000, 1, 1, false, 2, 0, 60_000, 60_000], // a smaller bucket: all has to leak out first, in one period
  [100_000, 1, 1, true, 1, 0, 60_000, 0],
  [110_000, 1, LIMIT, true, 2, 1, 36_667, 0], // 1/6 leaked out while the limit was 1; 11/6 need 36.7 s
]

function assertSteps(algorithm: 'token_bucket' | 'leaky_bucket', steps: readonly Step[]): void {
  let counter: BucketCounter | undefined
  for (const [offsetMs, cost, limit, ...expected] of steps) {
    const checked = checkBucket(counter, { algorithm, limit, periodMs: PERIOD_MS }, cost, START_MS + offsetMs)
    counter = checked.counter
    const { allowed, count, remaining, resetMs, retryAfterMs } = checked.decision
    assert.deepEqual([allowed, count, remaining, resetMs, retryAfterMs], expected, `${cost} at ${offsetMs}`)
  }
}

describe('a token bucket of 3 per minute', () => {
  test('answers step by step as the table says', () => {
    assertSteps('token_bucket', TOKEN_BUCKET)
  })

  test('of 100 has 90 left when 10 are taken', () => {
    const policy = { algorithm: 'token_bucket', limit: 100, periodMs: PERIOD_MS } as const
    assert.equal(checkBucket(undefined, policy, 10, START_MS).decision.remaining, 90)
  })

  test('gives back every token of the highest limit over the longest period, at its millisecond', () => {
    const [limit, periodMs] = [2_147_483_647, 366 * 86_400_000]
    const policy = { algorithm: 'token_bucket', limit, periodMs } as const
    let { counter } = checkBucket(undefined, policy, limit, START_MS)
    // A token takes 14.725... ms: 15, 30, 45, 59, ...
    for (const [token, dueMs] of [15, 30, 45, 59, 74, 89].entries()) {
      assert.equal(checkBucket(counter, policy, 1, START_MS + dueMs - 1).decision.retryAfterMs, 1, `token ${token}`)
      const checked = checkBucket(counter, policy, 1, START_MS + dueMs)
      assert.equal(checked.decision.allowed, true, `token ${token}`)
      counter = checked.counter
    }
  })
})

describe('a leaky bucket of 3 per minute', () => {
  test('answers step by step as the table says', () => {
    assertSteps('leaky_bucket', LEAKY_BUCKET)
  })
})
