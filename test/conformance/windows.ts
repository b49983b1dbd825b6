/** Conformance cases for policies with several windows, and for calendar months. */
import assert from 'node:assert/strict'
import { DAY_MS, HOUR_MS, SECOND_MS } from '../../src/ground/time/clock.js'
import { type Algorithm, type Policy, RATE_ALGORITHMS } from '../../src/limiter/algorithm.js'
import { parseRate, toPolicy } from '../../src/limiter/rate.js'
import { toSettlement } from '../../src/limiter/settlement.js'
import type { Store } from '../../src/limiter/stores/store.js'
import { checkAll, checkOne, freshKey, NOW_MS, repeat } from './checks.js'

type Cases = Readonly<Record<string, (store: Store, policy: (rate: string) => Policy) => Promise<void>>>

const CASES: Cases = {
  'allows what every window allows, and tells of the one that refuses': async (store, policy) => {
    const key = freshKey()
    const [first, second] = [NOW_MS, NOW_MS + SECOND_MS]
    const both = policy('2/s, 3/h')
    const answers = [
      ...(await repeat(2, () => checkOne(store, first, key, both))),
      await checkOne(store, second + SECOND_MS, key, both),
      await checkOne(store, second + SECOND_MS, key, both),
    ]
    assert.deepEqual(
      answers.map(({ allowed, limit, remaining }) => [allowed, limit, remaining]),
      [
        [true, 2, 1],
        [true, 2, 0],
        [true, 3, 0],
        [false, 3, 0],
      ],
    )
    assert.ok(Number(answers[3]?.retryAfterMs) > SECOND_MS)
    assert.deepEqual(
      answers[3]?.windows?.map(({ limit }) => limit),
      [2, 3],
    )
  },

  'tells of the longest wait where several windows refuse': async (store, policy) => {
    const key = freshKey()
    await checkOne(store, NOW_MS, key, policy('3/s, 3/h, 9/d'), 3)
    const { limit, retryAfterMs } = await checkOne(store, NOW_MS, key, policy('3/s, 3/h, 9/d'))
    assert.equal(limit, 3)
    assert.ok(Number(retryAfterMs) > SECOND_MS, `${retryAfterMs} ms`)
    const never = await checkOne(store, NOW_MS, key, policy('3/s, 3/h, 9/d'), 4)
    assert.deepEqual([never.allowed, never.retryAfterMs], [false, null])
  },

  'a window that refuses costs the others nothing, except for fixed windows': async (store, policy) => {
    const key = freshKey()
    const both = policy('2/m, 10/h')
    const countsAll = both.algorithm === 'fixed_window'
    await repeat(5, () => checkOne(store, NOW_MS, key, both))
    await checkOne(store, NOW_MS, key, both, 3)
    const { windows } = await checkOne(store, NOW_MS, key, both, 0)
    assert.deepEqual(
      windows?.map(({ remaining }) => remaining),
      [0, countsAll ? 2 : 8],
    )
  },

  'admits exactly the limit of each window of 200 checks at once': async (store, policy) => {
    for (const [rate, most] of [
      ['50/m, 80/h', 50],
      ['80/m, 50/h, 90/d', 50],
    ] as const) {
      const key = freshKey()
      const decisions = await Promise.all(Array.from({ length: 200 }, () => checkOne(store, NOW_MS, key, policy(rate))))
      assert.equal(decisions.filter(({ allowed }) => allowed).length, most)
    }
  },

  'answers a batch of different costs and windows as it answers them one by one': async (store, policy) => {
    const [together, single] = [freshKey(), freshKey()]
    const checks = [
      [policy('10/m, 20/h'), 4],
      [policy('10/m, 20/h'), 4],
      [policy('10/m'), 1],
      [policy('10/m, 20/h'), 1],
      [policy('9/h, 10/m'), 3],
      [policy('20/h'), 3],
      [policy('10/m, 30/h, 40/d'), 2],
      [policy('10/m, 30/h, 40/d'), 2],
      [policy('10/d'), 2],
    ] as const
    const expected = []
    for (const [policy, cost] of checks) expected.push(await checkOne(store, NOW_MS, single, policy, cost))
    const batch = checks.map(([policy, cost]) => ({ key: together, policy, cost }))
    assert.deepEqual(await checkAll(store, NOW_MS, ...batch), expected)
  },

  'keeps the state of periods that stay when windows are added and removed': async (store, policy) => {
    const key = freshKey()
    const used = async (rate: string) => (await checkOne(store, NOW_MS, key, policy(rate), 0)).windows
    await checkOne(store, NOW_MS, key, policy('10/h'), 3)
    await checkOne(store, NOW_MS, key, policy('20/m, 10/h'))
    assert.deepEqual(
      (await used('20/m, 10/h'))?.map(({ remaining }) => remaining),
      [19, 6],
    )
    await checkOne(store, NOW_MS, key, policy('10/h, 20/d, 20/60s'))
    assert.deepEqual(
      (await used('10/h, 20/d, 20/60s'))?.map(({ remaining }) => remaining),
      [5, 19, 18],
    )
    assert.equal((await checkOne(store, NOW_MS, key, policy('20/m'))).count, 3)
    assert.equal((await checkOne(store, NOW_MS, key, policy('10/h'))).count, 1, 'a removed window starts afresh')
  },

  'applies another limit of a window to the same counter at once': async (store, policy) => {
    const key = freshKey()
    await repeat(3, () => checkOne(store, NOW_MS, key, policy('3/m, 9/h')))
    const raised = await checkOne(store, NOW_MS, key, policy('5/m, 9/h'))
    assert.deepEqual([raised.allowed, raised.count], [true, 4])
    assert.equal((await checkOne(store, NOW_MS, key, policy('5/m, 4/h'))).limit, 4)
  },

  'gives back to every window that a check used, but to none that has ended': async (store, policy) => {
    if (store.settle === undefined) return
    const several = policy('10/m, 20/h, 30/d, 7/10s')
    const check = { key: freshKey(), policy: several, cost: 3 }
    const [decision] = await checkAll(store, NOW_MS, check)
    assert.ok(decision !== undefined)
    const laterMs = NOW_MS + 50 * SECOND_MS
    await checkOne(store, laterMs, check.key, several, 2)
    const used = toSettlement(check, decision, NOW_MS)
    await store.settle(
      [
        { ...used, cost: 1 },
        { ...used, cost: 2 },
      ],
      laterMs,
    )
    const { windows } = await checkOne(store, laterMs, check.key, several, 0)
    assert.deepEqual(
      windows?.map(({ remaining }) => remaining),
      [8, 18, 28, 5],
    )
  },

  'refuses everything where one window has the limit 0': async (store, policy) => {
    const { allowed, limit, retryAfterMs } = await checkOne(store, NOW_MS, freshKey(), policy('5/m, 0/h'))
    assert.deepEqual([allowed, limit, retryAfterMs], [false, 0, null])
  },

  'takes as none, of several windows, each that begins more than an hour and its period ahead': async (
    store,
    policy,
  ) => {
    const key = freshKey()
    const startMs = Math.floor(NOW_MS / DAY_MS) * DAY_MS
    await checkOne(store, startMs + DAY_MS, key, policy('5/m, 6/h, 7/d'), 3)
    const { windows } = await checkOne(store, startMs, key, policy('5/m, 6/h, 7/d'))
    assert.deepEqual(
      windows?.map(({ remaining }) => remaining),
      [4, 5, 3],
    )
    const later = await checkOne(store, startMs, key, policy('5/m, 6/h, 7/d'), 5)
    assert.deepEqual([later.allowed, later.limit], [false, 7], 'the day counts on, and the others from the beginning')
  },

  'forgets all windows of a counter that is reset': async (store, policy) => {
    const key = freshKey()
    await checkOne(store, NOW_MS, key, policy('1/m, 2/h'))
    await store.reset([key])
    const { windows } = await checkOne(store, NOW_MS, key, policy('1/m, 2/h'), 0)
    assert.deepEqual(
      windows?.map(({ remaining }) => remaining),
      [1, 2],
    )
  },

  'keeps windows as long as the longest of them lasts': async (store, policy) => {
    const key = freshKey()
    await checkOne(store, NOW_MS, key, policy('5/s, 5/d'), 5)
    const late = await checkOne(store, NOW_MS + HOUR_MS, key, policy('5/s, 5/d'), 5)
    assert.deepEqual([late.allowed, late.limit], [false, 5])
    assert.equal((await checkOne(store, NOW_MS + 2 * DAY_MS, key, policy('5/s, 5/d'), 5)).allowed, true)
  },
}

const monthly = (rate: string) => toPolicy('fixed_window', parseRate(rate))

const MONTH_CASES: Readonly<Record<string, (store: Store) => Promise<void>>> = {
  'fixed_window: a month ends with the calendar, in leap years and others': async (store) => {
    for (const [day, next] of [
      ['2024-02-01', '2024-03-01'],
      ['2023-02-01', '2023-03-01'],
      ['2000-02-01', '2000-03-01'],
      ['2100-02-01', '2100-03-01'],
      ['2026-11-01', '2026-12-01'],
      ['2026-12-01', '2027-01-01'],
    ] as const) {
      const key = freshKey()
      const [startMs, endMs] = [Date.parse(day), Date.parse(next)]
      const first = await checkOne(store, startMs, key, monthly('2/month'))
      assert.deepEqual([first.count, first.resetMs], [1, endMs - startMs], day)
      await checkOne(store, startMs + DAY_MS, key, monthly('2/mo'))
      const last = await checkOne(store, endMs - 1, key, monthly('2/month'))
      assert.deepEqual([last.allowed, last.count, last.retryAfterMs], [false, 3, 1], day)
      const after = await checkOne(store, endMs, key, monthly('2/month'))
      assert.deepEqual([after.allowed, after.count], [true, 1], day)
    }
  },

  'fixed_window: a month goes on when the clock steps back over its beginning': async (store) => {
    const key = freshKey()
    const marchMs = Date.parse('2026-03-01')
    await checkOne(store, marchMs + 5, key, monthly('5/month, 3/d'))
    const back = await checkOne(store, marchMs - 7, key, monthly('5/month, 3/d'))
    assert.deepEqual([back.count, back.resetMs], [2, DAY_MS + 7])
    const { windows } = await checkOne(store, marchMs + 6, key, monthly('5/month, 3/d'), 0)
    assert.deepEqual(
      windows?.map(({ remaining }) => remaining),
      [3, 1],
    )
  },

  'fixed_window: a month that begins more than 31 days ahead is taken as none': async (store) => {
    const key = freshKey()
    const mayMs = Date.parse('2026-05-01')
    await checkOne(store, mayMs, key, monthly('5/month'))
    assert.equal((await checkOne(store, mayMs - 31 * DAY_MS, key, monthly('5/month'))).count, 2)
    const before = await checkOne(store, mayMs - 32 * DAY_MS, key, monthly('5/month'))
    assert.deepEqual([before.count, before.resetMs], [1, 2 * DAY_MS])
  },

  'fixed_window: a month and windows of as many days are counted apart': async (store) => {
    const key = freshKey()
    // A window of 31 days begins on this day together with a month of 31 days.
    const startMs = [...Array(1_000).keys()]
      .map((windows) => windows * 31 * DAY_MS)
      .find((ms) => ms > NOW_MS && new Date(ms).getUTCDate() === 1 && isLong(ms))
    assert.ok(startMs !== undefined)
    await checkOne(store, startMs, key, monthly('9/31d'))
    assert.equal((await checkOne(store, startMs, key, monthly('9/month'))).count, 1)
    assert.equal((await checkOne(store, startMs, key, monthly('9/month'))).count, 2)
    assert.equal((await checkOne(store, startMs, key, monthly('9/31d'))).count, 1)
    assert.equal((await checkOne(store, startMs, key, monthly('9/31d, 9/month'))).count, 2)
  },
}

function isLong(monthMs: number): boolean {
  return new Date(monthMs + 30 * DAY_MS).getUTCDate() === 31
}

function casesFor(algorithm: Algorithm): [string, (store: Store) => Promise<void>][] {
  return Object.entries(CASES).map(([name, prove]) => [
    `${algorithm}, several windows: ${name}`,
    (store) => prove(store, (rate) => toPolicy(algorithm, parseRate(rate))),
  ])
}

export const WINDOW_CASES: Readonly<Record<string, (store: Store) => Promise<void>>> = {
  ...Object.fromEntries(RATE_ALGORITHMS.flatMap(casesFor)),
  ...MONTH_CASES,
}
