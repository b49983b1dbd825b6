import assert from 'node:assert/strict'
import { ALGORITHMS, type Check, type Decision, type Policy, type Settlement } from '../limiter/algorithm.js'
import { checkFixedWindow } from '../limiter/fixed-window.js'
import { checkLeakyBucket } from '../limiter/leaky-bucket.js'
import { checkSlidingWindow } from '../limiter/sliding-window.js'
import { checkTokenBucket } from '../limiter/token-bucket.js'
import { HOUR_MS, MINUTE_MS } from '../time/clock.js'
import { checkAll, freshKey, NOW_MS } from './conformance-checks.js'
import { MemoryStore } from './memory-store.js'
import type { Store } from './store.js'

type PureCheck<Counter> = (
  counter: Counter | undefined,
  policy: Policy,
  cost: number,
  nowMs: number,
) => { readonly counter: Counter; readonly decision: Decision }

/** Creates a check by the pure functions, whose decisions every store has to return. */
export function createReference(): (check: Check, nowMs: number) => Decision {
  const answers = {
    fixed_window: remembering(checkFixedWindow),
    sliding_window: remembering(checkSlidingWindow),
    token_bucket: remembering(checkTokenBucket),
    leaky_bucket: remembering(checkLeakyBucket),
  }
  return (check, nowMs) => answers[check.policy.algorithm](check, nowMs)
}

function remembering<Counter>(pureCheck: PureCheck<Counter>) {
  const counters = new Map<string, Counter>()
  return ({ key, policy, cost }: Check, nowMs: number): Decision => {
    const { counter, decision } = pureCheck(counters.get(key), policy, cost, nowMs)
    counters.set(key, counter)
    return decision
  }
}

/** Compares a trace of 300 batches on two keys, with rates that change and a clock that sometimes goes back. */
export async function decidesAsThePureFunctions(store: Store): Promise<void> {
  const seed = Date.now() % 1_000_000
  const random = seededRandom(seed)
  const pick = <Value>(values: readonly [Value, ...Value[]]): Value =>
    values[Math.floor(random() * values.length)] ?? values[0]
  const keys = [freshKey(), freshKey()] as const
  const rates = [
    { limit: 10, periodMs: MINUTE_MS },
    { limit: 20, periodMs: MINUTE_MS },
    { limit: 3, periodMs: MINUTE_MS },
    { limit: 10, periodMs: HOUR_MS },
    { limit: 0, periodMs: MINUTE_MS },
  ] as const
  const reference = createReference()
  let [nowMs, rate] = [NOW_MS, pick(rates)]
  for (let step = 0; step < 300; step++) {
    nowMs += Math.floor(random() * 9_000) - 1_000
    if (random() < 0.05) rate = pick(rates)
    const batch = Array.from({ length: pick([1, 1, 2, 5]) }, () => ({
      key: pick(keys),
      policy: { algorithm: pick(ALGORITHMS), ...rate },
      cost: pick([1, 1, 1, 0, 2, 5]),
    }))
    const expected = batch.map((check) => reference(check, nowMs))
    assert.deepEqual(await checkAll(store, nowMs, ...batch), expected, `seed ${seed}, step ${step}`)
  }
}

/** Compares a trace of 200 batches and settlements with that of a store in memory, which uses the pure functions. */
export async function settlesAsThePureFunctions(store: Store): Promise<void> {
  if (store.settle === undefined) return
  const seed = Date.now() % 1_000_000
  const random = seededRandom(seed)
  const upTo = (most: number) => Math.floor(random() * (most + 1))
  const memory = new MemoryStore()
  const keys = ALGORITHMS.map((algorithm) => ({ key: freshKey(), algorithm }))
  const taken: Settlement[] = []
  let nowMs = NOW_MS
  for (let step = 0; step < 200; step++) {
    nowMs += upTo(9_000) - 1_000
    const limit = random() < 0.05 ? 40 : 20
    const batch = keys.map(({ key, algorithm }) => ({
      key,
      policy: { algorithm, limit, periodMs: MINUTE_MS },
      cost: upTo(6),
    }))
    const expected = memory.check(batch, nowMs)
    assert.deepEqual(await checkAll(store, nowMs, ...batch), expected, `seed ${seed}, step ${step}`)
    for (const [index, { resetMs }] of expected.entries()) {
      const check = batch[index]
      if (check !== undefined) taken.push({ ...check, forgottenAtMs: nowMs + resetMs - upTo(2_000) * upTo(1) })
    }
    const settled = taken.splice(upTo(taken.length), upTo(3))
    memory.settle(settled)
    await store.settle(settled, nowMs)
  }
}

/** Creates Lehmer's generator, which is good enough for traces, and repeatable. */
function seededRandom(seed: number): () => number {
  let state = (seed % 2_147_483_646) + 1
  return () => {
    state = (state * 48_271) % 2_147_483_647
    return (state - 1) / 2_147_483_646
  }
}
