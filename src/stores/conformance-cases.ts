/** Conformance cases for keys, which hold for every algorithm, and for fixed windows. */
import assert from 'node:assert/strict'
import type { Policy } from '../limiter/algorithm.js'
import { MINUTE_MS } from '../time/clock.js'
import { checkAll, checkOne, freshKey, MAX_LIMIT, NOW_MS, repeat } from './conformance-checks.js'
import type { Store } from './store.js'

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
      for (const [place, { count }] of decisions.entries()) {
        assert.equal(count, round, JSON.stringify(checks[place]?.key))
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
