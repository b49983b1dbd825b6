/** With `middleware.lease` busy clients seldom cost a store call, and the limit holds. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { MemoryStore, type RateLimitOptions, type Store } from '../../src/index.js'
import { startApp } from '../support/build-app.js'

/** A store as in a network, that counts the batches that it was asked. */
function countingStore() {
  const memory = new MemoryStore()
  const store = {
    concurrency: 1,
    batches: 0,
    check: async (...[checks, nowMs]: Parameters<Store['check']>) => {
      store.batches++
      return memory.check(checks, nowMs)
    },
    settle: async (settlements: Parameters<MemoryStore['settle']>[0]) => memory.settle(settlements),
    reset: async (keys: readonly string[]) => memory.reset(keys),
    close: () => memory.close(),
  }
  return store
}

async function start(t: TestContext, middleware: RateLimitOptions['middleware'], options: RateLimitOptions = {}) {
  const store = countingStore()
  const app = await startApp(t, {
    database: null,
    plugin: { ...options, middleware: { backend: store, lease: '1s', ...middleware } },
  })
  return { ...app, store }
}

test('a busy client is refused at its limit exactly, and its headers count down', async (t) => {
  const { statuses, request, store, clock } = await start(t, { defaultRate: '200/m' })
  for (let sent = 1; sent <= 150; sent++) {
    const { headers } = await request('/')
    assert.equal(headers['x-ratelimit-remaining'], String(200 - sent))
    clock.advance(5)
  }
  assert.ok(store.batches < 150 / 10, `${store.batches} calls`)
  assert.deepEqual(await statuses(52, '/'), [...Array<number>(50).fill(200), 429, 429])
})

test('a limit that refuses nothing asks the store for each request', async (t) => {
  const { statuses, store } = await start(t, { defaultRate: '100/m', block: false })
  await statuses(40, '/')
  assert.equal(store.batches, 40)
})

test('a reset ends a share', async (t) => {
  const { app, statuses, request } = await start(t, { defaultRate: '200/m' })
  await statuses(30, '/')
  await app.smartRateLimit.reset('ip:127.0.0.1')
  assert.equal((await request('/')).headers['x-ratelimit-remaining'], '199')
})

test('a Store without settle is refused at start, with the remedy', async (t) => {
  const { settle, ...store } = countingStore()
  assert.ok(settle)
  await assert.rejects(
    start(t, { backend: store }),
    /Setting "middleware.lease" is "1s", but the Store given as backend has no method settle: add it, or leave lease out/,
  )
})
