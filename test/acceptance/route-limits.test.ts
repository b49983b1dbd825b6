/** Limits for single routes in code: `app.smartRateLimit.limit()`. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import Fastify, { type FastifyInstance, type FastifyRequest } from 'fastify'
import { rateLimitPlugin } from '../../src/index.js'
import { RATE_ALGORITHMS } from '../../src/limiter/algorithm.js'
import { ERROR, openDatabase, startApp } from '../support/build-app.js'
import { forAnyDatabase } from '../support/databases.js'

const ok = async () => 'ok'

forAnyDatabase((provider) => {
  test('with the hook active too both count, and each on a counter of its own', async (t) => {
    const { request, statuses } = await startApp(t, {
      database: provider,
      plugin: { middleware: { rateLimits: { '/reports': '50/m' } } },
      routes(app) {
        app.get('/reports', { onRequest: app.smartRateLimit.limit({ rate: '3/m' }) }, ok)
        app.get('/reports/all', ok)
      },
    })

    assert.deepEqual(await statuses(4, '/reports'), [200, 200, 200, 429])
    const { headers } = await request('/reports/all')
    assert.deepEqual([headers['x-ratelimit-limit'], headers['x-ratelimit-remaining']], ['50', '45'])
  })

  test('it logs no event, and no rule changes it', async (t) => {
    const database = await openDatabase(t, provider)
    const { app, statuses } = await startApp(t, {
      database,
      plugin: { logEvents: true, useDynamicRules: true },
      routes(app) {
        const onRequest = app.smartRateLimit.limit({ rate: '2/m' })
        app.get('/alone', { onRequest, config: { smartRateLimit: false } }, ok)
      },
    })
    await database.client.rateLimitRule.create({ data: { name: 'all', pathPattern: '^/', rate: '0/m' } })
    await app.smartRateLimit.rules.reload()

    assert.deepEqual(await statuses(3, '/alone'), [200, 200, 429])
    await app.smartRateLimit.events.flush()
    assert.equal(await database.client.rateLimitEvent.count(), 0)
  })

  test('a client whose counters are reset may go on, at once, in every process and on every route', async (t) => {
    const database = await openDatabase(t, provider)
    const options = {
      database,
      plugin: { middleware: { defaultRate: '2/m', rateLimits: { '/auth/': '1/m' } } },
      routes(app: FastifyInstance) {
        app.get('/', ok)
        app.get('/auth/x', ok)
        void app.register(async (scope) => {
          scope.addHook('onRequest', app.smartRateLimit.limit({ rate: '1/m' }))
          scope.get('/route', { config: { smartRateLimit: false } }, ok)
        })
      },
    }
    const { statuses, clock } = await startApp(t, options)
    const first = async () => [
      await statuses(3, '/'),
      await statuses(2, '/auth/x'),
      await statuses(2, '/route'),
      await statuses(1, '/', { from: '203.0.113.9' }),
    ]
    assert.deepEqual(await first(), [[200, 200, 429], [200, 429], [200, 429], [200]])
    assert.deepEqual(await statuses(1, '/', { from: '203.0.113.9' }), [200])

    // Another process knows the counters of routes that it has not served.
    const other = await startApp(t, { ...options, clock })
    await other.app.smartRateLimit.reset('ip:127.0.0.1')
    clock.advance(2_000)

    assert.deepEqual(await first(), [[200, 200, 429], [200, 429], [200, 429], [429]])
  })

  test('a reset is also one of the limit for requests without a route, by a process that has had none', async (t) => {
    const database = await openDatabase(t, provider)
    const options = {
      database,
      routes(app: FastifyInstance) {
        const preHandler = app.smartRateLimit.limit({ rate: '1/m', name: 'missing' })
        app.setNotFoundHandler({ preHandler }, async (_request, reply) => reply.code(404).send())
      },
    }
    const { statuses, clock } = await startApp(t, options)
    assert.deepEqual(await statuses(2, '/none'), [404, 429])

    const other = await startApp(t, { ...options, clock })
    await other.app.smartRateLimit.reset('ip:127.0.0.1')
    clock.advance(2_000)
    assert.deepEqual(await statuses(2, '/none'), [404, 429])
  })

  test('not-found handlers of two prefixes count apart, and a reset by a process that has had no request is of both', async (t) => {
    const database = await openDatabase(t, provider)
    const options = {
      database,
      routes(app: FastifyInstance) {
        for (const prefix of ['/v1', '/v2']) {
          void app.register(
            async (scope) => {
              const preHandler = app.smartRateLimit.limit({ rate: '1/m' })
              scope.setNotFoundHandler({ preHandler }, async (_request, reply) => reply.code(404).send())
            },
            { prefix },
          )
        }
      },
    }
    const { statuses, clock } = await startApp(t, options)
    const both = async () => [await statuses(2, '/v1/none'), await statuses(2, '/v2/none')]
    assert.deepEqual(await both(), [
      [404, 429],
      [404, 429],
    ])

    const other = await startApp(t, { ...options, clock })
    await other.app.smartRateLimit.reset('ip:127.0.0.1')
    clock.advance(2_000)
    assert.deepEqual(await both(), [
      [404, 429],
      [404, 429],
    ])
  })
})

for (const algorithm of RATE_ALGORITHMS) {
  test(`it counts by ${algorithm}, and says when to come back`, async (t) => {
    const { request, statuses, clock } = await startApp(t, {
      database: null,
      routes(app) {
        app.get('/', { onRequest: app.smartRateLimit.limit({ rate: '2/m', algorithm }) }, ok)
      },
    })
    assert.deepEqual(await statuses(2, '/'), [200, 200])
    const { status, headers } = await request('/')
    assert.equal(status, 429)
    clock.advance(Number(headers['retry-after']) * 1_000)
    assert.deepEqual(await statuses(1, '/'), [200])
  })
}

test("the headers are the stricter limit's", async (t) => {
  const { request } = await startApp(t, {
    database: null,
    plugin: { headers: 'both', middleware: { defaultRate: '100/h' } },
    routes(app) {
      app.get('/strict', { onRequest: app.smartRateLimit.limit({ rate: '10/m', name: 'strict' }) }, ok)
      app.get('/lax', { onRequest: app.smartRateLimit.limit({ rate: '1000/m', name: 'lax' }) }, ok)
    },
  })
  for (let used = 0; used < 4; used++) await request('/strict')

  const { headers: strict } = await request('/strict')
  assert.deepEqual([strict['x-ratelimit-limit'], strict['x-ratelimit-remaining']], ['10', '5'])
  assert.equal(strict['ratelimit-policy'], '"strict";q=10;w=60')
  assert.match(String(strict.ratelimit), /^"strict";r=5;t=60;/)
  const { headers: lax } = await request('/lax')
  assert.deepEqual([lax['x-ratelimit-limit'], lax['x-ratelimit-remaining']], ['100', '94'])
  assert.equal(lax['ratelimit-policy'], '"default";q=100;w=3600')
})

test('every route has a counter of its own; HEAD counts with GET, and a slash at the end makes no other route', async (t) => {
  const { statuses } = await startApp(t, {
    database: null,
    fastify: { routerOptions: { ignoreTrailingSlash: true } },
    plugin: { middleware: { defaultRate: '1000/m' } },
    routes(app) {
      const onRequest = app.smartRateLimit.limit({ rate: '2/m' })
      app.get('/a', { onRequest }, ok)
      app.post('/a', { onRequest }, ok)
      app.get('/items/:id', { onRequest }, ok)
    },
  })
  assert.deepEqual(await statuses(1, '/a'), [200])
  assert.deepEqual(await statuses(1, '/a', { method: 'HEAD' }), [200])
  assert.deepEqual(await statuses(1, '/a/'), [429])
  assert.deepEqual(await statuses(2, '/a', { method: 'POST' }), [200, 200])
  assert.deepEqual([...(await statuses(1, '/items/1')), ...(await statuses(2, '/items/2'))], [200, 200, 429])
})

test('two limits of one route count apart, and a whole scope can have one', async (t) => {
  const { statuses, clock } = await startApp(t, {
    database: null,
    plugin: { middleware: { defaultRate: '1000/m' } },
    routes(app) {
      const { limit } = app.smartRateLimit
      app.get('/both', { onRequest: [limit({ rate: '2/s' }), limit({ rate: '3/m' })] }, ok)
      void app.register(async (scope) => {
        scope.addHook('onRequest', limit({ rate: '1/m' }))
        scope.get('/in/a', ok)
        scope.get('/in/b', ok)
      })
    },
  })
  assert.deepEqual(await statuses(3, '/both'), [200, 200, 429])
  clock.advance(1_000)
  assert.deepEqual(await statuses(2, '/both'), [200, 429])
  assert.deepEqual([...(await statuses(2, '/in/a')), ...(await statuses(2, '/in/b'))], [200, 429, 200, 429])
})

test('key, block, cost and a rate by request hold as in the plugin', async (t) => {
  const { request, statuses } = await startApp(t, {
    database: null,
    plugin: { middleware: { defaultRate: '1000/m' } },
    routes(app) {
      const { limit } = app.smartRateLimit
      app.get('/key', { onRequest: limit({ rate: '1/m', key: 'header:X-Key' }) }, ok)
      app.get('/count', { onRequest: limit({ rate: '1/m', block: false }) }, ok)
      app.post('/cost', { preHandler: limit({ rate: '10/m', cost: ({ body }) => Number(body) }) }, ok)
      const rate = (request: FastifyRequest) => (request.headers['x-plan'] === 'pro' ? '3/m' : '1/m')
      app.get('/plan', { onRequest: limit({ rate }) }, ok)
    },
  })
  const key = (value: string) => ({ headers: { 'x-key': value } })
  assert.deepEqual(
    [...(await statuses(2, '/key', key('a'))), ...(await statuses(1, '/key', key('b')))],
    [200, 429, 200],
  )
  assert.deepEqual(await statuses(2, '/count'), [200, 200])
  const cost = (body: number) =>
    request('/cost', { method: 'POST', headers: { 'content-type': 'application/json' }, body: String(body) })
  assert.equal((await cost(8)).headers['x-ratelimit-remaining'], '2')
  assert.equal((await cost(3)).status, 429)
  assert.deepEqual(await statuses(2, '/plan'), [200, 429])
  assert.deepEqual(
    await statuses(4, '/plan', { from: '203.0.113.7', headers: { 'x-plan': 'pro' } }),
    [200, 200, 200, 429],
  )
})

test('an address of the allow list is not limited, and one of the deny list is refused', async (t) => {
  const { statuses } = await startApp(t, {
    database: null,
    plugin: { middleware: { allowList: ['10.0.0.0/8'], denyList: ['192.0.2.0/24'] } },
    routes(app) {
      const onRequest = app.smartRateLimit.limit({ rate: '1/m' })
      app.get('/', { onRequest, config: { smartRateLimit: false } }, ok)
    },
  })
  assert.deepEqual(await statuses(3, '/', { from: '10.4.5.6' }), [200, 200, 200])
  assert.deepEqual(await statuses(1, '/', { from: '192.0.2.1' }), [403])
  assert.deepEqual(await statuses(2, '/', { from: '203.0.113.7' }), [200, 429])
})

test('it does nothing when the plugin is disabled', async (t) => {
  const { request } = await startApp(t, {
    database: null,
    plugin: { enabled: false },
    routes(app) {
      app.get('/', { onRequest: app.smartRateLimit.limit({ rate: '0/m' }) }, ok)
    },
  })
  const { status, headers } = await request('/')
  assert.deepEqual([status, headers['x-ratelimit-limit']], [200, undefined])
})

const WRONG: readonly [options: object, message: RegExp][] = [
  [{}, /"limit.rate" is missing: give a rate such as 5\/m/],
  [{ rate: 'often' }, /"limit.rate" is "often": .*<count>\/<period>/],
  [{ rate: '5/m', algorithm: 'guess' }, /"limit.algorithm" is "guess": .*fixed_window/],
  [{ rate: '5/m', key: 'cookie' }, /"limit.key" is "cookie"/],
  [{ rate: '5/m', cost: 0 }, /"limit.cost" is 0: give an integer, 1 to 2147483647/],
  [
    { rate: '5/s, 0/m, 100/h', cost: 6 },
    /"limit.cost" is 6, more than the rate ever allows: give at most 5, or a rate with a higher/,
  ],
  [{ rate: '5/m', key: 5 }, /"limit.key" is 5/],
  [{ rate: '5/m', allowList: '10.0.0.0/8' }, /"limit.allowList" is "10.0.0.0\/8": give a list of addresses/],
  [{ rate: '5/m', allowList: ['10.0.0.0/40'] }, /"limit.allowList" has a wrong entry: .*10\.0\.0\.0\/40/],
  [{ rate: '5/m', name: 'override' }, /"limit.name" is "override": "override" is reserved: give another name than/],
  [{ rate: '5/m', name: '/auth/' }, /"limit.name" is "\/auth\/": must not begin with "\/"/],
  [{ rate: '5/m', max: 5 }, /"limit.max" does not exist: give one of rate, key/],
]
for (const [options, message] of WRONG) {
  test(`limit(${JSON.stringify(options)}) is refused where it is written`, async (t) => {
    const { app } = await startApp(t, { database: null })
    assert.throws(() => Reflect.apply(app.smartRateLimit.limit, undefined, [options]), {
      code: 'FST_RATE_LIMIT_INVALID_SETTING',
      message,
    })
  })
}

test('a route says what its requests cost; a wrong cost is refused when the route is declared', async (t) => {
  const { request, statuses, log } = await startApp(t, {
    database: null,
    plugin: { middleware: { defaultRate: '10/m' } },
    before(app) {
      app.get('/early', { config: { smartRateLimit: { cost: 4 } } }, ok)
    },
    async routes(app) {
      app.get('/', ok)
      app.get('/search', { config: { smartRateLimit: { cost: ({ query }) => Object.keys(query ?? {}).length } } }, ok)
      const declare = () => app.get('/wrong', { config: { smartRateLimit: { cost: 1.5 } } }, ok)
      assert.throws(declare, /"config.smartRateLimit.cost" is 1.5: give an integer/)
    },
  })
  assert.equal((await request('/early')).headers['x-ratelimit-remaining'], '6')
  assert.equal((await request('/search?a=1&b=2&c=3')).headers['x-ratelimit-remaining'], '3')
  assert.equal((await request('/')).headers['x-ratelimit-remaining'], '2')
  // An unknown cost is 1, and is logged once.
  assert.deepEqual(await statuses(2, '/search'), [200, 200])
  assert.equal(log.filter(({ level }) => level >= ERROR).length, 1)
  assert.deepEqual(await statuses(1, '/early'), [429])
})

test('a cost that the limit of the route never allows is refused when the route is declared', async (t) => {
  await startApp(t, {
    database: null,
    plugin: { middleware: { defaultRate: '10/s, 100/h', rateLimits: { '/small/': '3/m', '/none/': '0/m' } } },
    routes(app) {
      const declare = (url: string, cost: number) => app.get(url, { config: { smartRateLimit: { cost } } }, ok)
      assert.throws(() => declare('/small/x', 4), {
        code: 'FST_RATE_LIMIT_INVALID_SETTING',
        message:
          'Setting "config.smartRateLimit.cost" is 4, more than "middleware.rateLimits["/small/"]" "3/m" ever allows: give at most 3, or a rate with a higher count',
      })
      assert.throws(() => declare('/x', 11), /is 11, more than "middleware.defaultRate" "10\/s, 100\/h" ever allows/)
      // A limit of 0 refuses on purpose, and which limit holds for a pattern depends on the request.
      for (const [url, cost] of [
        ['/small/y', 3],
        ['/none/x', 4],
        ['/:some/x', 20],
      ] as const) {
        declare(url, cost)
      }
    },
  })
  await startApp(t, {
    database: 'sqlite',
    plugin: { useDynamicRules: true },
    routes: (app) => void app.get('/', { config: { smartRateLimit: { cost: 1_000 } } }, ok),
  })
})

test('a wrong cost of a route that was declared before the plugin is logged once, and costs 1', async (t) => {
  const { request, log } = await startApp(t, {
    database: null,
    before(app) {
      app.get('/early', { config: { smartRateLimit: { cost: 0 } } }, ok)
    },
  })
  for (const left of ['99', '98']) assert.equal((await request('/early')).headers['x-ratelimit-remaining'], left)
  assert.equal(log.length, 1)
  assert.match(log[0]?.msg ?? '', /"config.smartRateLimit.cost" is 0: give an integer/)
})

for (const config of [{ algorithm: 'token_bucket' }, { cost: 2, name: 'a' }, true, null]) {
  test(`a route's config.smartRateLimit of ${JSON.stringify(config)} is refused when the route is declared`, async (t) => {
    await startApp(t, {
      database: null,
      routes(app) {
        const declare = () =>
          app.route({ method: 'GET', url: '/', handler: ok, config: Object({ smartRateLimit: config }) })
        assert.throws(declare, /"config.smartRateLimit" is .*: give false, or \{ cost \}/)
      },
    })
  })
}

test('an async cost is logged, costs 1, and takes nothing down when it rejects', async (t) => {
  const { statuses, log } = await startApp(t, {
    database: null,
    routes(app) {
      const cost: () => number = Object(async () => Promise.reject(new Error('no cost')))
      app.get('/', { onRequest: app.smartRateLimit.limit({ rate: '2/m', cost }) }, ok)
    },
  })
  assert.deepEqual(await statuses(3, '/'), [200, 200, 429])
  assert.match(log[0]?.msg ?? '', /"limit.cost" returns a promise/)
})

test('a function that answers more than any limit allows has the request refused, and no cost of 1', async (t) => {
  const { statuses, log } = await startApp(t, {
    database: null,
    routes(app) {
      app.get('/', { onRequest: app.smartRateLimit.limit({ rate: '2147483646/m', cost: () => 3e9 }) }, ok)
    },
  })
  assert.deepEqual(await statuses(2, '/'), [429, 429])
  assert.deepEqual(log, [])
})

test('registering the plugin again in a scope of the app is refused: requests would count twice', async () => {
  const app = Fastify()
  await app.register(rateLimitPlugin, { middleware: { backend: 'memory' } })
  void app.register(async (scope) => {
    await scope.register(rateLimitPlugin, { middleware: { backend: 'memory' } })
  })
  await assert.rejects(async () => app.ready(), /rateLimitPlugin is registered already/)
  await app.close()
})

test('a prefix that is written encoded covers the same paths', async (t) => {
  const plugin = { middleware: { rateLimits: { '/caf%C3%A9': '0/m' } } }
  const { statuses } = await startApp(t, { database: null, plugin })
  assert.deepEqual([...(await statuses(1, '/caf%C3%A9/x')), ...(await statuses(1, '/cafe'))], [429, 200])
})
