import assert from 'node:assert/strict'
import { DAY_MS, HOUR_MS } from '../../ground/time/clock.js'
import {
  type Check,
  type Decision,
  isRate,
  RATE_ALGORITHMS,
  type RateAlgorithm,
  type Settlement,
} from '../algorithm.js'
import { type ConcurrencyCounter, checkConcurrency } from '../concurrency.js'
import { parseRate, toPolicy } from '../rate.js'
import { toSettlement } from '../settlement.js'
import { MemoryStore } from '../stores/memory/memory-store.js'
import type { Store } from '../stores/store.js'
import { WINDOW_CHECKS, type WindowsCounter } from '../windows.js'
import { checkAll, freshKey, NOW_MS, seededRandom } from './conformance-checks.js'

/** Creates a check by the pure functions, whose decisions every store has to return. */
export function createReference(): (check: Check, nowMs: number) => Decision {
  const counters = new Map<string, WindowsCounter>()
  const inProgress = new Map<string, ConcurrencyCounter>()
  return (check, nowMs) => {
    const { key, policy, cost } = check
    if (!isRate(policy)) {
      const { counter, decision } = checkConcurrency(inProgress.get(key), check, nowMs)
      inProgress.set(key, counter)
      return decision
    }
    const name = `${policy.algorithm} ${key}`
    const { counter, decision } = WINDOW_CHECKS[policy.algorithm](counters.get(name), policy, cost, nowMs)
    counters.set(name, counter)
    return decision
  }
}

/**
 * The course of a trace: the rates that it changes between, from when, and how far a step or a rare jump leads on or
 * back.
 */
interface Course {
  readonly rates: readonly [string, ...string[]]
  readonly algorithms: readonly [RateAlgorithm, ...RateAlgorithm[]]
  readonly startMs: number
  readonly onMs: number
  readonly backMs: number
  readonly jumpMs: number
}

/** Compares a trace with rates that change and a clock that sometimes goes back, or is set. */
export function decidesAsThePureFunctions(store: Store): Promise<void> {
  return compareTrace(store, {
    rates: ['10/m', '20/m', '3/m', '10/h', '0/m'],
    algorithms: RATE_ALGORITHMS,
    startMs: NOW_MS,
    onMs: 8_000,
    backMs: 1_000,
    jumpMs: 3 * HOUR_MS,
  })
}

/** Compares a trace on which windows are added and removed. */
export function decidesWindowsAsThePureFunctions(store: Store): Promise<void> {
  return compareTrace(store, {
    rates: [
      '3/5s, 10/m',
      '10/m, 20/h',
      '5/m, 20/h, 40/d, 7/10s',
      '10/m',
      '9/h, 0/d',
      '10/m, 1000000/366d',
      '2/s, 20/h',
    ],
    algorithms: RATE_ALGORITHMS,
    startMs: NOW_MS,
    onMs: 8_000,
    backMs: 1_000,
    jumpMs: 3 * DAY_MS,
  })
}

/** Compares a trace over two years of calendar months, from before a leap day. */
export function countsMonthsAsThePureFunctions(store: Store): Promise<void> {
  return compareTrace(store, {
    rates: ['20/month', '9/d, 25/month', '40/mo, 20/31d', '6/31d', '6/d', '3/h, 30/month, 20/30d'],
    algorithms: ['fixed_window'],
    startMs: Date.parse('2028-02-20T11:00:00Z'),
    onMs: 5 * DAY_MS,
    backMs: DAY_MS,
    jumpMs: 100 * DAY_MS,
  })
}

/** Compares the decisions on 300 batches on two keys with those of the pure functions. */
async function compareTrace(store: Store, course: Course): Promise<void> {
  const { rates, algorithms, startMs, onMs, backMs, jumpMs } = course
  const seed = Date.now() % 1_000_000
  const random = seededRandom(seed)
  const pick = <Value>(values: readonly [Value, ...Value[]]): Value =>
    values[Math.floor(random() * values.length)] ?? values[0]
  const keys = [freshKey(), freshKey()] as const
  const reference = createReference()
  let [nowMs, rate] = [startMs, pick(rates)]
  for (let step = 0; step < 300; step++) {
    nowMs += random() < 0.05 ? Math.floor((2 * random() - 1) * jumpMs) : Math.floor(random() * (onMs + backMs)) - backMs
    if (random() < 0.05) rate = pick(rates)
    const batch = Array.from({ length: pick([1, 1, 2, 5]) }, () => ({
      key: pick(keys),
      // Sometimes a process has not heard of another rate yet.
      policy: toPolicy(pick(algorithms), parseRate(random() < 0.05 ? pick(rates) : rate)),
      cost: pick([1, 1, 1, 0, 2, 5]),
    }))
    const expected = batch.map((check) => reference(check, nowMs))
    assert.deepEqual(await checkAll(store, nowMs, ...batch), expected, `seed ${seed}, step ${step}`)
  }
}

/**
 * Compares a trace of 200 batches and settlements with that of a store in memory, which uses the pure functions. The
 * counters have one window, or one and then several.
 */
export async function settlesAsThePureFunctions(store: Store): Promise<void> {
  if (store.settle === undefined) return
  const seed = Date.now() % 1_000_000
  const random = seededRandom(seed)
  const upTo = (most: number) => Math.floor(random() * (most + 1))
  const memory = new MemoryStore()
  const counters = RATE_ALGORITHMS.flatMap((algorithm) => {
    const month = algorithm === 'fixed_window' ? ['20/m, 60/month'] : []
    const edited = ['20/m', '20/m, 7/10s, 60/h', ...month, '40/m']
    return [edited, ['20/m']].map((rates) => ({ key: freshKey(), algorithm, rates }))
  })
  const taken: Settlement[] = []
  // Minutes, hours and a month end meanwhile.
  let nowMs = Date.parse('2028-02-29T23:50:00Z')
  for (let step = 0; step < 200; step++) {
    nowMs += random() < 0.03 ? upTo(6 * HOUR_MS) - 3 * HOUR_MS : upTo(9_000) - 1_000
    const batch = counters.map(({ key, algorithm, rates }) => ({
      key,
      policy: toPolicy(algorithm, parseRate(rates[Math.floor((step / 40) % rates.length)] ?? '20/m')),
      cost: upTo(6),
    }))
    const expected = memory.check(batch, nowMs)
    assert.deepEqual(await checkAll(store, nowMs, ...batch), expected, `seed ${seed}, step ${step}`)
    for (const [index, decision] of expected.entries()) {
      const check = batch[index]
      if (check === undefined) continue
      const settlement = toSettlement({ ...check, cost: upTo(check.cost) }, decision, nowMs)
      const marks = (settlement.marks ?? []).map((mark) => mark - upTo(2_000) * upTo(1) * upTo(1))
      taken.push({ ...settlement, marks })
    }
    const settled = taken.splice(upTo(taken.length), upTo(9))
    memory.settle(settled)
    await store.settle(settled, nowMs)
  }
}
