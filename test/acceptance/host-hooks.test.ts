/** A host leaves requests alone by a function of its own, and hears of every refusal. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { FastifyRequest } from 'fastify'
import { type Decision, MemoryStore, type RateLimitOptions, type Store } from '../../src/index.js'
import { ERROR, openDatabase, startApp } from '../support/build-app.js'

const INSIDER = { headers: { 'x-insider': 'yes' } }

for (const [called, skip] of [
  ['at once', isInsider],
  ['later', async (request: FastifyRequest) => isInsider(request)],
] as const) {
  test(`requests that skip names, ${called}, are not counted, not logged, and see no headers`, async (t) => {
    const database = await openDatabase(t, 'sqlite')
    const { app, request, statuses } = await startApp(t, {
      database,
      plugin: { skip, logEvents: true, middleware: { defaultRate: '2/m', skipPaths: ['/skipped'] } },
      routes: (scope) => {
        scope.get('/*', async () => 'ok')
        scope.get('/peek', async (asked) => String(await app.smartRateLimit.peek(asked)))
        scope.get('/own', { onRequest: scope.smartRateLimit.limit({ rate: '1/m' }) }, async () => 'ok')
      },
    })
    assert.deepEqual(await statuses(5, '/', INSIDER), [200, 200, 200, 200, 200])
    assert.equal((await request('/', INSIDER)).headers['x-ratelimit-limit'], undefined)
    assert.equal((await request('/peek', INSIDER)).text, 'null')
    assert.deepEqual(await statuses(2, '/own', INSIDER), [200, 429])
    assert.deepEqual(await statuses(3, '/'), [200, 200, 429])
    await app.smartRateLimit.events.flush()
    assert.equal(await database.client.rateLimitEvent.count(), 3)
  })
}

test('only true skips: a request is counted where skip fails, which is logged once, or answers something else', async (t) => {
  for (const skip of [
    () => {
      throw new Error('no idea')
    },
    () => Promise.reject(new Error('no idea')),
  ]) {
    const { statuses, log } = await startWithoutDatabase({ skip })
    assert.deepEqual(await statuses(3, '/'), [200, 200, 429])
    assert.deepEqual(
      log.map(({ level, msg }) => [level, msg]),
      [[ERROR, 'Rate limit setting "skip" failed: no idea']],
    )
  }
  for (const answer of [undefined, null, 1, 'false', {}]) {
    const { statuses } = await startWithoutDatabase({ skip: () => answer as unknown as boolean })
    assert.deepEqual(await statuses(3, '/'), [200, 200, 429])
  }
  await assert.rejects(startWithoutDatabase({ skip: true as never }), /"skip" is true: give a function of the request/)

  function startWithoutDatabase(plugin: RateLimitOptions) {
    return startApp(t, { database: null, plugin: { ...plugin, middleware: { defaultRate: '2/m' } } })
  }
})

test('onRefused is called for every refusal, with the request and its decision, and for nothing else', async (t) => {
  const refused: [url: string, decision: Decision][] = []
  const counters = new MemoryStore()
  let isAway = false
  const backend: Store = {
    concurrency: 1,
    check: (checks, nowMs) => (isAway ? Promise.reject(new Error('away')) : counters.check(checks, nowMs)),
    reset: (keys) => counters.reset(keys),
    close: () => undefined,
  }
  const { request, statuses } = await startApp(t, {
    database: null,
    plugin: {
      onRefused: ({ url }, decision) => refused.push([url, decision]),
      onStoreError: 'deny',
      middleware: { backend, defaultRate: '2/m', rateLimits: { '/own': '9/m' }, denyList: ['203.0.113.66'] },
    },
    routes: (scope) => {
      const { limit } = scope.smartRateLimit
      scope.get('/*', async () => 'ok')
      scope.get('/own', { onRequest: limit({ rate: '1/m' }) }, async () => 'ok')
      scope.get('/watched', { onRequest: limit({ rate: '1/m', block: false }) }, async () => 'ok')
    },
  })
  assert.deepEqual(await statuses(3, '/'), [200, 200, 429])
  assert.deepEqual(await statuses(2, '/own', { from: '203.0.113.1' }), [200, 429])
  assert.deepEqual(await statuses(2, '/watched', { from: '203.0.113.1' }), [200, 200])
  assert.equal((await request('/denied', { from: '203.0.113.66' })).status, 403)
  isAway = true
  assert.equal((await request('/away', { from: '203.0.113.2' })).status, 503)

  assert.deepEqual(
    refused.map(([url, { allowed, limit, unavailable }]) => [url, allowed, limit, unavailable]),
    [
      ['/', false, 2, undefined],
      ['/own', false, 1, undefined],
      ['/denied', false, 0, undefined],
      ['/away', false, 2, true],
    ],
  )
})

test('an onRefused that fails changes no answer, and is logged once', async (t) => {
  for (const onRefused of [
    () => {
      throw new Error('no pager')
    },
    async () => Promise.reject(new Error('no pager')),
  ]) {
    const { statuses, log } = await startApp(t, {
      database: null,
      plugin: { onRefused, middleware: { defaultRate: '0/m' } },
    })
    assert.deepEqual(await statuses(3, '/'), [429, 429, 429])
    assert.deepEqual(
      log.map(({ level, msg }) => [level, msg]),
      [[ERROR, 'Rate limit setting "onRefused" failed: no pager']],
    )
  }
})

function isInsider({ headers }: FastifyRequest): boolean {
  return headers['x-insider'] === 'yes'
}
