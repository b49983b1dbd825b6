/** `config: { smartRateLimit: { rate } }`: a limit of a route, as `limit()` makes it, and one that routes share. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import Fastify, { type FastifyInstance, type FastifyServerOptions } from 'fastify'
import { type RouteConfig, rateLimitPlugin } from '../../src/index.js'
import { atEnd } from '../support/at-end.js'
import { openDatabase, startApp, WARN } from '../support/build-app.js'

const ALICE = { from: '203.0.113.7' }
const BOB = { from: '203.0.113.8' }
const ok = async () => 'ok'

/** A constraint of an app's own. */
const byTenant: NonNullable<FastifyServerOptions['constraints']>[string] = {
  name: 'tenant',
  storage() {
    const handlers = new Map()
    return {
      get: (tenant) => handlers.get(tenant) ?? null,
      set: (tenant, handler) => void handlers.set(tenant, handler),
    }
  },
  deriveConstraint: ({ headers }) => String(headers['x-tenant']),
  validate: () => undefined,
  mustMatchWhenDerived: false,
}

function declare(app: FastifyInstance, url: string, smartRateLimit: RouteConfig): void {
  app.get(url, { config: { smartRateLimit } }, ok)
}

test('each route has its own counter, beside the one of the app, for GET and HEAD together', async (t) => {
  const limited = { rate: '2/m', key: 'ip', cost: ({ url }: { url: string }) => (url.includes('dear') ? 2 : 1) }
  const { app, request, statuses } = await startApp(t, {
    database: null,
    plugin: { middleware: { defaultRate: '100/m' } },
    routes: (scope) => {
      declare(scope, '/a', limited)
      declare(scope, '/b', limited)
      declare(scope, '/counted', { rate: '1/m', block: false })
      declare(scope, '/plain', { cost: 5 })
      scope.register(async (child) => declare(child, '/', { rate: '2/m' }), { prefix: '/p' })
    },
  })
  assert.deepEqual(await statuses(1, '/a', ALICE), [200])
  assert.deepEqual(await statuses(1, '/a', { ...ALICE, method: 'HEAD' }), [200])
  const refused = await request('/a', ALICE)
  assert.deepEqual([refused.status, refused.headers['x-ratelimit-limit']], [429, '2'])
  assert.deepEqual(await statuses(2, '/b?dear', ALICE), [200, 429])
  assert.deepEqual(await statuses(1, '/a', BOB), [200])
  assert.deepEqual(await statuses(2, '/counted', ALICE), [200, 200])
  assert.deepEqual(await statuses(1, '/p', ALICE), [200])
  assert.deepEqual(await statuses(2, '/p/', ALICE), [200, 429])
  // Of the app's own limit every request used 1, the last one 5.
  assert.equal((await request('/plain', ALICE)).headers['x-ratelimit-remaining'], `${100 - 10 - 5}`)
  await app.smartRateLimit.reset(`ip:${ALICE.from}`)
  assert.deepEqual(await statuses(2, '/a', ALICE), [200, 200])
})

test('routes of one path differ in version, host and constraints of the app, and so do their counters', async (t) => {
  const database = await openDatabase(t, 'sqlite')
  const limited = { config: { smartRateLimit: { rate: '1/d' } } }
  const { app, request } = await startApp(t, {
    database,
    fastify: { constraints: { tenant: byTenant } },
    routes: (scope) => {
      for (const version of ['1.0.0', '2.0.0']) scope.get('/items', { ...limited, constraints: { version } }, ok)
      for (const host of ['a.example', /^b/]) scope.get('/shop', { ...limited, constraints: { host } }, ok)
      const both = { host: 'c.example', version: '1.0.0' }
      for (const constraints of [both, { tenant: 'x|y' }]) scope.get('/shop', { ...limited, constraints }, ok)
      scope.get('/shop', limited, ok)
      const onRequest = scope.smartRateLimit.limit({ rate: '1/d', name: 'twice' })
      for (const version of ['1.0.0', '2.0.0']) scope.get('/twice', { onRequest, constraints: { version } }, ok)
    },
  })
  async function statuses(path: string, headers: Record<string, string>) {
    const answers = [
      await request(path, { ...ALICE, headers, method: 'HEAD' }),
      await request(path, { ...ALICE, headers }),
    ]
    return answers.map(({ status }) => status)
  }
  const each: [path: string, headers: Record<string, string>][] = [
    ...['1.x', '2.x'].map((version): [string, Record<string, string>] => ['/items', { 'accept-version': version }]),
    ...['a.example', 'b.example', 'd.example'].map((host): [string, Record<string, string>] => ['/shop', { host }]),
    ['/shop', { host: 'c.example', 'accept-version': '1.x' }],
    ['/shop', { host: 'd.example', 'x-tenant': 'x|y' }],
    ...['1.x', '2.x'].map((version): [string, Record<string, string>] => ['/twice', { 'accept-version': version }]),
  ]
  for (const [path, headers] of each)
    assert.deepEqual(await statuses(path, headers), [200, 429], JSON.stringify(headers))
  const counters = await database.client.rateLimitCounter.findMany()
  const routes = counters.flatMap(({ key }) => /^limit:86400000:(.*)\|ip:203\.0\.113\.7$/.exec(key)?.[1] ?? [])
  assert.deepEqual(routes.sort(), [
    ':GET /items version="1.0.0"',
    ':GET /items version="2.0.0"',
    ':GET /shop',
    ':GET /shop host="a.example"',
    ':GET /shop host="c.example" version="1.0.0"',
    ':GET /shop host=/^b/',
    ':GET /shop tenant="x\\|y"',
    'twice:GET /twice version="1.0.0"',
    'twice:GET /twice version="2.0.0"',
  ])
  await app.smartRateLimit.reset(`ip:${ALICE.from}`)
  for (const [path, headers] of each)
    assert.deepEqual(await statuses(path, headers), [200, 429], JSON.stringify(headers))
})

test('routes with the same name share a counter, and limit() with that name does not', async (t) => {
  const { app, statuses, request } = await startApp(t, {
    database: null,
    routes: (scope) => {
      declare(scope, '/a', { rate: '2/m', name: 'shared' })
      declare(scope, '/b', { rate: '2/m', name: 'shared' })
      declare(scope, '/c', { rate: '2/m', name: 'other' })
      scope.get('/d', { onRequest: scope.smartRateLimit.limit({ rate: '2/m', name: 'shared' }) }, ok)
    },
    plugin: { headers: 'draft' },
  })
  assert.deepEqual(await statuses(1, '/a', ALICE), [200])
  const { headers } = await request('/b', ALICE)
  assert.match(String(headers['ratelimit-policy']), /^"shared";q=2;w=60/)
  assert.deepEqual(await statuses(1, '/b', ALICE), [429])
  assert.deepEqual(await statuses(1, '/a', ALICE), [429])
  assert.deepEqual(await statuses(3, '/c', ALICE), [200, 200, 429])
  assert.deepEqual(await statuses(3, '/d', ALICE), [200, 200, 429])
  await app.smartRateLimit.reset(`ip:${ALICE.from}`)
  assert.deepEqual(await statuses(1, '/b', ALICE), [200])
})

test('a route that was declared before the plugin does not have its limit, which is warned about with the fix', async (t) => {
  const { statuses, log } = await startApp(t, {
    database: null,
    plugin: { middleware: { skipPaths: ['/skipped'] } },
    before(app) {
      for (const url of ['/early', '/skipped', '/never-asked']) declare(app, url, { rate: '1/m' })
      declare(app, '/wrong', { rate: 'many' })
      app.get('/plain', ok)
    },
    routes: (app) => declare(app, '/late', { rate: '1/m' }),
  })
  for (const path of ['/plain', '/early', '/skipped', '/wrong']) assert.deepEqual(await statuses(2, path), [200, 200])
  assert.deepEqual(await statuses(2, '/late'), [200, 429])
  assert.deepEqual(
    log.map(({ level, msg }) => [level, msg]),
    ['/early', '/skipped', '/wrong'].map((url) => [
      WARN,
      `Rate limit: the limit of GET ${url} has no effect, since the route was declared before rateLimitPlugin: register the plugin first and await it, or declare the route in app.after()`,
    ]),
  )
})

test('a route in app.after() has its limit although nothing awaits the plugin', async (t) => {
  const app = Fastify()
  atEnd(t, () => app.close())
  void app.register(rateLimitPlugin, { middleware: { backend: 'memory' } })
  app.after(() => declare(app, '/', { rate: '1/m' }))
  for (const status of [200, 429]) assert.equal((await app.inject('/')).statusCode, status)
})

test("with hook: 'preHandler' the limit knows the user that an earlier hook found", async (t) => {
  const { statuses } = await startApp(t, {
    database: null,
    plugin: { hook: 'preHandler' },
    before(app) {
      app.decorateRequest('user', null)
      app.addHook('preValidation', async (request) => {
        Object.assign(request, { user: { id: Number(request.headers.authorization) } })
      })
    },
    routes: (app) => declare(app, '/', { rate: '1/m', key: 'user+route' }),
  })
  const as = (authorization: string) => ({ ...ALICE, headers: { authorization } })
  assert.deepEqual(await statuses(2, '/', as('7')), [200, 429])
  assert.deepEqual(await statuses(2, '/', as('8')), [200, 429])
})

test('a limit with a name is shared in the config of routes and not in hooks, unless it says otherwise', async (t) => {
  const { statuses } = await startApp(t, {
    database: null,
    routes(app) {
      const named = { name: 'exports', rate: '2/m' }
      declare(app, '/one', named)
      declare(app, '/two', { ...named, shared: true })
      declare(app, '/apart', { ...named, shared: false })
      app.get('/hook', { onRequest: app.smartRateLimit.limit(named) }, ok)
      app.get('/shared', { onRequest: app.smartRateLimit.limit({ ...named, shared: true }) }, ok)
    },
  })
  assert.deepEqual(await statuses(1, '/one', ALICE), [200])
  assert.deepEqual(await statuses(1, '/two', ALICE), [200])
  for (const path of ['/one', '/two', '/shared']) assert.deepEqual(await statuses(1, path, ALICE), [429], path)
  for (const path of ['/apart', '/hook']) assert.deepEqual(await statuses(3, path, ALICE), [200, 200, 429], path)
})

test('a wrong limit is refused when the route is declared', async (t) => {
  await startApp(t, {
    database: null,
    routes(app) {
      for (const [config, message] of [
        [{ rate: '5/fortnight' }, /"config\.smartRateLimit\.rate" is "5\/fortnight"/],
        [{ rate: undefined, cost: 2 }, /"config\.smartRateLimit\.rate" is missing/],
        [{ rate: '5/m', key: 'ip+ip' }, /"config\.smartRateLimit\.key" is "ip\+ip": has "ip" twice/],
        [{ rate: '5/m', cost: 0 }, /"config\.smartRateLimit\.cost" is 0/],
        [
          { rate: '5/m', cost: 6 },
          /"config\.smartRateLimit\.cost" is 6, more than the rate ever allows: give at most 5/,
        ],
        [{ rate: '5/m', shared: true }, /"config\.smartRateLimit\.shared" is true without a name/],
        [{ rate: '5/m', burst: 2 }, /"config\.smartRateLimit\.burst" does not exist/],
      ] as const) {
        const route = () =>
          app.route({ method: 'GET', url: '/', handler: ok, config: Object({ smartRateLimit: config }) })
        assert.throws(route, message)
      }
    },
  })
})
