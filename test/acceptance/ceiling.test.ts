/** `middleware.ceiling`: what an address may request in all, whatever else its requests are counted by. */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { describe, type TestContext, test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { ClientMemory } from '../../src/ground/remember.js'
import type { Check, MiddlewareOptions, RateLimitOptions, Store } from '../../src/index.js'
import { MemoryStore } from '../../src/limiter/stores/memory/memory-store.js'
import { startApp, WARN } from '../support/build-app.js'
import { forAnyDatabase } from '../support/databases.js'
import { eventually } from '../support/eventually.js'
import { REDIS_URL, redisMissing } from '../support/redis.js'

const ALICE = '203.0.113.7'
const BOB = '203.0.113.8'
const byHeader = (value: string | number, from = ALICE) => ({ headers: { 'x-a': String(value) }, from })

/** A store that keeps the checks of each call. */
function recordingStore() {
  const memory = new MemoryStore()
  const calls: (readonly Check[])[] = []
  const store: Store = {
    concurrency: 1,
    check(checks, nowMs) {
      calls.push(checks)
      return memory.check(checks, nowMs)
    },
    reset: (keys) => memory.reset(keys),
    close: () => undefined,
  }
  return { store, calls }
}

async function start(t: TestContext, middleware: MiddlewareOptions, plugin: RateLimitOptions = {}) {
  return startApp(t, { database: null, plugin: { ...plugin, middleware } })
}

for (const [name, backend] of [
  ['memory', { middleware: {} }],
  ['Redis', { redis: REDIS_URL, namespace: `ceiling-${randomUUID()}`, middleware: { backend: 'redis' } }],
] as const satisfies readonly (readonly [string, RateLimitOptions])[]) {
  describe(`a ceiling counted in ${name}`, { skip: name === 'Redis' && redisMissing }, () => {
    const limits = (middleware: MiddlewareOptions) => ({ ...backend.middleware, ...middleware })
    const fresh = () => ('namespace' in backend ? { ...backend, namespace: `ceiling-${randomUUID()}` } : {})

    test('puts an end to made-up values of a header, per address', async (t) => {
      const app = await start(t, limits({ defaultRate: '2/m', key: 'header:x-a', ceiling: '4/m' }), fresh())
      for (const value of [1, 2, 3]) assert.deepEqual(await app.statuses(1, '/', byHeader(value)), [200])
      const admitted = await app.request('/', byHeader(4))
      assert.deepEqual([admitted.status, admitted.headers['x-ratelimit-limit']], [200, '4'])
      const refused = await app.request('/', byHeader(5))
      assert.deepEqual([refused.status, refused.headers['x-ratelimit-limit']], [429, '4'])
      assert.deepEqual(await app.statuses(2, '/', byHeader(6)), [429, 429])
      assert.deepEqual(await app.statuses(3, '/', byHeader(1, BOB)), [200, 429, 429])
      await app.app.smartRateLimit.reset(`ip:${ALICE}`)
      assert.deepEqual(await app.statuses(1, '/', byHeader(7)), [200])
      app.clock.advance(60_000)
      assert.deepEqual(await app.statuses(4, '/', byHeader(1)), [200, 200, 429, 429])
    })

    for (const [when, userFor] of [
      ['at once', (id: string) => id],
      ['later', async (id: string) => id],
    ] as const)
      test(`leaves nothing to be remembered of what a refused address makes up, whose user is known ${when}`, async (t) => {
        const kept: string[] = []
        const { keep } = ClientMemory.prototype
        t.mock.method(
          ClientMemory.prototype,
          'keep',
          function (this: ClientMemory<unknown>, text: string, value: unknown) {
            keep.call(this, text, value)
            if (this.values.has(text)) kept.push(text)
            return value
          },
        )
        const middleware = limits({ rateLimits: { '/files/': '9/m' }, key: 'user+header:x-a', ceiling: '2/m' })
        const app = await start(t, middleware, {
          ...fresh(),
          user: ({ headers }) => userFor(String(headers['x-user'])),
        })
        const ask = (value: string) =>
          app.request(`/files/${value}`, {
            headers: { 'x-a': `header ${value}`, 'x-user': `user ${value}` },
            from: ALICE,
          })
        const isKept = (value: string) => kept.some((text) => text.includes(value))

        const statuses = []
        for (const value of ['one', 'two', 'three', 'four', 'five']) statuses.push((await ask(value)).status)
        assert.deepEqual(statuses, [200, 200, 429, 429, 429])
        assert.deepEqual(['one', 'two', 'four', 'five'].map(isKept), [true, true, false, false])
        app.clock.advance(60_000)
        await ask('six')
        assert.ok(isKept('six'), 'the next window is another one')
      })

    test('refuses where the other limit only counts', async (t) => {
      const app = await start(t, limits({ defaultRate: '1/m', block: false, ceiling: '2/m' }), fresh())
      assert.deepEqual(await app.statuses(4, '/', { from: ALICE }), [200, 200, 429, 429])
    })

    test('shows the longer wait where both refuse', async (t) => {
      for (const [defaultRate, ceiling, limit, waitMs] of [
        ['1/m', '2/h', 2, 0],
        ['2/h', '1/m', 2, 60_000],
        ['0/m', '1/h', 0, 0],
      ] as const) {
        const app = await start(t, limits({ defaultRate, ceiling }), fresh())
        for (let times = 0; times < 2; times++) {
          await app.statuses(1, '/', { from: ALICE })
          app.clock.advance(waitMs)
        }
        await app.statuses(1, '/', { from: ALICE })
        for (const time of ['the first time', 'again']) {
          const { status, headers } = await app.request('/', { from: ALICE })
          assert.deepEqual([status, Number(headers['x-ratelimit-limit'])], [429, limit], `${defaultRate} ${time}`)
          if (limit === 0) assert.equal(headers['retry-after'], undefined)
          else assert.ok(Number(headers['retry-after']) > 60)
        }
      }
    })

    test('counts every request as one, whatever it costs', async (t) => {
      const app = await startApp(t, {
        database: null,
        plugin: { ...fresh(), middleware: limits({ defaultRate: '100/m', ceiling: '3/m' }) },
        routes: (scope) => {
          scope.get('/dear', { config: { smartRateLimit: { cost: 10 } } }, async () => 'ok')
          scope.get('/free', { config: { smartRateLimit: false } }, async () => 'ok')
          scope.get('/asks', { config: { smartRateLimit: false } }, async (request) => [
            await app.app.smartRateLimit.peek(request),
            await app.app.smartRateLimit.check(request, { cost: 5 }),
            await app.app.smartRateLimit.peek(request),
          ])
        },
      })
      assert.deepEqual(await app.statuses(2, '/dear'), [200, 200])
      assert.deepEqual(await app.statuses(5, '/free'), [200, 200, 200, 200, 200])
      const [before, , after] = JSON.parse((await app.request('/asks')).text)
      assert.deepEqual([before.allowed, before.limit, before.remaining], [true, 3, 1])
      assert.deepEqual([after.allowed, after.limit, after.count], [false, 3, 3])
    })
  })
}

forAnyDatabase((provider) => {
  test('the event tells of the ceiling where it has the smaller share left; overrides with a rate count, passes and denials do not', async (t) => {
    const { app, statuses } = await startApp(t, {
      database: provider,
      plugin: { logEvents: true, useDynamicRules: true, middleware: { defaultRate: '100/m', ceiling: '2/m' } },
    })
    const { client, events } = app.smartRateLimit
    await client.rateLimitRule.create({ data: { name: 'api', pathPattern: '^/api/', rate: '50/m', key: 'header:x-a' } })
    await client.rateLimitOverride.create({ data: { client: `ip:${BOB}`, effect: '90/m' } })
    assert.deepEqual(await statuses(1, '/api/x', byHeader(1)), [200])
    assert.deepEqual(await statuses(1, '/', byHeader(1)), [200])
    assert.deepEqual(await statuses(1, '/api/x', byHeader(2)), [429])
    assert.deepEqual(await statuses(3, '/', { from: BOB }), [200, 200, 429])
    await client.rateLimitOverride.updateMany({ data: { effect: 'allow' } })
    assert.deepEqual(await statuses(3, '/', { from: BOB }), [200, 200, 200])
    await events.flush()
    const rows = await client.rateLimitEvent.findMany({ orderBy: { id: 'asc' } })
    const { notes } = await app.smartRateLimit.rules.preview({ name: 'api', pathPattern: '^/api/', rate: '1/m' })
    assert.ok(notes.some((note) => note.startsWith('middleware.ceiling refuses')))
    assert.deepEqual(
      rows.map(({ key, ruleName, policy, outcome, count, limit }) => [key, ruleName, policy, outcome, count, limit]),
      [
        [`ip:${ALICE}`, '', 'ceiling', 'allowed', 1, 2],
        [`ip:${ALICE}`, '', 'ceiling', 'allowed', 2, 2],
        [`ip:${ALICE}`, '', 'ceiling', 'over_limit', 3, 2],
        [`ip:${BOB}`, '', 'ceiling', 'allowed', 1, 2],
        [`ip:${BOB}`, '', 'ceiling', 'allowed', 2, 2],
        [`ip:${BOB}`, '', 'ceiling', 'over_limit', 3, 2],
      ],
    )
    // Whom the limit beside the ceiling counted, and the hit of its rule.
    assert.deepEqual(
      rows.slice(0, 3).map(({ client: counted, rules }) => [counted, rules]),
      [
        ['header:x-a:1', '+api'],
        [`ip:${ALICE}`, ''],
        [`ip:${ALICE}`, ''],
      ],
    )
    assert.deepEqual(await app.smartRateLimit.analytics.getRuleHitCounts(), [{ rule_name: 'api', hits: 1, blocked: 0 }])
  })

  for (const middleware of [{ algorithm: 'token_bucket' }, { lease: '1s' }, { block: false }] as const) {
    test(`of many requests at once exactly the ceiling is admitted: ${JSON.stringify(middleware)}`, async (t) => {
      const { request } = await startApp(t, {
        database: provider,
        plugin: { middleware: { defaultRate: '10/m', key: 'header:x-a+ip', ceiling: '20/m', ...middleware } },
      })
      const answers = await Promise.all(Array.from({ length: 60 }, (_, place) => request('/', byHeader(place % 6))))
      const admitted = answers.filter(({ status }) => status === 200)
      assert.equal(admitted.length, 20)
    })
  }
})

test('both checks of a request go to the store in one call, and without a ceiling there is one', async (t) => {
  for (const [ceiling, checks] of [
    ['10/m', 2],
    [undefined, 1],
  ] as const) {
    const { store, calls } = recordingStore()
    const app = await start(t, { backend: store, defaultRate: '5/m', key: 'header:x-a', ceiling })
    await app.statuses(2, '/', byHeader(1))
    assert.deepEqual(
      calls.map(({ length }) => length),
      [checks, checks],
    )
  }
})

for (const middleware of [{ algorithm: 'concurrency' }, { counts: '200' }] as const) {
  test(`a client that comes back before its last request is settled costs one round trip as well: ${JSON.stringify(middleware)}`, async (t) => {
    const memory = new MemoryStore()
    const calls: string[][] = []
    let requests = 0
    const settleLate = async () => {
      await eventually('the client is back', () => requests === 2)
      for (let turns = 0; turns < 10; turns++) await turn()
    }
    const backend: Store = {
      concurrency: 8,
      async check(checks, nowMs) {
        const keys = checks.map(({ key }) => key.split(':', 1).join())
        calls.push(keys)
        // What is alone is the use of a response.
        if (keys.length === 1 && keys[0] === 'ip') await settleLate()
        return memory.check(checks, nowMs)
      },
      async settle(settlements) {
        await settleLate()
        memory.settle(settlements)
      },
      reset: (keys) => memory.reset(keys),
      close: () => undefined,
    }
    const { app, statuses } = await start(t, { ...middleware, backend, defaultRate: '5/60s', ceiling: '600/m' })
    app.server.on('request', () => requests++)
    assert.deepEqual(await statuses(2, '/', { from: ALICE }), [200, 200])
    assert.deepEqual(
      calls.filter((keys) => keys.some((key) => key.startsWith('ceiling'))).map(({ length }) => length),
      [2, 2],
      JSON.stringify(calls),
    )
  })
}

test('every request counts against the ceiling; once its refusal is known, made-up values have no counters', async (t) => {
  const { store, calls } = recordingStore()
  const app = await start(t, { backend: store, defaultRate: '1/m', key: 'header:x-a', ceiling: '3/m' })
  assert.deepEqual(await app.statuses(4, '/', byHeader(1)), [200, 429, 429, 429])
  for (const value of [2, 3, 4]) {
    const { status, headers } = await app.request('/', byHeader(value))
    assert.deepEqual([status, headers['x-ratelimit-limit']], [429, '3'])
  }
  // The refusal of the first value is remembered too. From then on nothing reaches the store.
  assert.deepEqual(
    calls.map((checks) => checks.map(({ key }) => key.slice(0, 7))),
    [['ceiling', 'default'], ['ceiling', 'default'], ['ceiling'], ['ceiling']],
  )
  assert.equal((await app.request('/', byHeader(2, BOB))).status, 200)
  app.clock.advance(60_000)
  assert.equal((await app.request('/', byHeader(2))).status, 200)
})

test('made-up values beyond the ceiling leave no counters in memory', async (t) => {
  const evicting = new MemoryStore({ maxKeys: 5 })
  const middleware = { backend: evicting, defaultRate: '5/m', key: 'header:x-a', ceiling: '2/m' }
  const app = await start(t, middleware, { headers: 'draft' })
  await app.statuses(1, '/', byHeader('mine', BOB))
  for (let value = 0; value < 20; value++) await app.request('/', byHeader(value))
  assert.equal(evicting.size, 5)
  const { headers } = await app.request('/', byHeader('mine', BOB))
  assert.match(String(headers.ratelimit), /^"default";r=3;/, 'the counter of another client has not made room for them')
})

test('denials count against nothing, and requests that are refused for the length of their path count', async (t) => {
  const { app, statuses } = await startApp(t, {
    database: 'sqlite',
    plugin: { useDynamicRules: true, middleware: { ceiling: '3/m', denyList: ['192.0.2.0/24'] } },
    routes: (scope) => {
      scope.get('/*', async () => 'ok')
      scope.get('/peek', { config: { smartRateLimit: false } }, async (request) => [
        await scope.smartRateLimit.peek(request),
      ])
    },
  })
  await app.smartRateLimit.client.rateLimitRule.create({
    data: { name: 'large', pathPattern: '(a|b)*a(a|b){94}$', rate: '7/m' },
  })
  const tooLong = `/${'ab'.repeat(5_000)}`
  assert.deepEqual(await statuses(2, tooLong, { from: ALICE }), [414, 414])
  assert.deepEqual(await statuses(2, '/', { from: ALICE }), [200, 429])
  assert.deepEqual(await statuses(1, tooLong, { from: ALICE }), [414], 'waiting does not help there')
  assert.deepEqual(await statuses(2, '/', { from: BOB }), [200, 200])
  await app.smartRateLimit.client.rateLimitOverride.create({ data: { client: `ip:${BOB}`, effect: 'deny' } })
  assert.deepEqual(await statuses(5, '/', { from: BOB }), [403, 403, 403, 403, 403])
  await app.smartRateLimit.client.rateLimitOverride.deleteMany()
  assert.deepEqual(await statuses(2, '/', { from: BOB }), [200, 429])
})

test('a limit by header or cookie without a ceiling is warned about once, with one it is not', async (t) => {
  for (const [ceiling, times] of [
    [undefined, 1],
    ['600/m', 0],
  ] as const) {
    const app = await startApp(t, {
      database: null,
      plugin: { middleware: { key: 'header:x-a', ceiling } },
      routes: (scope) => {
        const onRequest = scope.smartRateLimit.limit({ rate: '5/m', key: 'ip+cookie:sid' })
        scope.get('/', { onRequest }, async () => 'ok')
      },
    })
    assert.deepEqual(await app.statuses(2, '/', byHeader(1)), [200, 200])
    const warnings = app.log.filter(({ level, msg }) => level === WARN && msg.includes('middleware.ceiling'))
    assert.equal(warnings.length, times)
  }
})

test('a ceiling that is no rate is refused at start', async (t) => {
  await assert.rejects(
    startApp(t, { database: null, plugin: { middleware: { ceiling: 'many' } } }),
    /Setting "middleware\.ceiling" is "many": .*accepted is/,
  )
})
