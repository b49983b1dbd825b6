import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { MemoryStore } from '../../src/stores/memory-store.js'

const POLICY = { algorithm: 'fixed_window', limit: 1, periodMs: 60_000 } as const
const NOW_MS = 1_705_161_600_000

function check(store: MemoryStore, key: string, nowMs = NOW_MS) {
  return store.checkOne({ key, policy: POLICY, cost: 1 }, nowMs)
}

describe('the memory store, bounded', () => {
  test('keeps no more counters than it may, the oldest going first', () => {
    const store = new MemoryStore({ maxKeys: 10 })
    for (let place = 0; place < 1_000; place++) check(store, `k${place}`)
    assert.equal(store.size, 10)
    assert.equal(check(store, 'k999').count, 2)
    assert.equal(check(store, 'k0').count, 1)
  })

  test('never evicts the counter of a blocked client for strangers', () => {
    const store = new MemoryStore({ maxKeys: 10 })
    for (let attempt = 0; attempt < 3; attempt++) check(store, 'blocked')
    for (let place = 0; place < 1_000; place++) check(store, `k${place}`)
    assert.equal(check(store, 'blocked').count, 4)
  })

  test('counts newcomers together when only blocked clients are left', () => {
    const store = new MemoryStore({ maxKeys: 3 })
    for (const key of ['a', 'b', 'c']) for (let attempt = 0; attempt < 2; attempt++) check(store, key)
    assert.equal(check(store, 'd').allowed, true)
    assert.equal(check(store, 'e').allowed, false)
    assert.equal(check(store, 'a').count, 3)
    assert.equal(store.size, 3)
  })

  test('counts newcomers of every period together, whatever periods others have', () => {
    const store = new MemoryStore({ maxKeys: 1 })
    for (let attempt = 0; attempt < 2; attempt++) check(store, 'blocked')
    const newcomers = Array.from({ length: 6 }, (_, place) => {
      const periodMs = place % 2 === 0 ? 60_000 : 3_600_000
      return store.checkOne({ key: `k${place}`, policy: { ...POLICY, periodMs }, cost: 1 }, NOW_MS).allowed
    })
    assert.deepEqual(newcomers, [true, true, false, false, false, false])
  })

  test('makes room with the counters of blocked clients once their window is over', () => {
    const store = new MemoryStore({ maxKeys: 3 })
    for (const key of ['a', 'b', 'c']) for (let attempt = 0; attempt < 2; attempt++) check(store, key)
    assert.equal(check(store, 'd', NOW_MS + 60_000).count, 1)
    assert.equal(check(store, 'e', NOW_MS + 60_000).count, 1)
    assert.equal(store.size, 3)
  })

  for (const algorithm of ['sliding_window', 'token_bucket', 'leaky_bucket'] as const) {
    test(`does the same for ${algorithm}`, () => {
      const store = new MemoryStore({ maxKeys: 3 })
      const ask = (key: string, nowMs = NOW_MS) =>
        store.checkOne({ key, policy: { ...POLICY, algorithm }, cost: 1 }, nowMs)
      for (const key of ['a', 'b', 'c']) for (let attempt = 0; attempt < 2; attempt++) ask(key)
      assert.equal(ask('d').allowed, true, 'newcomers count together')
      assert.equal(ask('e').allowed, false)
      assert.equal(ask('a').allowed, false, 'the blocked client is still known')
      assert.equal(ask('e', NOW_MS + 120_000).allowed, true, 'and makes room when its use is forgotten')
      assert.equal(ask('f', NOW_MS + 120_000).allowed, true)
      assert.equal(store.size, 3)
    })
  }

  test('keeps a client that is blocked by one algorithm, although another one allows it', () => {
    const store = new MemoryStore({ maxKeys: 2 })
    for (let attempt = 0; attempt < 2; attempt++) check(store, 'blocked')
    store.checkOne({ key: 'blocked', policy: { ...POLICY, algorithm: 'token_bucket' }, cost: 1 }, NOW_MS)
    for (let place = 0; place < 100; place++) check(store, `k${place}`)
    assert.equal(check(store, 'blocked').count, 3)
  })

  test('forgets counters that have run out when new ones come, and only those', () => {
    const store = new MemoryStore()
    check(store, 'kept', NOW_MS + 600_000)
    for (let place = 0; place < 50_000; place++) check(store, `old${place}`)
    for (let place = 0; place < 60_000; place++) check(store, `new${place}`, NOW_MS + 70_000)
    assert.equal(store.size, 60_001)
    assert.equal(check(store, 'kept', NOW_MS + 600_000).count, 2)
    for (let place = 0; place < 60_000; place += 100)
      assert.equal(check(store, `new${place}`, NOW_MS + 70_000).count, 2)
  })

  test('makes room for a million random keys, and counts on for those it kept', () => {
    const store = new MemoryStore()
    for (let place = 0; place < 1_000_000; place++) check(store, `k${place}`)
    assert.equal(store.size, 100_000)
    assert.equal(check(store, 'k999999').count, 2)
    assert.equal(check(store, 'k900000').count, 2)
    assert.equal(check(store, 'k0').count, 1)
  })

  test('refuses a size that is none', () => {
    for (const maxKeys of [0, -1, 1.5, Number.NaN]) assert.throws(() => new MemoryStore({ maxKeys }), /maxKeys/)
  })
})
