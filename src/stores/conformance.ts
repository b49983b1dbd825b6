/**
 * Proves a store. Exported as `fastify-smart-ratelimit/testing`, for any test runner:
 *
 *     for (const { name, prove } of storeConformance) test(name, () => prove(() => new MyStore()))
 */
import assert from 'node:assert/strict'
import { MINUTE_MS } from '../clock.js'
import type { Check, Decision, Policy } from '../limiter/algorithm.js'
import { advanceFixedWindow, decideFixedWindow, type FixedWindowCounter } from '../limiter/fixed-window.js'
import type { Store } from './store.js'

export interface ConformanceCase {
  /** A sentence about what a store does. */
  readonly name: string
  /**
   * Rejects with an AssertionError when the store does otherwise.
   *
   * @param open makes a store; it may share its tables or its server with others, as keys are never used twice
   */
  prove(open: () => Store | Promise<Store>): Promise<void>
}

/** A moment 15 s into a minute. */
const NOW_MS = 1_705_161_615_000
const MAX_LIMIT = 2_147_483_647

let keys = 0
function freshKey(): string {
  return `conformance:${process.pid}:${Date.now()}:${keys++}`
}

function fixedWindow(limit: number, periodMs = MINUTE_MS): Policy {
  return { algorithm: 'fixed_window', limit, periodMs }
}

async function ask(store: Store, nowMs: number, ...checks: Check[]): Promise<Decision[]> {
  const decisions = await store.check(checks, nowMs)
  assert.equal(decisions.length, checks.length, 'one decision per check')
  return [...decisions]
}

async function askOne(store: Store, nowMs: number, key: string, policy: Policy, cost = 1): Promise<Decision> {
  const [decision] = await ask(store, nowMs, { key, policy, cost })
  assert.ok(decision !== undefined)
  return decision
}

async function times<Answer>(count: number, work: () => Promise<Answer>): Promise<Answer[]> {
  const answers: Answer[] = []
  for (let done = 0; done < count; done++) answers.push(await work())
  return answers
}

const CASES: Readonly<Record<string, (store: Store) => Promise<void>>> = {
  'allows exactly the limit and tells where the client stands': async (store) => {
    const key = freshKey()
    const decisions = await times(4, () => askOne(store, NOW_MS, key, fixedWindow(3)))
    assert.deepEqual(
      decisions.map(({ allowed, count, remaining }) => [allowed, count, remaining]),
      [
        [true, 1, 2],
        [true, 2, 1],
        [true, 3, 0],
        [false, 4, 0],
      ],
    )
    for (const { limit, resetMs } of decisions) assert.deepEqual([limit, resetMs], [3, 45_000])
    assert.equal(decisions[2]?.retryAfterMs, 0)
    assert.equal(decisions[3]?.retryAfterMs, 45_000)
  },

  'starts afresh when the window ends, not a millisecond earlier': async (store) => {
    const key = freshKey()
    await askOne(store, NOW_MS, key, fixedWindow(1))
    assert.equal((await askOne(store, NOW_MS + 44_999, key, fixedWindow(1))).allowed, false)
    const { allowed, count, resetMs } = await askOne(store, NOW_MS + 45_000, key, fixedWindow(1))
    assert.deepEqual([allowed, count, resetMs], [true, 1, 60_000])
  },

  'counts keys apart, whatever they look like': async (store) => {
    const stem = freshKey()
    const lookalikes = [
      stem,
      `${stem} `,
      `${stem}'`,
      `${stem}"`,
      `${stem}\\`,
      `${stem}é`,
      `${stem}😀`,
      `${stem}%`,
      `${stem}\0`,
      `${stem}\ud800`,
      `${stem}\ud801`,
    ]
    const long = [`${stem}${'x'.repeat(300)}a`, `${stem}${'x'.repeat(300)}b`]
    for (const key of [...lookalikes, ...long]) {
      assert.equal((await askOne(store, NOW_MS, key, fixedWindow(5))).count, 1, JSON.stringify(key))
    }
    for (const key of long) assert.equal((await askOne(store, NOW_MS, key, fixedWindow(5))).count, 2)
  },

  'answers the checks of a batch in their order': async (store) => {
    const [a, b] = [freshKey(), freshKey()]
    const checks = [a, b, a, a, b].map((key) => ({ key, policy: fixedWindow(2), cost: 1 }))
    const decisions = await ask(store, NOW_MS, ...checks)
    assert.deepEqual(
      decisions.map(({ allowed, count }) => [allowed, count]),
      [
        [true, 1],
        [true, 1],
        [true, 2],
        [false, 3],
        [true, 2],
      ],
    )
  },

  'answers an empty batch': async (store) => {
    assert.deepEqual(await ask(store, NOW_MS), [])
  },

  'admits exactly the limit of 200 checks at once': async (store) => {
    const key = freshKey()
    const decisions = await Promise.all(Array.from({ length: 200 }, () => askOne(store, NOW_MS, key, fixedWindow(50))))
    assert.equal(decisions.filter(({ allowed }) => allowed).length, 50)
    assert.deepEqual(
      decisions.map(({ count }) => count).sort((a, b) => a - b),
      Array.from({ length: 200 }, (_, place) => place + 1),
    )
  },

  'applies another limit to the same counter at once': async (store) => {
    const key = freshKey()
    await times(3, () => askOne(store, NOW_MS, key, fixedWindow(3)))
    const raised = await askOne(store, NOW_MS, key, fixedWindow(10))
    assert.deepEqual([raised.allowed, raised.count, raised.remaining], [true, 4, 6])
    assert.equal((await askOne(store, NOW_MS, key, fixedWindow(4))).allowed, false)
  },

  'starts afresh with another period, in one batch too': async (store) => {
    const key = freshKey()
    const hourly = fixedWindow(10, 60 * MINUTE_MS)
    await times(3, () => askOne(store, NOW_MS, key, fixedWindow(10)))
    assert.equal((await askOne(store, NOW_MS, key, hourly)).count, 1)
    const both = await ask(store, NOW_MS, { key, policy: hourly, cost: 1 }, { key, policy: fixedWindow(10), cost: 1 })
    assert.deepEqual(
      both.map(({ count }) => count),
      [2, 1],
    )
  },

  'never goes back when the clock does': async (store) => {
    const key = freshKey()
    await times(2, () => askOne(store, NOW_MS, key, fixedWindow(2)))
    const { allowed, count, retryAfterMs } = await askOne(store, NOW_MS - 30_000, key, fixedWindow(2))
    assert.deepEqual([allowed, count, retryAfterMs], [false, 3, 75_000])
  },

  'refuses everything at limit 0 and says that waiting does not help': async (store) => {
    const { allowed, count, remaining, retryAfterMs } = await askOne(store, NOW_MS, freshKey(), fixedWindow(0))
    assert.deepEqual([allowed, count, remaining, retryAfterMs], [false, 1, 0, null])
  },

  'counts a cost, and says that waiting does not help when it is above the limit': async (store) => {
    const key = freshKey()
    assert.equal((await askOne(store, NOW_MS, key, fixedWindow(10), 4)).remaining, 6)
    assert.equal((await askOne(store, NOW_MS, key, fixedWindow(10), 7)).retryAfterMs, 45_000)
    assert.equal((await askOne(store, NOW_MS, freshKey(), fixedWindow(10), 11)).retryAfterMs, null)
  },

  'counts beyond the highest limit': async (store) => {
    const key = freshKey()
    assert.equal((await askOne(store, NOW_MS, key, fixedWindow(MAX_LIMIT), MAX_LIMIT)).remaining, 0)
    const { allowed, count } = await askOne(store, NOW_MS, key, fixedWindow(MAX_LIMIT), 2)
    assert.deepEqual([allowed, count], [false, MAX_LIMIT + 2])
  },

  'forgets a counter that is reset, and no other': async (store) => {
    const [reset, kept] = [freshKey(), freshKey()]
    for (const key of [reset, kept]) await askOne(store, NOW_MS, key, fixedWindow(1))
    await store.reset(reset)
    await store.reset(freshKey())
    assert.equal((await askOne(store, NOW_MS, reset, fixedWindow(1))).allowed, true)
    assert.equal((await askOne(store, NOW_MS, kept, fixedWindow(1))).allowed, false)
  },

  'decides as the pure functions do on a random trace': async (store) => {
    const seed = Date.now() % 1_000_000
    const random = seededRandom(seed)
    const policies = [fixedWindow(3), fixedWindow(5), fixedWindow(3, 10_000), fixedWindow(0)]
    const [a, b] = [freshKey(), freshKey()]
    const counters = new Map<string, FixedWindowCounter>()
    let nowMs = NOW_MS
    for (let step = 0; step < 300; step++) {
      nowMs += Math.floor(random() * 9_000) - 1_000
      const key = random() < 0.5 ? a : b
      const policy = policies[Math.floor(random() * policies.length)] ?? fixedWindow(1)
      const cost = random() < 0.8 ? 1 : 3
      const counter = advanceFixedWindow(counters.get(key), policy.periodMs, cost, nowMs)
      counters.set(key, counter)
      const expected = decideFixedWindow(policy, counter.count, counter.endMs, cost, nowMs)
      assert.deepEqual(await askOne(store, nowMs, key, policy, cost), expected, `seed ${seed}, step ${step}`)
    }
  },
}

/** Lehmer's generator: good enough for traces, and repeatable. */
function seededRandom(seed: number): () => number {
  let state = (seed % 2_147_483_646) + 1
  return () => {
    state = (state * 48_271) % 2_147_483_647
    return (state - 1) / 2_147_483_646
  }
}

export const storeConformance: readonly ConformanceCase[] = Object.entries(CASES).map(([name, proveWith]) => ({
  name,
  async prove(open) {
    const store = await open()
    try {
      await proveWith(store)
    } finally {
      await store.close()
    }
  },
}))
