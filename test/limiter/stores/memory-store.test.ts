import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { type Policy, RATE_ALGORITHMS } from '../../../src/limiter/algorithm.js'
import { parseRate, toPolicy } from '../../../src/limiter/rate.js'
import { MemoryStore } from '../../../src/limiter/stores/memory/memory-store.js'
import { long } from '../../support/long.js'
import { fc } from '../../support/properties.js'

const POLICY = { algorithm: 'fixed_window', limit: 1, periodMs: 60_000 } as const
const NOW_MS = 1_705_161_600_000

function check(store: MemoryStore, key: string, nowMs = NOW_MS) {
  return store.checkOne({ key, policy: POLICY, cost: 1 }, nowMs)
}

describe('the memory store, bounded', () => {
  test('keeps no more counters than it may, the oldest going first', () => {
    const store = new MemoryStore({ maxKeys: 10 })
    for (let index = 0; index < 1_000; index++) check(store, `k${index}`)
    assert.equal(store.size, 10)
    assert.equal(check(store, 'k999').count, 2)
    assert.equal(check(store, 'k0').count, 1)
  })

  for (const algorithm of RATE_ALGORITHMS) {
    test(`counts on for a client in debt whose place strangers took: ${algorithm}`, () => {
      const store = new MemoryStore({ maxKeys: 10 })
      const policy = { ...POLICY, algorithm }
      store.checkOne({ key: 'charged', policy, cost: 3 * POLICY.limit, charges: true }, NOW_MS)
      for (let index = 0; index < 1_000; index++) store.checkOne({ key: `k${index}`, policy, cost: 1 }, NOW_MS)
      assert.equal(store.checkOne({ key: 'charged', policy, cost: 0 }, NOW_MS).count, 3 * POLICY.limit)
    })

    test(`counts on for a refused client whose place strangers took: ${algorithm}`, () => {
      const store = new MemoryStore({ maxKeys: 10 })
      const ask = (key: string) => store.checkOne({ key, policy: { ...POLICY, algorithm }, cost: 1 }, NOW_MS)
      const unbounded = new MemoryStore()
      for (let attempt = 0; attempt < 3; attempt++) {
        const expected = unbounded.checkOne({ key: 'refused', policy: { ...POLICY, algorithm }, cost: 1 }, NOW_MS)
        assert.deepEqual(ask('refused'), expected)
      }
      for (let round = 0; round < 3; round++) {
        for (let index = 0; index < 1_000; index++) ask(`k${round} ${index}`)
        const expected = unbounded.checkOne({ key: 'refused', policy: { ...POLICY, algorithm }, cost: 1 }, NOW_MS)
        assert.deepEqual(ask('refused'), expected)
      }
      assert.equal(store.size, 10)
    })

    test(`counts on in every window of a refused client whose place strangers took: ${algorithm}`, () => {
      const store = new MemoryStore({ maxKeys: 10 })
      const unbounded = new MemoryStore()
      const policy = toPolicy(algorithm, parseRate('9/s, 3/m, 7/h'))
      const ask = (key: string, nowMs: number) => store.checkOne({ key, policy, cost: 1 }, nowMs)
      for (let attempt = 0; attempt < 9; attempt++) {
        const nowMs = NOW_MS + attempt * 15_000
        const expected = unbounded.checkOne({ key: 'refused', policy, cost: 1 }, nowMs)
        assert.deepEqual(ask('refused', nowMs), expected, `attempt ${attempt}`)
        if (expected.allowed) continue
        for (let index = 0; index < 100; index++) ask(`k${attempt} ${index}`, nowMs)
      }
      store.reset(['refused'])
      assert.equal(ask('refused', NOW_MS + 8 * 15_000).count, 1)
    })

    test(`admits newcomers when only refused clients are there, and these stay refused: ${algorithm}`, () => {
      const store = new MemoryStore({ maxKeys: 3 })
      const ask = (key: string, nowMs = NOW_MS) =>
        store.checkOne({ key, policy: { ...POLICY, algorithm }, cost: 1 }, nowMs).allowed
      const clients = Array.from({ length: 12 }, (_, index) => `client ${index}`)
      for (const key of clients) assert.deepEqual([ask(key), ask(key)], [true, false], key)
      for (const key of clients) assert.equal(ask(key), false, key)
      assert.equal(store.size, 3)
      for (const key of clients) assert.equal(ask(key, NOW_MS + 120_000), true, key)
    })
  }

  test('however small it is, decides about a refused client as one without a bound does', (t) => {
    const seed = Number(process.env.TEST_SEED ?? Date.now() % 2 ** 31)
    t.diagnostic(`seed ${seed} (TEST_SEED)`)
    const steps = fc.record({
      key: fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f'),
      algorithm: fc.constantFrom(...RATE_ALGORITHMS),
      limit: fc.constantFrom(1, 2, 5),
      periodMs: fc.constantFrom(60_000, 60_000, 60_000, 3_600_000),
      cost: fc.constantFrom(0, 1, 1, 1, 3),
      waitMs: fc.constantFrom(0, 0, 0, 1_000, 20_000, 90_000),
    })
    const property = fc.property(fc.array(steps, { minLength: 50, maxLength: 200, size: 'max' }), (trace) => {
      const store = new MemoryStore({ maxKeys: 1 })
      const counters = new Map<string, { readonly unbounded: MemoryStore; isRefused: boolean; resetAtMs: number }>()
      let [last, nowMs] = ['a', NOW_MS]
      for (const { key, cost, waitMs, ...policy } of trace) {
        nowMs += waitMs
        // The place of the last key is taken: what it was not refused for is forgotten. Looking takes no place.
        if (cost > 0) {
          for (const [name, { isRefused, resetAtMs }] of counters) {
            if (key !== last && name.startsWith(last) && !(isRefused && resetAtMs > nowMs)) counters.delete(name)
          }
          last = key
        }
        const name = `${key} ${policy.algorithm}`
        const before = counters.get(name)
        const unbounded = before?.unbounded ?? new MemoryStore()
        const expected = unbounded.checkOne({ key, policy, cost }, nowMs)
        if (cost > 0 || before !== undefined) {
          const isRefused = cost > 0 ? !expected.allowed : (before?.isRefused ?? false)
          counters.set(name, { unbounded, isRefused, resetAtMs: nowMs + expected.resetMs })
        }
        // A counter that was forgotten after its expiry counts anew what was taken.
        const decision = store.checkOne({ key, policy, cost }, nowMs)
        assert.deepEqual({ ...decision, taken: 0 }, { ...expected, taken: 0 }, name)
      }
    })
    fc.assert(property, { seed, numRuns: 150 })
  })

  test('forgets of the refused clients that it has no room for those first whose refusal ends first', () => {
    const store = new MemoryStore({ maxKeys: 10 })
    const daily = { ...POLICY, periodMs: 86_400_000 }
    const ask = (key: string, policy: Policy) => store.checkOne({ key, policy, cost: 1 }, NOW_MS).allowed
    const refusedForLong = Array.from({ length: 5 }, (_, index) => `long ${index}`)
    for (const key of refusedForLong) assert.deepEqual([ask(key, daily), ask(key, daily)], [true, false])
    for (let index = 0; index < 10_000; index++) {
      assert.deepEqual([ask(`k${index}`, POLICY), ask(`k${index}`, POLICY)], [true, false])
    }
    for (const key of refusedForLong) assert.equal(ask(key, daily), false, key)
    assert.equal(store.size, 10)
  })

  test('a clock that was set back from far ahead leaves no counters that take the places of others', () => {
    const store = new MemoryStore({ maxKeys: 10 })
    const refuse = (stem: string, nowMs: number) => {
      for (let index = 0; index < 2_000; index++) {
        check(store, `${stem}${index}`, nowMs)
        check(store, `${stem}${index}`, nowMs)
      }
    }
    refuse('ahead', NOW_MS + 30 * 86_400_000)
    refuse('now', NOW_MS)
    assert.equal(check(store, 'ahead0').count, 1)
    assert.equal(check(store, 'now0').count, 3)
  })

  test('forgets a refused client that is reset, wherever its counter is', () => {
    const store = new MemoryStore({ maxKeys: 2 })
    for (let attempt = 0; attempt < 2; attempt++) check(store, 'refused')
    for (let index = 0; index < 10; index++) check(store, `k${index}`)
    store.reset(['refused'])
    assert.equal(check(store, 'refused').count, 1)
  })

  test('after 150,000 made-up keys that are refused it lets newcomers in, and none of the refused', long(), () => {
    const store = new MemoryStore()
    for (let attempt = 0; attempt < 2; attempt++) check(store, 'ip:203.0.113.7')
    for (let index = 0; index < 150_000; index++) {
      check(store, `header:${index}`)
      check(store, `header:${index}`)
    }
    const newcomers = Array.from({ length: 100 }, (_, index) => check(store, `ip:198.51.100.${index}`).allowed)
    assert.equal(newcomers.filter((allowed) => allowed).length, 100)
    assert.equal(check(store, 'ip:203.0.113.7').allowed, false)
    let forgotten = 0
    for (let index = 0; index < 150_000; index += 500) if (check(store, `header:${index}`).allowed) forgotten++
    assert.ok(forgotten <= 3, `${forgotten} of 300 were let in`)
    assert.equal(store.size, 100_000)
  })

  for (const algorithm of RATE_ALGORITHMS) {
    test(`a look at a refused client is no reason to forget it or another one: ${algorithm}`, () => {
      const store = new MemoryStore({ maxKeys: 1 })
      const ask = (key: string, cost: number, limit = 1) =>
        store.checkOne({ key, policy: { ...POLICY, algorithm, limit }, cost }, NOW_MS)
      assert.deepEqual([ask('refused', 1).allowed, ask('refused', 1).allowed], [true, false])
      // It has its place, and gives that to the next one.
      ask('refused', 0)
      ask('other', 1, 2)
      // It is kept apart, and does not take the place of the next one.
      ask('refused', 0)
      assert.deepEqual([ask('other', 1, 2).remaining, store.size], [0, 1])
      assert.equal(ask('refused', 1).allowed, false)
    })
  }

  test('makes room with the counters of refused clients once their window is over', () => {
    const store = new MemoryStore({ maxKeys: 3 })
    for (const key of ['a', 'b', 'c', 'd']) for (let attempt = 0; attempt < 2; attempt++) check(store, key)
    for (const key of ['d', 'e', 'a']) assert.equal(check(store, key, NOW_MS + 60_000).count, 1)
    assert.equal(store.size, 3)
  })

  test('keeps a client that is blocked by one algorithm, although another one allows it', () => {
    const store = new MemoryStore({ maxKeys: 2 })
    for (let attempt = 0; attempt < 2; attempt++) check(store, 'blocked')
    store.checkOne({ key: 'blocked', policy: { ...POLICY, algorithm: 'token_bucket' }, cost: 1 }, NOW_MS)
    for (let index = 0; index < 100; index++) check(store, `k${index}`)
    assert.equal(check(store, 'blocked').count, 3)
  })

  test('forgets counters that have run out when new ones come, and only those', () => {
    const store = new MemoryStore()
    check(store, 'kept', NOW_MS + 600_000)
    for (let index = 0; index < 50_000; index++) check(store, `old${index}`)
    for (let index = 0; index < 60_000; index++) check(store, `new${index}`, NOW_MS + 70_000)
    assert.equal(store.size, 60_001)
    assert.equal(check(store, 'kept', NOW_MS + 600_000).count, 2)
    for (let index = 0; index < 60_000; index += 100)
      assert.equal(check(store, `new${index}`, NOW_MS + 70_000).count, 2)
  })

  test('makes room for more random keys than it has, and counts on for those it kept', long(), () => {
    const store = new MemoryStore()
    for (let index = 0; index < 300_000; index++) check(store, `k${index}`)
    assert.equal(store.size, 100_000)
    assert.equal(check(store, 'k299999').count, 2)
    assert.equal(check(store, 'k200000').count, 2)
    assert.equal(check(store, 'k0').count, 1)
  })

  test('forgets permits that have ended when more than a thousand clients have some, and no others', () => {
    const store = new MemoryStore()
    const policy = { algorithm: 'concurrency', limit: 1, periodMs: 60_000 } as const
    const take = (key: string, nowMs: number, permit = 0) => store.checkOne({ key, policy, cost: 1, permit }, nowMs)
    for (let index = 0; index < 5_000; index++) take(`old${index}`, NOW_MS)
    for (let index = 0; index < 6_000; index++) take(`new${index}`, NOW_MS + 70_000)
    assert.equal(store.size, 6_000)
    for (let index = 0; index < 6_000; index++) assert.equal(take(`new${index}`, NOW_MS + 70_000).allowed, false)
  })

  test('a clock that is hours ahead and set back frees nothing that is in progress', () => {
    const store = new MemoryStore()
    const policy = { algorithm: 'concurrency', limit: 1, periodMs: 60_000 } as const
    const take = (key: string, nowMs: number) => store.checkOne({ key, policy, cost: 1 }, nowMs).allowed
    assert.equal(take('a', NOW_MS), true)
    assert.equal(take('b', NOW_MS + 10_000_000), true)
    assert.equal(take('a', NOW_MS), false)
  })

  test('refuses a size that is none', () => {
    for (const maxKeys of [0, -1, 1.5, Number.NaN, 2 ** 24 + 1])
      assert.throws(() => new MemoryStore({ maxKeys }), /maxKeys/)
  })
})
