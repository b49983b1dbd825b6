/** Conformance cases for charges, for the debt that they lead into, and for reservations. */
import assert from 'node:assert/strict'
import { DAY_MS, MINUTE_MS } from '../../src/ground/time/clock.js'
import { type Check, type Decision, MAX_USED, type Policy, RATE_ALGORITHMS } from '../../src/limiter/algorithm.js'
import { parseRate, toPolicy, toReservingPolicy } from '../../src/limiter/rate.js'
import { toRefund, toSettlement } from '../../src/limiter/settlement.js'
import type { Store } from '../../src/limiter/stores/store.js'
import { checkAll, checkOne, freshKey, MAX_LIMIT, NOW_MS, repeat } from './checks.js'
import { createReference } from './traces.js'

type PolicyOf = (rate: string) => Policy

async function charge(store: Store, nowMs: number, key: string, policy: Policy, cost: number): Promise<Decision> {
  const [decision] = await checkAll(store, nowMs, { key, policy, cost, charges: true })
  assert.ok(decision !== undefined)
  return decision
}

/** What charges do with every policy. */
const CHARGES: Readonly<Record<string, (store: Store, policy: PolicyOf) => Promise<void>>> = {
  'takes a charge whatever is left, and answers what it leaves': async (store, policy) => {
    const key = freshKey()
    for (const [cost, count] of [
      [4, 4],
      [4, 8],
      [4, 12],
      [0, 12],
      [30, 42],
    ] as const) {
      const decision = await charge(store, NOW_MS, key, policy('10/m'), cost)
      const { allowed, limit, remaining, retryAfterMs } = decision
      assert.deepEqual(
        [allowed, limit, remaining, retryAfterMs, decision.count],
        [true, 10, Math.max(0, 10 - count), 0, count],
      )
    }
  },

  'refuses in debt, and tells for how long': async (store, policy) => {
    for (const rate of ['10/m', '10/m, 10/h', '10/m, 1000/d']) {
      for (const cost of [0, 1, 7]) {
        const key = freshKey()
        const { resetMs, windows = [] } = await charge(store, NOW_MS, key, policy(rate), 47)
        const { allowed, count, limit, remaining, retryAfterMs } = await checkOne(
          store,
          NOW_MS,
          key,
          policy(rate),
          cost,
        )
        assert.deepEqual([allowed, limit, remaining, count >= limit], [false, 10, 0, true])
        const waitMs = Number(retryAfterMs)
        assert.ok(waitMs > 0 && waitMs <= Math.max(resetMs, ...windows.map((window) => window.resetMs)))
        const early = await checkOne(store, NOW_MS + waitMs - 1, key, policy(rate), cost)
        assert.equal(early.allowed, false, `${rate}, cost ${cost}, a millisecond before ${waitMs}`)
        assert.equal((await checkOne(store, NOW_MS + waitMs, key, policy(rate), cost)).allowed, true, `${rate} ${cost}`)
      }
    }
  },

  'has nothing in use after the time that a charge answered, and something before': async (store, policy) => {
    const key = freshKey()
    const { resetMs } = await charge(store, NOW_MS, key, policy('10/m'), 1_234)
    assert.notEqual((await checkOne(store, NOW_MS + resetMs - 1, key, policy('10/m'), 0)).remaining, 10)
    assert.equal((await checkOne(store, NOW_MS + resetMs, key, policy('10/m'), 0)).remaining, 10)
  },

  'charges every window': async (store, policy) => {
    const key = freshKey()
    await charge(store, NOW_MS, key, policy('10/m, 30/h, 90/d'), 20)
    const { windows } = await charge(store, NOW_MS, key, policy('10/m, 30/h, 90/d'), 5)
    assert.deepEqual(
      windows?.map(({ remaining }) => remaining),
      [0, 5, 65],
    )
  },

  'answers charges and checks of one batch in their order': async (store, policy) => {
    const [together, single] = [freshKey(), freshKey()]
    const several = policy('10/m, 40/h')
    const checks = [
      [several, 3, false],
      [several, 4, true],
      [several, 9, true],
      [policy('20/m, 40/h'), 2, true],
      [several, 1, false],
      [several, 2, true],
      [policy('20/m'), 2, true],
      [policy('20/m'), 1, false],
    ] as const
    const of = (key: string) => checks.map(([policy, cost, charges]): Check => ({ key, policy, cost, charges }))
    const expected = []
    for (const check of of(single)) expected.push(...(await checkAll(store, NOW_MS, check)))
    assert.deepEqual(await checkAll(store, NOW_MS, ...of(together)), expected)
  },

  'lets an edited limit have effect on a debt at once': async (store, policy) => {
    const key = freshKey()
    await charge(store, NOW_MS, key, policy('10/m'), 25)
    assert.equal((await checkOne(store, NOW_MS, key, policy('10/m'), 0)).allowed, false)
    assert.equal((await checkOne(store, NOW_MS, key, policy('30/m'), 0)).remaining, 5)
    const lowered = await charge(store, NOW_MS, key, policy('5/m'), 1)
    assert.deepEqual([lowered.remaining, lowered.count], [0, 26])
    const { retryAfterMs } = await checkOne(store, NOW_MS, key, policy('5/m'))
    assert.equal((await checkOne(store, NOW_MS + Number(retryAfterMs) - 1, key, policy('5/m'))).allowed, false)
    assert.equal((await checkOne(store, NOW_MS + Number(retryAfterMs), key, policy('5/m'))).allowed, true)
  },

  'takes the highest amounts again and again, of the lowest limits too': async (store, policy) => {
    for (const rate of ['0/m', '1/s', `${MAX_LIMIT}/s`, '1/366d', `${MAX_LIMIT}/366d`, '3/s, 0/m, 2147483647/366d']) {
      const [key, reference] = [freshKey(), createReference()]
      const ask = async (check: Check, nowMs: number) => {
        const [decision] = await checkAll(store, nowMs, check)
        assert.deepEqual(decision, reference(check, nowMs), rate)
        return decision
      }
      for (let nowMs = NOW_MS; nowMs < NOW_MS + 9; nowMs++) {
        await ask({ key, policy: policy(rate), cost: MAX_LIMIT, charges: true }, nowMs)
      }
      const last = await ask({ key, policy: policy(rate), cost: 0 }, NOW_MS + 9)
      assert.deepEqual([last?.allowed, last?.remaining], [false, 0])
      if (policy(rate).algorithm !== 'fixed_window') assert.ok(Number(last?.count) <= MAX_USED + 2)
      await ask({ key, policy: policy(rate), cost: 1 }, NOW_MS + 800 * DAY_MS)
    }
  },

  'gives back of a charge what has not left the counter since': async (store, policy) => {
    if (store.settle === undefined) return
    const check: Check = { key: freshKey(), policy: policy('10/m'), cost: 45, charges: true }
    const decision = await charge(store, NOW_MS, check.key, check.policy, check.cost)
    await store.settle([{ ...toSettlement(check, decision, NOW_MS), cost: 20 }], NOW_MS)
    assert.equal((await checkOne(store, NOW_MS, check.key, check.policy, 0)).remaining, 0)
    await store.settle([{ ...toSettlement(check, decision, NOW_MS), cost: 100 }], NOW_MS)
    assert.equal((await checkOne(store, NOW_MS, check.key, check.policy, 0)).remaining, 10)
    const later = { ...check, key: freshKey() }
    const taken = await charge(store, NOW_MS, later.key, later.policy, later.cost)
    await checkOne(store, NOW_MS + 3 * MINUTE_MS, later.key, later.policy, 0)
    await store.settle([toSettlement(later, taken, NOW_MS)], NOW_MS + 3 * MINUTE_MS)
    assert.equal((await checkOne(store, NOW_MS + 3 * MINUTE_MS, later.key, later.policy, 0)).remaining, 10)
    assert.equal((await checkOne(store, NOW_MS + 3 * MINUTE_MS, later.key, later.policy, 11)).allowed, false)
  },

  'gives back to the current windows what no check is named for, and stops at 0': async (store, policy) => {
    if (store.settle === undefined) return
    const key = freshKey()
    await charge(store, NOW_MS, key, policy('10/m, 90/h'), 8)
    for (const [cost, left] of [
      [3, 5],
      [9, 10],
    ] as const) {
      await store.settle([toRefund({ key, policy: policy('10/m, 90/h'), cost }, NOW_MS)], NOW_MS)
      assert.equal((await checkOne(store, NOW_MS, key, policy('10/m, 90/h'), 0)).windows?.[0]?.remaining, left)
    }
  },
}

/** What a policy does that reserves. */
const RESERVATIONS: typeof CHARGES = {
  'takes nothing for a refused reservation, and counts it once': async (store, policy) => {
    for (const rate of ['10/m', '10/m, 15/h']) {
      const key = freshKey()
      await checkOne(store, NOW_MS, key, policy(rate), 7)
      for (const [cost, count] of [
        [4, 11],
        [8, 15],
        [11, 18],
      ] as const) {
        const refused = await repeat(3, () => checkOne(store, NOW_MS, key, policy(rate), cost))
        for (const decision of refused) {
          assert.deepEqual(
            [decision.allowed, decision.count, decision.limit, decision.remaining],
            [false, count, 10, 3],
          )
          assert.equal(decision.retryAfterMs === null, cost > 10)
        }
      }
      const last = await checkOne(store, NOW_MS, key, policy(rate), 3)
      assert.deepEqual([last.allowed, last.count, last.remaining], [true, 10, 0])
    }
  },

  'admits a reservation of 0 while anything is left': async (store, policy) => {
    const key = freshKey()
    const seen = []
    for (const cost of [4, 5, 1, 3]) {
      seen.push(await checkOne(store, NOW_MS, key, policy('10/m'), 0))
      await charge(store, NOW_MS, key, policy('10/m'), cost)
    }
    seen.push(await checkOne(store, NOW_MS, key, policy('10/m'), 0))
    assert.deepEqual(
      seen.map(({ allowed, count, remaining }) => [allowed, count, remaining]),
      [
        [true, 0, 10],
        [true, 4, 6],
        [true, 9, 1],
        [false, 11, 0],
        [false, 14, 0],
      ],
    )
  },

  'admits exactly the limit of 200 reservations at once': async (store, policy) => {
    for (const rate of ['50/m', '80/m, 50/h, 90/d']) {
      const key = freshKey()
      const decisions = await Promise.all(
        Array.from({ length: 200 }, () => checkOne(store, NOW_MS, key, policy(rate), 3)),
      )
      assert.equal(decisions.filter(({ allowed }) => allowed).length, 16)
      assert.equal((await checkOne(store, NOW_MS, key, policy(rate), 0)).remaining, 2)
    }
  },

  'gives back the part of a reservation that was not charged': async (store, policy) => {
    if (store.settle === undefined) return
    const check = { key: freshKey(), policy: policy('10/m, 50/h'), cost: 8 }
    const [decision] = await checkAll(store, NOW_MS, check)
    assert.ok(decision !== undefined)
    await store.settle([{ ...toSettlement(check, decision, NOW_MS), cost: 5 }], NOW_MS)
    const { windows } = await checkOne(store, NOW_MS, check.key, check.policy, 0)
    assert.deepEqual(
      windows?.map(({ remaining }) => remaining),
      [7, 47],
    )
  },
}

const MONTHS: Readonly<Record<string, (store: Store) => Promise<void>>> = {
  'fixed_window: a debt ends with the month': async (store) => {
    const [key, policy] = [freshKey(), toReservingPolicy('fixed_window', parseRate('100/month'))]
    const [endMs, soonMs] = [Date.parse('2028-03-01'), Date.parse('2028-02-29T23:59:59Z')]
    await charge(store, Date.parse('2028-02-01'), key, policy, 250)
    const refused = await checkOne(store, soonMs, key, policy, 0)
    assert.deepEqual([refused.allowed, refused.count, refused.retryAfterMs], [false, 251, 1_000])
    assert.equal((await charge(store, soonMs, key, policy, 1)).count, 251)
    const next = await checkOne(store, endMs, key, policy, 40)
    assert.deepEqual([next.allowed, next.count, next.remaining], [true, 40, 60])
  },
}

export const CHARGE_CASES: Readonly<Record<string, (store: Store) => Promise<void>>> = {
  ...Object.fromEntries(
    RATE_ALGORITHMS.flatMap((algorithm) => [
      ...Object.entries(CHARGES).flatMap(([name, prove]) => [
        [`${algorithm}: ${name}`, (store: Store) => prove(store, (rate) => toPolicy(algorithm, parseRate(rate)))],
        [
          `${algorithm}, which reserves: ${name}`,
          (store: Store) => prove(store, (rate) => toReservingPolicy(algorithm, parseRate(rate))),
        ],
      ]),
      ...Object.entries(RESERVATIONS).map(([name, prove]) => [
        `${algorithm}: ${name}`,
        (store: Store) => prove(store, (rate) => toReservingPolicy(algorithm, parseRate(rate))),
      ]),
    ]),
  ),
  ...MONTHS,
}
