/** The pure functions of requests in progress, and how the limiter passes on what ends. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { MINUTE_MS } from '../../src/ground/time/clock.js'
import type { Check, Settlement } from '../../src/limiter/algorithm.js'
import type { BatchStore } from '../../src/limiter/batch-store.js'
import { type ConcurrencyCounter, checkConcurrency, settleConcurrency } from '../../src/limiter/concurrency.js'
import { decideWithoutStore } from '../../src/limiter/fallback.js'
import { createSafeLimiter } from '../../src/limiter/safe-limiter.js'
import { PASSES } from '../support/fallbacks.js'
import { fc } from '../support/properties.js'

const POLICY = { algorithm: 'concurrency', limit: 5, periodMs: MINUTE_MS } as const
const START_MS = 1_705_161_615_000

type Step =
  | { readonly does: 'take'; readonly cost: number; readonly waitMs: number }
  | { readonly does: 'end'; readonly which: number; readonly again: boolean; readonly waitMs: number }

const waitMs = fc.oneof({ weight: 5, arbitrary: fc.nat(10_000) }, { weight: 1, arbitrary: fc.nat(90_000) })
const steps = fc.array(
  fc.oneof(
    fc.record({ does: fc.constant('take' as const), cost: fc.integer({ min: 0, max: 3 }), waitMs }),
    fc.record({ does: fc.constant('end' as const), which: fc.nat(50), again: fc.boolean(), waitMs }),
  ),
  { maxLength: 80, size: 'max' },
)

test('what is counted is what was let through within the period and has not ended, on any trace', () => {
  fc.assert(
    fc.property(steps, (trace: readonly Step[]) => {
      let counter: ConcurrencyCounter | undefined
      let nowMs = START_MS
      const requests: { readonly permit: number; readonly cost: number; readonly sinceMs: number; ended: boolean }[] =
        []
      const inProgress = () =>
        requests
          .filter(({ sinceMs, ended }) => !ended && nowMs < sinceMs + MINUTE_MS)
          .reduce((sum, { cost }) => sum + cost, 0)
      for (const [permit, step] of trace.entries()) {
        nowMs += step.waitMs
        if (step.does === 'take') {
          const { cost } = step
          const before = inProgress()
          const checked = checkConcurrency(counter, { key: 'a', policy: POLICY, cost, permit }, nowMs)
          counter = checked.counter
          const { allowed, count, remaining } = checked.decision
          assert.deepEqual([allowed, count], [before + Math.max(1, cost) <= POLICY.limit, before + cost])
          if (allowed) requests.push({ permit, cost, sinceMs: nowMs, ended: false })
          assert.equal(remaining, Math.max(0, POLICY.limit - inProgress()))
        } else {
          const request = requests[step.which % (requests.length || 1)]
          if (request === undefined || counter === undefined) continue
          request.ended = true
          counter = settleConcurrency(counter, request.permit)
          if (step.again) counter = settleConcurrency(counter, request.permit)
        }
      }
    }),
  )
})

test('a clock that steps back ends no permit early, and one ahead of others keeps its lead while it has permits', () => {
  const take = (counter: ConcurrencyCounter | undefined, permit: number, nowMs: number) =>
    checkConcurrency(counter, { key: 'a', policy: POLICY, cost: 1, permit }, nowMs).counter
  const first = take(undefined, 1, START_MS)
  const back = take(first, 2, START_MS - 30_000)
  assert.deepEqual(
    back.taken.map(({ untilMs }) => untilMs - START_MS),
    [MINUTE_MS, MINUTE_MS],
  )
  const emptied = settleConcurrency(settleConcurrency(back, 1), 2)
  assert.equal(take(emptied, 3, START_MS - 30_000).taken[0]?.untilMs, START_MS + 30_000)
})

test('what ends is sent in the batches of checks, beside these', async () => {
  const { limiter, calls } = createCounted()
  const taken = Array.from({ length: 3 }, (_, permit) => ({ key: 'a', policy: POLICY, cost: 1, permit }))
  await Promise.all(taken.map((check) => limiter.check(check, START_MS)))
  await Promise.all([
    ...taken.map((check) => limiter.settle(check, START_MS)),
    limiter.check({ key: 'b', policy: POLICY, cost: 1, permit: 9 }, START_MS),
  ])
  assert.deepEqual(calls, [
    ['check', 3],
    ['settle', 3],
    ['check', 1],
  ])
})

test('a store that has failed is tried with a check that takes nothing', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const { limiter, seenChecks, fail } = createCounted()
  const check = { key: 'a', policy: POLICY, cost: 2, permit: 1 }
  fail(true)
  await limiter.check(check, START_MS)
  assert.equal(limiter.storeIsDown, true)
  fail(false)
  t.mock.timers.tick(1_000)
  assert.deepEqual(
    seenChecks.map(({ cost }) => cost),
    [2, 0],
  )
})

/** Creates a limiter on a store that lets everything through, and the checks that it has seen. */
function createCounted() {
  const calls: [string, number][] = []
  const seenChecks: Check[] = []
  let fails = false
  const store: BatchStore = {
    concurrency: 2,
    async check(checks) {
      calls.push(['check', checks.length])
      seenChecks.push(...checks)
      if (fails) throw new Error('no store')
      return checks.map((check) => decideWithoutStore(true, check))
    },
    async settle(settlements: readonly Settlement[]) {
      calls.push(['settle', settlements.length])
    },
    reset: () => undefined,
    resetAll: () => undefined,
  }
  const limiter = createSafeLimiter({
    store,
    fallback: PASSES,
    now: () => START_MS,
    timeoutMs: 10_000,
    log: { error: () => undefined, info: () => undefined },
  })
  return {
    limiter,
    calls,
    seenChecks,
    fail(isFailing: boolean) {
      fails = isFailing
    },
  }
}
