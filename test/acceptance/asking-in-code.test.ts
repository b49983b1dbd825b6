/** `check()`, `peek()`, `decisionOf()` and `reset()` of `app.smartRateLimit`, and the decision of an error. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { FastifyInstance } from 'fastify'
import { PathTooLongError, RateLimitExceededError, StoreUnavailableError } from '../../src/index.js'
import type { Store } from '../../src/limiter/stores/store.js'
import { openDatabase, startApp } from '../support/build-app.js'
import { forAnyDatabase } from '../support/databases.js'

/** A route that spends what it is asked to, on top of what the hook spent. */
function spending(app: FastifyInstance): void {
  app.get('/spend/:cost', async (request) => {
    const { cost = '' } = Object(request.params)
    return app.smartRateLimit.check(request, { cost: Number(cost) })
  })
  app.get('/peek', async (request) => app.smartRateLimit.peek(request))
  app.get('/left-alone', { config: { smartRateLimit: false } }, async (request) => app.smartRateLimit.check(request))
}

forAnyDatabase((provider) => {
  test('check() uses the limit that holds for the request, answers, and refuses nothing', async (t) => {
    const database = await openDatabase(t, provider)
    const { app, request } = await startApp(t, {
      database,
      plugin: { logEvents: true, useDynamicRules: true },
      routes: spending,
    })
    await database.client.rateLimitRule.create({
      data: { name: 'spend', pathPattern: '^/spend', rate: '10/m', algorithm: 'sliding_window' },
    })
    await app.smartRateLimit.rules.reload()

    const first = await request('/spend/5')
    assert.deepEqual([first.status, first.headers['x-ratelimit-remaining']], [200, '9'])
    const { allowed, count, limit, remaining } = JSON.parse(first.text)
    assert.deepEqual([allowed, count, limit, remaining], [true, 6, 10, 4])
    const second = await request('/spend/5')
    assert.deepEqual([second.status, JSON.parse(second.text).allowed], [200, false])

    await app.smartRateLimit.events.flush()
    assert.equal(await database.client.rateLimitEvent.count(), 2, 'one for each request, none for each check()')
  })

  test('peek() shows where the client stands and uses nothing', async (t) => {
    const { request } = await startApp(t, {
      database: provider,
      plugin: { middleware: { defaultRate: '3/m' } },
      routes: spending,
    })
    const { text } = await request('/peek')
    const { allowed, count, remaining, retryAfterMs } = JSON.parse(text)
    assert.deepEqual([allowed, count, remaining, retryAfterMs], [true, 1, 2, 0])
    await request('/peek')
    const last = await request('/peek')
    const seen = JSON.parse(last.text)
    assert.deepEqual([last.status, seen.allowed, seen.count, seen.remaining], [200, false, 3, 0])
    assert.ok(seen.retryAfterMs > 0)
  })

  const CLIENTS = [
    ['ip', {}, 'ip:127.0.0.1'],
    ['header:X-Key', { 'x-key': 'ip:10.0.0.1' }, 'header:ip:10.0.0.1'],
    ['user', { 'x-user': '7' }, 'user:7'],
    [() => 'team:a', {}, 'team:a'],
    ['header:X-Key', { 'x-key': 'k'.repeat(200) }, `header:${'k'.repeat(200)}`],
  ] as const
  for (const [key, headers, name] of CLIENTS) {
    test(`reset(${JSON.stringify(name.slice(0, 30))}) forgets that client: the key is that of its events`, async (t) => {
      const database = await openDatabase(t, provider)
      const { app, statuses } = await startApp(t, {
        database,
        plugin: {
          logEvents: true,
          user: (request) => (request.headers['x-user'] ? { id: String(request.headers['x-user']) } : null),
          middleware: { key, defaultRate: () => '1/m' },
        },
      })
      assert.deepEqual(await statuses(3, '/', { headers }), [200, 429, 429])
      await app.smartRateLimit.events.flush()
      assert.equal((await database.client.rateLimitEvent.findFirst())?.key, name)

      await app.smartRateLimit.reset('ip:203.0.113.1')
      assert.deepEqual(await statuses(1, '/', { headers }), [429])
      await app.smartRateLimit.reset(name)

      assert.deepEqual(await statuses(2, '/', { headers }), [200, 429])
    })
  }

  for (const [key, headers, name] of CLIENTS) {
    if (typeof key === 'function') continue
    test(`reset("rule:api:…") forgets what a rule with key ${key} counted: ${name.slice(0, 30)}`, async (t) => {
      const database = await openDatabase(t, provider)
      const { app, statuses } = await startApp(t, {
        database,
        plugin: {
          logEvents: true,
          useDynamicRules: true,
          user: (request) => (request.headers['x-user'] ? { id: String(request.headers['x-user']) } : null),
        },
      })
      await database.client.rateLimitRule.create({ data: { name: 'api', pathPattern: '^/', rate: '1/m', key } })
      assert.deepEqual(await statuses(2, '/', { headers }), [200, 429])
      await app.smartRateLimit.events.flush()
      const event = await database.client.rateLimitEvent.findFirst()

      await app.smartRateLimit.reset(event?.key ?? '')

      assert.deepEqual(await statuses(2, '/', { headers }), [200, 429])
    })
  }
})

test('a route that opted out of the hook may ask; a skipped path, the allow list and a disabled plugin answer null', async (t) => {
  const middleware = { defaultRate: '1/m', allowList: ['10.0.0.0/8'], skipPaths: ['/peek'] }
  const { request } = await startApp(t, { database: null, plugin: { middleware }, routes: spending })
  const disabled = await startApp(t, { database: null, plugin: { enabled: false }, routes: spending })

  assert.equal(JSON.parse((await request('/left-alone')).text).count, 1)
  assert.equal(JSON.parse((await request('/left-alone')).text).allowed, false)
  assert.equal((await request('/left-alone', { from: '10.0.0.1' })).text, 'null')
  assert.equal((await request('/peek')).text, 'null')
  assert.equal((await disabled.request('/left-alone')).text, 'null')
})

test('check() refuses a cost that is none', async (t) => {
  const { request } = await startApp(t, { database: null, routes: spending })
  for (const cost of ['0', '-1', '1.5', 'x', '2147483648']) {
    const { status, text } = await request(`/spend/${cost}`)
    assert.equal(status, 500)
    assert.match(text, /"check.cost\\" is .*give an integer, 1 to 2147483647/)
  }
})

/** Answers what `decisionOf()` has for a request, refused or not, and which error had the same decision. */
function showDecisions(app: FastifyInstance): void {
  const { decisionOf } = app.smartRateLimit
  app.setErrorHandler((error, request, reply) => {
    const kind = [RateLimitExceededError, PathTooLongError, StoreUnavailableError].find((type) => error instanceof type)
    const decision = error instanceof Error && 'decision' in error ? error.decision : undefined
    reply.code(429).send({ kind: kind?.name, isSame: decision === decisionOf(request), decision })
  })
  app.get('/*', async (request) => ({ decision: decisionOf(request) }))
}

test('decisionOf() answers what the hook decided, and null where nothing checked the request', async (t) => {
  const seen: unknown[] = []
  const { request } = await startApp(t, {
    database: null,
    plugin: { middleware: { defaultRate: '5/m', skipPaths: ['/skipped'], allowList: ['198.51.100.0/24'] } },
    before(app) {
      // This scope is made before the plugin decorates requests.
      void app.register(async (scope) => {
        scope.get('/early', async (asked) => ({ decision: app.smartRateLimit.decisionOf(asked) }))
      })
      app.addHook('onRequest', async (asked) => void seen.push(app.smartRateLimit.decisionOf(asked)))
    },
    routes(app) {
      app.get('/opted-out', { config: { smartRateLimit: false } }, async (asked) => {
        const answered = await app.smartRateLimit.check(asked)
        return { decision: app.smartRateLimit.decisionOf(asked), remaining: answered?.remaining }
      })
      showDecisions(app)
    },
  })
  const decisionFor = async (path: string, from = '203.0.113.7') => JSON.parse((await request(path, { from })).text)

  const { decision } = await decisionFor('/')
  assert.deepEqual([decision.allowed, decision.count, decision.limit, decision.remaining], [true, 1, 5, 4])
  assert.equal((await decisionFor('/early')).decision.remaining, 3)
  assert.deepEqual(await decisionFor('/opted-out'), { decision: null, remaining: 2 })
  assert.deepEqual(await decisionFor('/skipped'), { decision: null })
  assert.deepEqual(await decisionFor('/', '198.51.100.7'), { decision: null })
  assert.deepEqual(seen, Array(5).fill(null), 'before the hook has run')
})

test('of several limits decisionOf() answers the one with the least left, or the one that refuses, as the headers do', async (t) => {
  const { request } = await startApp(t, {
    database: null,
    plugin: { middleware: { defaultRate: '12/m' } },
    routes(app) {
      const { limit, decisionOf } = app.smartRateLimit
      const onRequest = [limit({ rate: '1000/m', name: 'lax' }), limit({ rate: '10/m', name: 'strict' })]
      app.get('/both', { onRequest }, async (asked) => ({ decision: decisionOf(asked) }))
      const dear = limit({ rate: '20/m', cost: 8, algorithm: 'token_bucket' })
      app.get('/dear', { onRequest: dear }, async (asked) => ({ decision: decisionOf(asked) }))
      showDecisions(app)
    },
  })
  const shown = async (path: string) => {
    const { text, headers } = await request(path)
    const { kind, decision } = JSON.parse(text)
    const { 'x-ratelimit-limit': limit, 'x-ratelimit-remaining': remaining } = headers
    assert.deepEqual([limit, remaining], [String(decision.limit), String(decision.remaining)])
    return [kind, decision.limit, decision.remaining]
  }
  assert.deepEqual(await shown('/both'), [undefined, 10, 9])
  for (let used = 0; used < 7; used++) await shown('/')
  assert.deepEqual(await shown('/both'), [undefined, 12, 3], 'the default has less left by now')
  assert.deepEqual(await shown('/dear'), [undefined, 12, 2])
  assert.deepEqual(await shown('/dear'), [undefined, 12, 1])
  assert.deepEqual(await shown('/dear'), ['RateLimitExceededError', 20, 4], 'more is left of it, and it refuses')
})

test('the errors of refused requests carry their decision', async (t) => {
  const failing: Store = {
    concurrency: 1,
    check: async () => Promise.reject(new Error('away')),
    reset: async () => undefined,
    close: async () => undefined,
  }
  const database = await openDatabase(t, 'sqlite')
  await database.client.rateLimitRule.create({ data: { name: 'large', pathPattern: '(a|b)*a(a|b){94}$', rate: '7/m' } })
  const cases = [
    ['RateLimitExceededError', '/', { middleware: { defaultRate: '0/m' } }],
    ['StoreUnavailableError', '/', { onStoreError: 'deny', middleware: { backend: failing } }],
    ['PathTooLongError', `/${'ab'.repeat(5_000)}`, { useDynamicRules: true }],
  ] as const
  for (const [kind, path, plugin] of cases) {
    const { request } = await startApp(t, { database, plugin, routes: showDecisions })
    const { decision, ...error } = JSON.parse((await request(path)).text)
    assert.deepEqual(error, { kind, isSame: true })
    assert.deepEqual([decision.allowed, decision.unavailable ?? false], [false, kind === 'StoreUnavailableError'])
  }
})
