/** Conformance cases for keys, for fixed windows, and for every algorithm. */
import assert from 'node:assert/strict'
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '../../src/ground/time/clock.js'
import { type Policy, RATE_ALGORITHMS } from '../../src/limiter/algorithm.js'
import { toSettlement } from '../../src/limiter/settlement.js'
import type { Store } from '../../src/limiter/stores/store.js'
import { checkAll, checkOne, freshKey, MAX_LIMIT, NOW_MS, type PolicyFunction, repeat } from './checks.js'

export const ALGORITHM_CASES: Readonly<Record<string, (store: Store, policy: PolicyFunction) => Promise<void>>> = {
  'allows exactly the limit and answers the count and the wait': async (store, policy) => {
    const key = freshKey()
    const decisions = await repeat(4, () => checkOne(store, NOW_MS, key, policy(3)))
    assert.deepEqual(
      decisions.map(({ allowed, count, limit, remaining }) => [allowed, count, limit, remaining]),
      [
        [true, 1, 3, 2],
        [true, 2, 3, 1],
        [true, 3, 3, 0],
        [false, 4, 3, 0],
      ],
    )
    assert.deepEqual(
      decisions.map(({ retryAfterMs }) => retryAfterMs === 0),
      [true, true, true, false],
    )
  },

  'admits exactly the limit of 200 checks at once': async (store, policy) => {
    const key = freshKey()
    const decisions = await Promise.all(Array.from({ length: 200 }, () => checkOne(store, NOW_MS, key, policy(50))))
    const allowed = decisions.filter((decision) => decision.allowed)
    assert.deepEqual(
      allowed.map(({ count }) => count).sort((a, b) => a - b),
      Array.from({ length: 50 }, (_, index) => index + 1),
    )
    for (const { allowed, count } of decisions) assert.equal(count <= 50, allowed)
  },

  'answers the checks of a batch in their order': async (store, policy) => {
    const [a, b] = [freshKey(), freshKey()]
    const decisions = await checkAll(
      store,
      NOW_MS,
      ...[a, b, a, a, b].map((key) => ({ key, policy: policy(2), cost: 1 })),
    )
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

  'answers a batch of different costs, limits and periods as it answers them one by one': async (store, policy) => {
    const [together, single] = [freshKey(), freshKey()]
    const checks = [
      [policy(10), 4],
      [policy(10), 7],
      [policy(10), 4],
      [policy(5), 1],
      [policy(20), 3],
      [policy(10, 10_000), 3],
      [policy(10), 2],
    ] as const
    const batch = checks.map(([policy, cost]) => ({ key: together, policy, cost }))
    const expected = []
    for (const [policy, cost] of checks) expected.push(await checkOne(store, NOW_MS, single, policy, cost))
    assert.deepEqual(await checkAll(store, NOW_MS, ...batch), expected)
  },

  'allows the same check after the wait that it answered, and not a second earlier': async (store, policy) => {
    const day = 366 * DAY_MS
    const checks = [
      [policy(3), 1],
      [policy(7, SECOND_MS), 2],
      [policy(100, 7 * DAY_MS), 33],
      [policy(1, day), 1],
      [policy(MAX_LIMIT, SECOND_MS), 1],
      [policy(MAX_LIMIT, day), 1_000_003],
    ] as const
    for (const [policy, cost] of checks) {
      const key = freshKey()
      assert.equal((await checkOne(store, NOW_MS, key, policy, policy.limit)).allowed, true)
      const { allowed, retryAfterMs } = await checkOne(store, NOW_MS, key, policy, cost)
      assert.ok(!allowed && retryAfterMs !== null && retryAfterMs > 0, `a wait, not ${retryAfterMs}`)
      const secondEarlierMs = (Math.ceil(retryAfterMs / SECOND_MS) - 1) * SECOND_MS
      for (const waitMs of [secondEarlierMs, retryAfterMs - 1]) {
        assert.equal((await checkOne(store, NOW_MS + waitMs, key, policy, cost)).allowed, false, `after ${waitMs} ms`)
      }
      const late = await checkOne(store, NOW_MS + retryAfterMs, key, policy, cost)
      assert.deepEqual([late.allowed, late.retryAfterMs], [true, 0], `after ${retryAfterMs} ms`)
    }
  },

  'is back to zero after the time that it answered': async (store, policy) => {
    const key = freshKey()
    await checkOne(store, NOW_MS, key, policy(7), 5)
    const { resetMs } = await checkOne(store, NOW_MS + 1, key, policy(7))
    const { count, remaining } = await checkOne(store, NOW_MS + 1 + resetMs, key, policy(7))
    assert.deepEqual([count, remaining], [1, 6])
  },

  'applies another limit to the same counter at once': async (store, policy) => {
    const key = freshKey()
    await repeat(3, () => checkOne(store, NOW_MS, key, policy(3)))
    const raised = await checkOne(store, NOW_MS, key, policy(10))
    assert.deepEqual([raised.allowed, raised.count, raised.remaining], [true, 4, 6])
    const lowered = await checkOne(store, NOW_MS, key, policy(2))
    assert.deepEqual([lowered.allowed, lowered.remaining], [false, 0])
    assert.ok(lowered.retryAfterMs !== null)
    const wait = lowered.retryAfterMs
    assert.equal((await checkOne(store, NOW_MS + wait - 1, key, policy(2))).allowed, false)
    assert.equal((await checkOne(store, NOW_MS + wait, key, policy(2))).allowed, true)
  },

  'starts afresh with another period, in one batch too': async (store, policy) => {
    const key = freshKey()
    const hourly = policy(10, 60 * MINUTE_MS)
    await repeat(3, () => checkOne(store, NOW_MS, key, policy(10)))
    assert.equal((await checkOne(store, NOW_MS, key, hourly)).count, 1)
    const both = await checkAll(store, NOW_MS, { key, policy: hourly, cost: 1 }, { key, policy: policy(10), cost: 1 })
    assert.deepEqual(
      both.map(({ count }) => count),
      [2, 1],
    )
  },

  'starts afresh with another algorithm, in one batch too': async (store, policy) => {
    const key = freshKey()
    await checkOne(store, NOW_MS, key, policy(3), 3)
    const others = RATE_ALGORITHMS.filter((algorithm) => algorithm !== policy(3).algorithm)
    const decisions = await checkAll(
      store,
      NOW_MS,
      ...others.map((algorithm) => ({ key, policy: { ...policy(3), algorithm }, cost: 1 })),
    )
    for (const { count } of decisions) assert.equal(count, 1)
    assert.equal((await checkOne(store, NOW_MS, key, policy(3))).allowed, false, 'and does not forget what was used')
  },

  'never goes back when the clock does': async (store, policy) => {
    const key = freshKey()
    await repeat(2, () => checkOne(store, NOW_MS, key, policy(2)))
    const now = await checkOne(store, NOW_MS, key, policy(2))
    const back = await checkOne(store, NOW_MS - 30_000, key, policy(2))
    assert.equal(back.allowed, false)
    assert.equal(back.retryAfterMs, Number(now.retryAfterMs) + 30_000)
  },

  'counts on in what begins an hour or a period ahead, and takes as none what begins later': async (store, policy) => {
    for (const [periodMs, aheadMs] of [
      [MINUTE_MS, HOUR_MS],
      [DAY_MS, DAY_MS],
    ] as const) {
      const key = freshKey()
      const startMs = Math.floor(NOW_MS / periodMs) * periodMs
      await repeat(2, () => checkOne(store, startMs + aheadMs, key, policy(2, periodMs)))
      const behind = await checkOne(store, startMs, key, policy(2, periodMs), 0)
      assert.deepEqual([behind.allowed, behind.count], [false, 2], 'a clock that is behind resets nothing')
      assert.ok(Number(behind.retryAfterMs) <= aheadMs + 2 * periodMs)
      const again = await repeat(3, () => checkOne(store, startMs - 1, key, policy(2, periodMs)))
      assert.deepEqual(
        again.map(({ allowed, count }) => [allowed, count]),
        [
          [true, 1],
          [true, 2],
          [false, 3],
        ],
      )
      assert.ok(Number(again[2]?.retryAfterMs) <= 2 * periodMs, `${again[2]?.retryAfterMs} ms`)
    }
  },

  'refuses everything at limit 0 and says that waiting does not help': async (store, policy) => {
    const { allowed, count, remaining, retryAfterMs } = await checkOne(store, NOW_MS, freshKey(), policy(0))
    assert.deepEqual([allowed, count, remaining, retryAfterMs], [false, 1, 0, null])
  },

  'counts a cost, and says that waiting does not help when it is above the limit': async (store, policy) => {
    const key = freshKey()
    assert.equal((await checkOne(store, NOW_MS, key, policy(10), 4)).remaining, 6)
    const { allowed, retryAfterMs } = await checkOne(store, NOW_MS, key, policy(10), 7)
    assert.ok(!allowed && Number(retryAfterMs) > 0)
    for (const cost of [11, MAX_LIMIT, Number.MAX_SAFE_INTEGER]) {
      assert.equal((await checkOne(store, NOW_MS, freshKey(), policy(10), cost)).retryAfterMs, null)
    }
  },

  'peeks at a cost of 0: answers the count and whether one more would be allowed, and uses nothing': async (
    store,
    policy,
  ) => {
    const key = freshKey()
    const look = () => checkOne(store, NOW_MS, key, policy(2), 0)
    const seen = [await look()]
    for (let used = 0; used < 2; used++) {
      await checkOne(store, NOW_MS, key, policy(2))
      seen.push(await look(), await look())
    }
    assert.deepEqual(
      seen.map(({ allowed, count, remaining }) => [allowed, count, remaining]),
      [
        [true, 0, 2],
        [true, 1, 1],
        [true, 1, 1],
        [false, 2, 0],
        [false, 2, 0],
      ],
    )
    const refused = await checkOne(store, NOW_MS, key, policy(2))
    assert.equal((await look()).retryAfterMs, refused.retryAfterMs)
  },

  'counts up to the highest limit': async (store, policy) => {
    const key = freshKey()
    assert.equal((await checkOne(store, NOW_MS, key, policy(MAX_LIMIT), MAX_LIMIT - 1)).remaining, 1)
    const last = await checkOne(store, NOW_MS, key, policy(MAX_LIMIT))
    assert.deepEqual([last.allowed, last.count, last.remaining], [true, MAX_LIMIT, 0])
    const { allowed, count } = await checkOne(store, NOW_MS, key, policy(MAX_LIMIT))
    assert.deepEqual([allowed, count], [false, MAX_LIMIT + 1])
  },

  'charges a refused check only where the algorithm counts all requests': async (store, policy) => {
    const key = freshKey()
    await checkOne(store, NOW_MS, key, policy(5), 3)
    const refused = await repeat(3, () => checkOne(store, NOW_MS, key, policy(5), 3))
    assert.ok(refused.every(({ allowed }) => !allowed))
    const countsAll = policy(5).algorithm === 'fixed_window'
    assert.equal((await checkOne(store, NOW_MS, key, policy(5), 2)).allowed, !countsAll)
  },

  'gives back what a check used and its client did not, and no more': async (store, policy) => {
    if (store.settle === undefined) return
    const key = freshKey()
    await checkOne(store, NOW_MS, key, policy(10), 2)
    const check = { key, policy: policy(10), cost: 8 }
    const [decision] = await checkAll(store, NOW_MS, check)
    assert.ok(decision !== undefined)
    const used = { ...toSettlement(check, decision, NOW_MS), cost: 5 }
    await store.settle([used, { ...used, key: freshKey() }], NOW_MS + 1)
    await store.settle([], NOW_MS + 1)
    const { count, remaining } = await checkOne(store, NOW_MS, key, policy(10), 0)
    assert.deepEqual([count, remaining], [5, 5])
    await store.settle(
      [
        { ...used, cost: 2 },
        { ...used, cost: MAX_LIMIT },
      ],
      NOW_MS + 1,
    )
    assert.equal((await checkOne(store, NOW_MS, key, policy(10), 0)).count, 0)
  },

  'gives back of several checks together what each of them used': async (store, policy) => {
    if (store.settle === undefined) return
    const key = freshKey()
    const batch = [1, 2, 3].map((cost) => ({ key, policy: policy(10), cost }))
    const decisions = await checkAll(store, NOW_MS, ...batch)
    const settlements = batch.flatMap((check, index) => {
      const decision = decisions[index]
      return decision === undefined ? [] : [toSettlement(check, decision, NOW_MS)]
    })
    await store.settle(settlements.slice(1), NOW_MS)
    assert.equal((await checkOne(store, NOW_MS, key, policy(10), 0)).count, 1)
  },

  'gives nothing back of what was used since, also where a bucket has drained meanwhile': async (store, policy) => {
    if (store.settle === undefined) return
    for (const waitMs of [12 * SECOND_MS, 30 * SECOND_MS]) {
      const check = { key: freshKey(), policy: policy(10), cost: 4 }
      const [decision] = await checkAll(store, NOW_MS, check)
      assert.ok(decision !== undefined)
      await checkOne(store, NOW_MS + waitMs, check.key, policy(10), 3)
      await store.settle([toSettlement(check, decision, NOW_MS)], NOW_MS + waitMs)
      assert.equal((await checkOne(store, NOW_MS + waitMs, check.key, policy(10), 0)).count, 3, `after ${waitMs} ms`)
    }
  },

  'gives back nothing that the counter has forgotten, and nothing to a counter of another rate': async (
    store,
    policy,
  ) => {
    if (store.settle === undefined) return
    const edited = freshKey()
    const check = { key: freshKey(), policy: policy(10), cost: 5 }
    const [decision] = await checkAll(store, NOW_MS, check)
    assert.ok(decision !== undefined)
    const later = NOW_MS + 2 * decision.resetMs
    await checkOne(store, later, check.key, policy(10), 4)
    await checkOne(store, NOW_MS, edited, policy(20, 60 * MINUTE_MS), 4)
    const used = toSettlement(check, decision, NOW_MS)
    await store.settle([used, { ...used, key: edited }], later)
    assert.equal((await checkOne(store, later, check.key, policy(10), 0)).count, 4)
    assert.equal((await checkOne(store, NOW_MS, edited, policy(20, 60 * MINUTE_MS), 0)).count, 4)
  },

  'forgets all counters whose names begin alike, and no other, where it has resetAll': async (store, policy) => {
    if (store.resetAll === undefined) return
    const begin = `${freshKey()}%_*?[a]`
    const names = [`${begin}|one`, `${begin}|${'x'.repeat(1_000)}`, `${begin}|ü\ud800`]
    const others = [begin, begin.replace('%', 'y'), begin.replace('*', 'yy')]
    for (const key of [...names, ...others]) await checkOne(store, NOW_MS, key, policy(1))
    await store.resetAll([`${begin}|`, freshKey()])
    for (const key of names)
      assert.equal((await checkOne(store, NOW_MS, key, policy(1))).allowed, true, key.slice(0, 60))
    for (const key of others) assert.equal((await checkOne(store, NOW_MS, key, policy(1))).allowed, false, key)
  },

  'forgets a counter that is reset, and no other': async (store, policy) => {
    const [reset, kept] = [freshKey(), freshKey()]
    for (const key of [reset, kept]) await checkOne(store, NOW_MS, key, policy(1))
    await store.reset([freshKey(), reset])
    await store.reset([])
    assert.equal((await checkOne(store, NOW_MS, reset, policy(1))).allowed, true)
    assert.equal((await checkOne(store, NOW_MS, kept, policy(1))).allowed, false)
  },
}

type Cases = Readonly<Record<string, (store: Store) => Promise<void>>>

function fixedWindow(limit: number): Policy {
  return { algorithm: 'fixed_window', limit, periodMs: MINUTE_MS }
}

export const KEY_CASES: Cases = {
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
      assert.equal((await checkOne(store, NOW_MS, key, fixedWindow(5))).count, 1, JSON.stringify(key))
    }
    for (const key of long) assert.equal((await checkOne(store, NOW_MS, key, fixedWindow(5))).count, 2)
  },

  'answers keys that look alike in one batch, each as a counter of its own': async (store) => {
    const stem = freshKey()
    const ends = [
      '',
      ' ',
      '\t',
      'A',
      'a',
      'é',
      'e\u0301',
      'ß',
      'ss',
      'İ',
      '\u212a',
      'K',
      '\ufeff',
      '\ufffd',
      '\0',
      '\ud800',
    ]
    const odd = [
      '\udfff',
      '\uffff',
      '\u{10ffff}',
      '😀',
      '\\',
      '\\u0000',
      '"',
      "'",
      '{}',
      '}{',
      '%',
      '_',
      '\x1f',
      '\u2028',
    ]
    const long = ['\u4e00', '😀', 'x'].map((letter) => letter.repeat(300))
    const checks = [...ends, ...odd, ...long].map((end) => ({ key: stem + end, policy: fixedWindow(5), cost: 1 }))
    for (const round of [1, 2]) {
      const decisions = await checkAll(store, NOW_MS, ...checks)
      for (const [index, { count }] of decisions.entries()) {
        assert.equal(count, round, JSON.stringify(checks[index]?.key))
      }
    }
  },

  'lets other processes see that counters were reset, where it can': async (store) => {
    if (store.resets === undefined) return
    const before = await store.resets()
    await store.reset([freshKey()])
    assert.notEqual(await store.resets(), before)
  },

  'answers an empty batch': async (store) => {
    assert.deepEqual(await checkAll(store, NOW_MS), [])
  },
}

export const FIXED_WINDOW_CASES: Cases = {
  'fixed_window: advances counters of ever so many periods in one batch, and again in their next windows': async (
    store,
  ) => {
    const stem = freshKey()
    const checks = Array.from({ length: 24 }, (_, index) => {
      const policy = { ...fixedWindow(9), periodMs: ((index % 12) + 1) * 5_000 }
      return { key: `${stem} ${index}`, policy, cost: index + 1 }
    })
    for (const nowMs of [NOW_MS, NOW_MS + 1, NOW_MS + HOUR_MS, NOW_MS + DAY_MS]) {
      const decisions = await checkAll(store, nowMs, ...checks)
      for (const [index, { count, resetMs }] of decisions.entries()) {
        const { periodMs } = checks[index]?.policy ?? fixedWindow(0)
        assert.equal(count, (index + 1) * (nowMs === NOW_MS + 1 ? 2 : 1), `${periodMs} ms`)
        assert.equal(resetMs, periodMs - (nowMs % periodMs))
      }
    }
  },

  'fixed_window: counts refused checks too, until the window ends': async (store) => {
    const key = freshKey()
    const decisions = await repeat(4, () => checkOne(store, NOW_MS, key, fixedWindow(2)))
    assert.deepEqual(
      decisions.map(({ count, resetMs, retryAfterMs }) => [count, resetMs, retryAfterMs]),
      [
        [1, 45_000, 0],
        [2, 45_000, 0],
        [3, 45_000, 45_000],
        [4, 45_000, 45_000],
      ],
    )
  },

  'fixed_window: starts afresh when the window ends, not a millisecond earlier': async (store) => {
    const key = freshKey()
    await checkOne(store, NOW_MS, key, fixedWindow(1))
    assert.equal((await checkOne(store, NOW_MS + 44_999, key, fixedWindow(1))).allowed, false)
    const { allowed, count, resetMs } = await checkOne(store, NOW_MS + 45_000, key, fixedWindow(1))
    assert.deepEqual([allowed, count, resetMs], [true, 1, 60_000])
  },

  'fixed_window: counts beyond the highest limit': async (store) => {
    const key = freshKey()
    assert.equal((await checkOne(store, NOW_MS, key, fixedWindow(MAX_LIMIT), MAX_LIMIT)).remaining, 0)
    const { allowed, count } = await checkOne(store, NOW_MS, key, fixedWindow(MAX_LIMIT), 2)
    assert.deepEqual([allowed, count], [false, MAX_LIMIT + 2])
  },
}
