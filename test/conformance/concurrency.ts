/** Conformance cases for requests in progress. */
import assert from 'node:assert/strict'
import { HOUR_MS, MINUTE_MS, SECOND_MS } from '../../src/ground/time/clock.js'
import type { Check, Decision, PlainPolicy, Settlement } from '../../src/limiter/algorithm.js'
import {
  type ConcurrencyCounter,
  checkConcurrency,
  MAX_PERMITS,
  settleConcurrency,
} from '../../src/limiter/concurrency.js'
import type { Store } from '../../src/limiter/stores/store.js'
import { checkAll, freshKey, MAX_LIMIT, NOW_MS, seededRandom } from './checks.js'

type Cases = Readonly<Record<string, (store: Store) => Promise<void>>>

interface Taking extends Check {
  readonly policy: PlainPolicy
  readonly permit: number
}

let permits = 0

function take(key: string, limit: number, { cost = 1, periodMs = MINUTE_MS } = {}): Taking {
  return { key, policy: { algorithm: 'concurrency', limit, periodMs }, cost, permit: permits++ }
}

async function ask(store: Store, nowMs: number, check: Check): Promise<Decision> {
  const [decision] = await checkAll(store, nowMs, check)
  assert.ok(decision !== undefined)
  return decision
}

async function giveBack(store: Store, nowMs: number, ...taken: Settlement[]): Promise<void> {
  assert.ok(store.settle !== undefined)
  await store.settle(taken, nowMs)
}

/** Returns how many permits are taken. */
async function countTaken(store: Store, nowMs: number, key: string, periodMs = MINUTE_MS): Promise<number> {
  return (await ask(store, nowMs, take(key, MAX_PERMITS, { cost: 0, periodMs }))).count
}

const CASES: Cases = {
  'allows as many as the limit in progress, and another one for each that is given back': async (store) => {
    const key = freshKey()
    const first = [take(key, 2), take(key, 2)]
    const answers = []
    for (const check of [...first, take(key, 2)]) answers.push(await ask(store, NOW_MS, check))
    assert.deepEqual(answers, [
      { allowed: true, count: 1, limit: 2, remaining: 1, resetMs: SECOND_MS, retryAfterMs: 0 },
      { allowed: true, count: 2, limit: 2, remaining: 0, resetMs: SECOND_MS, retryAfterMs: 0 },
      { allowed: false, count: 3, limit: 2, remaining: 0, resetMs: SECOND_MS, retryAfterMs: SECOND_MS },
    ])
    await giveBack(store, NOW_MS, ...first.slice(1))
    assert.equal((await ask(store, NOW_MS, take(key, 2))).allowed, true)
    assert.equal((await ask(store, NOW_MS, take(key, 2))).allowed, false)
  },

  'allows exactly the limit of 200 checks at once, and as many once they are given back at once': async (store) => {
    const key = freshKey()
    for (const _round of [1, 2]) {
      const checks = Array.from({ length: 200 }, () => take(key, 50))
      const decisions = await Promise.all(checks.map((check) => ask(store, NOW_MS, check)))
      const taken = checks.filter((_check, index) => decisions[index]?.allowed)
      assert.equal(taken.length, 50)
      await Promise.all(taken.map((check) => giveBack(store, NOW_MS, check)))
      assert.equal(await countTaken(store, NOW_MS, key), 0)
    }
  },

  'answers a batch on several counters, of different costs and limits, as it answers them one by one': async (
    store,
  ) => {
    const checks = [1, 2, 3, 3, 0, 1, 1].flatMap((cost) => [
      [10, cost],
      [5, cost],
    ])
    const batchFor = (keys: readonly string[]) =>
      checks.map(([limit = 0, cost = 0], index) => take(keys[index % 3] ?? '', limit, { cost }))
    const expected = []
    const [a, b, c] = [freshKey(), freshKey(), freshKey()]
    for (const check of batchFor([a, b, c])) expected.push(await ask(store, NOW_MS, check))
    assert.deepEqual(await checkAll(store, NOW_MS, ...batchFor([freshKey(), freshKey(), freshKey()])), expected)
  },

  'a permit that is not given back is free after the period, not a millisecond earlier': async (store) => {
    const key = freshKey()
    await ask(store, NOW_MS, take(key, 2))
    await ask(store, NOW_MS + 1, take(key, 2))
    assert.equal((await ask(store, NOW_MS + MINUTE_MS - 1, take(key, 2))).allowed, false)
    assert.equal((await ask(store, NOW_MS + MINUTE_MS, take(key, 2))).allowed, true)
    assert.equal((await ask(store, NOW_MS + MINUTE_MS, take(key, 2))).allowed, false)
  },

  'a permit that its period has freed and that is given back then frees no other one': async (store) => {
    const key = freshKey()
    const late = take(key, 1)
    await ask(store, NOW_MS, late)
    assert.equal((await ask(store, NOW_MS + MINUTE_MS, take(key, 1))).allowed, true)
    await giveBack(store, NOW_MS + MINUTE_MS, late)
    assert.equal((await ask(store, NOW_MS + MINUTE_MS, take(key, 1))).allowed, false)
  },

  'a permit is given back once, however often that is said, and one that was never taken not at all': async (store) => {
    const key = freshKey()
    const [first, second, refused] = [take(key, 2), take(key, 2), take(key, 2)]
    for (const check of [first, second, refused]) await ask(store, NOW_MS, check)
    await giveBack(store, NOW_MS, refused, first, first, { ...take(freshKey(), 2) })
    await giveBack(store, NOW_MS, first)
    await giveBack(store, NOW_MS)
    assert.equal(await countTaken(store, NOW_MS, key), 1)
    await giveBack(store, NOW_MS, second, first)
    assert.equal(await countTaken(store, NOW_MS, key), 0)
  },

  'a reset frees all permits, and one from before it that is given back frees none from after it': async (store) => {
    const key = freshKey()
    const before = [take(key, 2), take(key, 2)]
    for (const check of before) await ask(store, NOW_MS, check)
    await store.reset([key])
    for (const check of [take(key, 2), take(key, 2)]) assert.equal((await ask(store, NOW_MS, check)).allowed, true)
    await giveBack(store, NOW_MS, ...before)
    assert.equal((await ask(store, NOW_MS, take(key, 2))).allowed, false)
  },

  'a cost is as many permits, all of them or none': async (store) => {
    const key = freshKey()
    const three = take(key, 5, { cost: 3 })
    assert.equal((await ask(store, NOW_MS, three)).remaining, 2)
    const { allowed, count, remaining, retryAfterMs } = await ask(store, NOW_MS, take(key, 5, { cost: 3 }))
    assert.deepEqual([allowed, count, remaining, retryAfterMs], [false, 6, 2, SECOND_MS])
    assert.equal((await ask(store, NOW_MS, take(key, 5, { cost: 2 }))).remaining, 0)
    await giveBack(store, NOW_MS, three)
    assert.equal((await ask(store, NOW_MS, take(key, 5, { cost: 3 }))).allowed, true)
    for (const cost of [6, MAX_LIMIT]) {
      assert.equal((await ask(store, NOW_MS, take(key, 5, { cost }))).retryAfterMs, null)
    }
  },

  'a limit of 0 allows nothing, and waiting does not help': async (store) => {
    const { allowed, count, remaining, retryAfterMs } = await ask(store, NOW_MS, take(freshKey(), 0))
    assert.deepEqual([allowed, count, remaining, retryAfterMs], [false, 1, 0, null])
  },

  'a cost of 0 answers for a cost of 1, and takes nothing': async (store) => {
    const key = freshKey()
    const look = () => ask(store, NOW_MS, take(key, 1, { cost: 0 }))
    assert.deepEqual([(await look()).allowed, (await look()).count], [true, 0])
    await ask(store, NOW_MS, take(key, 1))
    const { allowed, count, remaining, retryAfterMs } = await look()
    assert.deepEqual([allowed, count, remaining, retryAfterMs], [false, 1, 0, SECOND_MS])
  },

  'another limit applies to what is taken at once, another period starts afresh': async (store) => {
    const key = freshKey()
    for (const check of [take(key, 3), take(key, 3), take(key, 3)]) await ask(store, NOW_MS, check)
    assert.equal((await ask(store, NOW_MS, take(key, 4))).count, 4)
    const lowered = await ask(store, NOW_MS, take(key, 2))
    assert.deepEqual([lowered.allowed, lowered.remaining], [false, 0])
    assert.equal((await ask(store, NOW_MS, take(key, 3, { periodMs: 2 * MINUTE_MS }))).count, 1)
    assert.equal((await ask(store, NOW_MS, take(key, 3))).count, 1)
  },

  'counts apart from other algorithms under the same key': async (store) => {
    const key = freshKey()
    await ask(store, NOW_MS, take(key, 3))
    const window = { key, policy: { algorithm: 'fixed_window', limit: 3, periodMs: MINUTE_MS }, cost: 1 } as const
    const both = await checkAll(store, NOW_MS, window, take(key, 3), window)
    assert.deepEqual(
      both.map(({ count }) => count),
      [1, 2, 2],
    )
    await store.reset([key])
    assert.equal(await countTaken(store, NOW_MS, key), 0)
  },

  'a clock that is set back frees nothing, and lengthens no permit beyond the period of the last one': async (
    store,
  ) => {
    const key = freshKey()
    await ask(store, NOW_MS, take(key, 2))
    await ask(store, NOW_MS - 30_000, take(key, 2))
    assert.equal((await ask(store, NOW_MS - 30_000, take(key, 2))).allowed, false)
    assert.equal((await ask(store, NOW_MS + MINUTE_MS - 1, take(key, 2))).allowed, false)
    assert.equal(await countTaken(store, NOW_MS + MINUTE_MS, key), 0)
  },

  'permits that were taken up to an hour ahead stay taken, and those further ahead are free': async (store) => {
    const key = freshKey()
    const aheadMs = NOW_MS + HOUR_MS
    await ask(store, aheadMs, take(key, 2, { cost: 2 }))
    assert.equal((await ask(store, NOW_MS, take(key, 2))).allowed, false)
    const permit = take(key, 2)
    assert.equal((await ask(store, NOW_MS - 1, permit)).count, 1)
    assert.equal(await countTaken(store, NOW_MS - 1, key), 1)
    await giveBack(store, NOW_MS - 1, permit)
    assert.equal(await countTaken(store, NOW_MS - 1, key), 0)
  },

  'takes all permits of the highest limit at once, and gives them back': async (store) => {
    const key = freshKey()
    const all = take(key, MAX_PERMITS, { cost: MAX_PERMITS })
    assert.equal((await ask(store, NOW_MS, all)).remaining, 0)
    assert.equal((await ask(store, NOW_MS, take(key, MAX_PERMITS))).count, MAX_PERMITS + 1)
    await giveBack(store, NOW_MS, all)
    assert.equal(await countTaken(store, NOW_MS, key), 0)
  },

  'decides as the pure functions do on a random trace': decidesAsThePureFunctions,
}

/** Compares 300 batches of checks and of what is given back, some of it twice, with a clock that sometimes goes back. */
async function decidesAsThePureFunctions(store: Store): Promise<void> {
  const seed = Date.now() % 1_000_000
  const random = seededRandom(seed)
  const upTo = (most: number) => Math.floor(random() * (most + 1))
  const keys = [freshKey(), freshKey()]
  const counters = new Map<string, ConcurrencyCounter>()
  const taken: Taking[] = []
  let nowMs = NOW_MS
  for (let step = 0; step < 300; step++) {
    nowMs += random() < 0.03 ? upTo(6 * HOUR_MS) - 3 * HOUR_MS : upTo(9_000) - 2_000
    const periodMs = random() < 0.03 ? 2 * MINUTE_MS : MINUTE_MS
    const batch = Array.from({ length: 1 + upTo(4) }, () =>
      take(keys[upTo(1)] ?? '', random() < 0.1 ? 6 : 12, { cost: upTo(3), periodMs }),
    )
    const expected = batch.map((check) => {
      const { counter, decision } = checkConcurrency(counters.get(check.key), check, nowMs)
      counters.set(check.key, counter)
      return decision
    })
    assert.deepEqual(await checkAll(store, nowMs, ...batch), expected, `seed ${seed}, step ${step}`)
    taken.push(...batch)
    const returned = taken.splice(upTo(taken.length), upTo(6))
    if (random() < 0.2) taken.push(...returned)
    for (const { key, permit } of returned) {
      const counter = counters.get(key)
      if (counter !== undefined) counters.set(key, settleConcurrency(counter, permit))
    }
    await giveBack(store, nowMs, ...returned)
  }
}

/** The cases of `concurrency`, which a store without `settle` does not have. */
export const CONCURRENCY_CASES: Cases = Object.fromEntries(
  Object.entries(CASES).map(([name, prove]) => [
    `concurrency: ${name}`,
    async (store) => (store.settle === undefined ? undefined : prove(store)),
  ]),
)
