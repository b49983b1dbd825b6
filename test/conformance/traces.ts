import assert from 'node:assert/strict'
import { DAY_MS, HOUR_MS } from '../../src/ground/time/clock.js'
import {
  type Check,
  type Decision,
  isRate,
  RATE_ALGORITHMS,
  type RateAlgorithm,
  type Settlement,
} from '../../src/limiter/algorithm.js'
import { type ConcurrencyCounter, checkConcurrency } from '../../src/limiter/concurrency.js'
import { parseRate, toPolicy, toReservingPolicy } from '../../src/limiter/rate.js'
import { toRefund, toSettlement } from '../../src/limiter/settlement.js'
import { MemoryStore } from '../../src/limiter/stores/memory/memory-store.js'
import type { Store } from '../../src/limiter/stores/store.js'
import { WINDOW_CHECKS, type WindowsCounter } from '../../src/limiter/windows.js'
import { checkAll, freshKey, NOW_MS, seededRandom } from './checks.js'

/** Creates a check by the pure functions, whose decisions every store has to return. */
export function createReference(): (check: Check, nowMs: number) => Decision {
  const counters = new Map<string, WindowsCounter>()
  const inProgress = new Map<string, ConcurrencyCounter>()
  return (check, nowMs) => {
    const { key, policy, cost, charges } = check
    if (!isRate(policy)) {
      const { counter, decision } = checkConcurrency(inProgress.get(key), check, nowMs)
      inProgress.set(key, counter)
      return decision
    }
    const name = `${policy.algorithm} ${key}`
    const before = counters.get(name)
    const { counter, decision } = WINDOW_CHECKS[policy.algorithm](before, policy, cost, nowMs, charges)
    if (before !== undefined || cost > 0) counters.set(name, counter)
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

/** Compares a trace of requests and of what is given back of them. */
export function settlesAsThePureFunctions(store: Store): Promise<void> {
  return compareSettlements(store, { toPolicy, costs: 6, charged: () => 0 })
}

/**
 * Compares a trace of reservations, of charges, which lead into debt now and then, and of what is given back: parts of them,
 * and amounts that no check has taken.
 */
export function chargesAsThePureFunctions(store: Store): Promise<void> {
  const charged = (random: () => number) => {
    if (random() < 0.6) return 0
    return Math.floor(random() * (random() < 0.05 ? 150 : 9))
  }
  return compareSettlements(store, { toPolicy: toReservingPolicy, costs: 6, charged })
}

interface SettlementCourse {
  readonly toPolicy: typeof toPolicy
  /** The highest cost of a check. */
  readonly costs: number
  /** Returns the cost of a charge; 0 for a check in its place. */
  readonly charged: (random: () => number) => number
}

/**
 * Compares a trace of 200 batches and settlements with that of a store in memory, which uses the pure functions. The
 * counters have one window, or one and then several.
 */
async function compareSettlements(store: Store, { toPolicy, costs, charged }: SettlementCourse): Promise<void> {
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
    const batch = counters.flatMap(({ key, algorithm, rates }): Check[] => {
      const policy = toPolicy(algorithm, parseRate(rates[Math.floor((step / 40) % rates.length)] ?? '20/m'))
      const [cost, amount] = [upTo(costs), charged(random)]
      if (amount === 0) return [{ key, policy, cost }]
      const charge = { key, policy, cost: amount, charges: true }
      return [charge, { ...charge, cost }, { key, policy, cost }].slice(0, 1 + upTo(2))
    })
    const expected = memory.check(batch, nowMs)
    assert.deepEqual(await checkAll(store, nowMs, ...batch), expected, `seed ${seed}, step ${step}`)
    for (const [index, decision] of expected.entries()) {
      const check = batch[index]
      if (check === undefined) continue
      const settlement = toSettlement({ ...check, cost: upTo(check.cost) }, decision, nowMs)
      const marks = (settlement.marks ?? []).map((mark) => mark - upTo(2_000) * upTo(1) * upTo(1))
      taken.push({ ...settlement, marks })
      if (check.charges) taken.push(toRefund({ ...check, cost: upTo(check.cost) }, nowMs - upTo(1) * upTo(60_000)))
    }
    const settled = taken.splice(upTo(taken.length), upTo(9))
    memory.settle(settled)
    await store.settle(settled, nowMs)
  }
}
