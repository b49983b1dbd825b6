/** The plugin in hosts that other plugins, frameworks and test tools set up. */
import assert from 'node:assert/strict'
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { type TestContext, test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import fastifyCors, { type FastifyCorsOptions } from '@fastify/cors'
import fastifyWebsocket from '@fastify/websocket'
import Fastify, { type FastifyInstance, type FastifyRequest } from 'fastify'
import fastifyPlugin from 'fastify-plugin'
import { type RateLimitOptions, rateLimitPlugin } from '../../src/index.js'
import { atEnd } from '../support/at-end.js'
import { captureLog, okRoutes, openDatabase, startApp, WARN } from '../support/build-app.js'

const ONCE = { defaultRate: '1/m' }
const UPGRADE = [
  'GET / HTTP/1.1',
  'Host: localhost',
  'Connection: Upgrade',
  'Upgrade: websocket',
  'Sec-WebSocket-Version: 13',
  'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==',
  '\r\n',
].join('\r\n')

test('without a clock of its own the plugin follows fake timers of the host', async (t) => {
  t.mock.timers.enable({ apis: ['Date'], now: Date.UTC(2026, 0, 15, 12) })
  const { statuses } = await startApp(t, { database: null, plugin: { clock: undefined, middleware: ONCE } })
  assert.deepEqual(await statuses(2, '/'), [200, 429])
  t.mock.timers.tick(60_000)
  assert.deepEqual(await statuses(2, '/'), [200, 429])
})

test('a refused upgrade ends its connection, so that the app can close, in either order with @fastify/websocket', async (t) => {
  const register = async (app: FastifyInstance) => {
    await app.register(fastifyWebsocket)
  }
  for (const order of ['before', 'routes'] as const) {
    const { app, port } = await startApp(t, {
      database: null,
      plugin: { middleware: { defaultRate: '0/m' } },
      [order]: register,
    })
    // A client that keeps its side of the connection open.
    const client = connect({ port, host: '127.0.0.1', allowHalfOpen: true })
    client.setTimeout(5_000, () => client.destroy(new Error(`The connection stays open, with the plugin ${order}`)))
    client.write(UPGRADE)
    assert.match(await text(client), /^HTTP\/1\.1 429 /, order)
    await app.close()
    client.destroy()
  }
})

const PREFLIGHT = {
  method: 'OPTIONS',
  headers: { origin: 'https://shop.example', 'access-control-request-method': 'POST' },
}

/** An app with @fastify/cors behind the plugin, and `/all`, which answers OPTIONS itself. */
function startWithCors(
  t: TestContext,
  cors: FastifyCorsOptions | null,
  hook: 'onRequest' | 'preHandler' = 'onRequest',
) {
  return startApp(t, {
    database: null,
    plugin: { hook, middleware: { defaultRate: '2/m' } },
    routes: async (app) => {
      if (cors !== null) await app.register(fastifyCors, cors)
      okRoutes(app)
      app.all('/all', async () => 'ok')
    },
  })
}

for (const hook of ['onRequest', 'preHandler'] as const) {
  test(`a preflight that @fastify/cors answers is not counted, in its own scope too: ${hook}`, async (t) => {
    const { request, statuses } = await startWithCors(t, {}, hook)
    for (const path of ['/', '/all', '/missing']) {
      assert.deepEqual(await statuses(4, path, PREFLIGHT), [204, 204, 204, 204], path)
      assert.equal((await request(path, PREFLIGHT)).headers['x-ratelimit-limit'], undefined)
    }
    const { status, headers } = await request('/', { headers: PREFLIGHT.headers })
    assert.deepEqual([status, headers['x-ratelimit-remaining']], [200, '1'])

    const scoped = await startApp(t, {
      database: null,
      plugin: { hook, middleware: { defaultRate: '2/m' } },
      routes: (app) => {
        app.register(async (scope) => void (await scope.register(fastifyCors)), { prefix: '/in' })
        app.all('/out', async () => 'ok')
      },
    })
    assert.deepEqual(await scoped.statuses(4, '/in/x', PREFLIGHT), [204, 204, 204, 204])
    assert.deepEqual(await scoped.statuses(3, '/out', PREFLIGHT), [200, 200, 429])
  })
}

const NOT_ANSWERED: readonly [host: string, cors: FastifyCorsOptions | null][] = [
  ['without @fastify/cors', null],
  ['where @fastify/cors leaves preflights alone', { preflight: false }],
  ['where @fastify/cors goes on with preflights', { preflightContinue: true }],
  ['where @fastify/cors is off', { origin: false }],
  ['where @fastify/cors is off for that origin', { origin: (_origin, done) => done(null, false) }],
]
for (const [host, cors] of NOT_ANSWERED) {
  test(`a preflight counts ${host}`, async (t) => {
    for (const path of ['/all', '/']) {
      const { request, statuses } = await startWithCors(t, cors)
      assert.equal((await request(path, PREFLIGHT)).headers['x-ratelimit-remaining'], '1', path)
      assert.deepEqual((await statuses(2, path, PREFLIGHT)).at(-1), 429, path)
      assert.equal((await request('/')).status, 429)
    }
  })
}

test('what only looks like a preflight counts: credentials that another hook may look at, and OPTIONS alone', async (t) => {
  for (const headers of [
    { ...PREFLIGHT.headers, authorization: 'Bearer guess' },
    { ...PREFLIGHT.headers, cookie: 'session=guess' },
    { origin: PREFLIGHT.headers.origin },
    { 'access-control-request-method': 'POST' },
    {},
  ]) {
    const { statuses } = await startWithCors(t, { strictPreflight: false })
    assert.deepEqual(
      await statuses(3, '/all', { method: 'OPTIONS', headers }),
      [204, 204, 429],
      JSON.stringify(headers),
    )
  }
})

test('an answer to a preflight that is refused has the headers of @fastify/cors', async (t) => {
  const { request } = await startWithCors(t, { preflightContinue: true })
  for (const expected of [200, 200, 429]) {
    const { status, headers } = await request('/all', PREFLIGHT)
    assert.deepEqual([status, headers['access-control-allow-origin']], [expected, '*'])
  }
})

const LATE_USER = /get their users after their limit was checked.*before rateLimitPlugin.*preHandler/

/** Signs in whose header `x-user` says so. */
function authenticate(hook: 'onRequest' | 'preHandler', property = 'user') {
  return (app: FastifyInstance) => {
    if (!app.hasRequestDecorator(property)) app.decorateRequest(property, null)
    app.addHook(hook, async (request: FastifyRequest) => {
      const id = request.headers['x-user']
      if (id !== undefined) Object.assign(request, { [property]: { id } })
    })
  }
}

const LATE: readonly [how: string, plugin: RateLimitOptions, authenticates: 'onRequest' | 'preHandler'][] = [
  ['in the same hook', { hook: 'preHandler' }, 'preHandler'],
  ['in a later hook', {}, 'preHandler'],
  ['after the option "user" was asked', { user: (request) => Object(request).user }, 'onRequest'],
]
for (const [how, options, hook] of LATE) {
  test(`users that are only known after the limit was checked are warned about once: ${how}`, async (t) => {
    const plugin = { ...options, middleware: { key: 'user' } }
    const routes = (app: FastifyInstance) => {
      authenticate(hook)(app)
      okRoutes(app)
    }
    const { log, statuses } = await startApp(t, { database: null, plugin, routes })
    await statuses(5, '/', { headers: { 'x-user': '7' } })
    assert.deepEqual(
      log.map(({ level, msg }) => [level, LATE_USER.test(msg)]),
      [[WARN, true]],
    )
  })
}

/** As @fastify/jwt does: the payload of a token has a `sub`, and no id. */
function verifyTokens(turns = 0) {
  return (app: FastifyInstance) => {
    app.decorateRequest('user', null)
    app.addHook('preHandler', async (request: FastifyRequest) => {
      for (let left = turns; left > 0; left--) await turn()
      const sub = request.headers['x-user']
      if (sub !== undefined) Object.assign(request, { user: { sub } })
    })
    okRoutes(app)
  }
}

test('users of tokens, which have no id, are warned about once where they are known too late', async (t) => {
  const { log, statuses } = await startApp(t, {
    database: null,
    plugin: { middleware: { key: 'user' } },
    routes: verifyTokens(),
  })
  await statuses(3, '/')
  assert.deepEqual(log, [])
  await statuses(5, '/', { headers: { 'x-user': 'alice' } })
  assert.deepEqual(
    log.map(({ level, msg }) => [level, LATE_USER.test(msg)]),
    [[WARN, true]],
  )
})

test('users that are known too late are warned about where requests come at the same time, too', async (t) => {
  const { log, request } = await startApp(t, {
    database: null,
    plugin: { middleware: { key: 'user' } },
    routes: verifyTokens(20),
  })
  const ask = async () => {
    for (let count = 0; count < 6; count++) await request('/', { headers: { 'x-user': 'alice' } })
  }
  await Promise.all(Array.from({ length: 8 }, ask))
  assert.equal(log.filter(({ msg }) => LATE_USER.test(msg)).length, 1)
})

for (const [what, data] of [
  ['a condition', { rule: { name: 'free', pathPattern: '^/', rate: '1/h', condition: "user.sub == 'alice'" } }],
  ['an override', { override: { client: 'user:alice', effect: 'deny' } }],
] as const) {
  test(`users that are known too late for ${what} are warned about once`, async (t) => {
    const database = await openDatabase(t, 'sqlite')
    const { rateLimitRule, rateLimitOverride } = database.client
    if ('rule' in data) await rateLimitRule.create({ data: data.rule })
    else await rateLimitOverride.create({ data: data.override })
    const { log, statuses } = await startApp(t, {
      database,
      plugin: { useDynamicRules: true },
      routes: verifyTokens(),
    })
    await statuses(5, '/', { headers: { 'x-user': 'alice' } })
    assert.deepEqual(
      log.map(({ level, msg }) => [level, LATE_USER.test(msg)]),
      [[WARN, true]],
    )
  })
}

const IN_TIME: readonly [how: string, plugin: RateLimitOptions, authenticates: 'onRequest' | 'preHandler'][] = [
  ['in the same hook', { hook: 'preHandler' }, 'preHandler'],
  ['in an earlier hook', { hook: 'preHandler' }, 'onRequest'],
  ['before the option "user" is asked', { user: async (request) => Object(request).user }, 'onRequest'],
]
for (const [how, options, hook] of IN_TIME) {
  test(`users that are known in time are not warned about, nor requests without one: ${how}`, async (t) => {
    const plugin = { ...options, middleware: { key: 'user' } }
    const { log, statuses, request } = await startApp(t, { database: null, plugin, before: authenticate(hook) })
    await statuses(3, '/')
    await statuses(3, '/', { headers: { 'x-user': '7' } })
    assert.equal((await request('/', { headers: { 'x-user': '7' } })).headers['x-ratelimit-remaining'], '96')
    await statuses(3, '/')
    assert.deepEqual(log, [])
  })
}

test('a user without an id is counted by address, and warned about once; the id alone will do', async (t) => {
  const authenticateByToken = (app: FastifyInstance) => {
    app.decorateRequest('user', null)
    app.addHook(
      'onRequest',
      async (request) => void Object.assign(request, { user: { sub: request.headers['x-user'] } }),
    )
  }
  const start = (user?: RateLimitOptions['user']) =>
    startApp(t, {
      database: null,
      plugin: { middleware: { key: 'user', defaultRate: '2/d' }, ...(user && { user }) },
      before: authenticateByToken,
    })
  const of = (user: string) => ({ headers: { 'x-user': user } })

  const unknown = await start()
  const all = [...(await unknown.statuses(2, '/', of('alice'))), ...(await unknown.statuses(1, '/', of('bob')))]
  assert.deepEqual(all, [200, 200, 429])
  assert.match(unknown.log.map(({ msg }) => msg).join('\n'), /^[^\n]*the user has no "id"[^\n]*$/)

  const known = await start((request) => Object(Object(request).user).sub)
  assert.deepEqual(await known.statuses(3, '/', of('alice')), [200, 200, 429])
  assert.deepEqual(await known.statuses(1, '/', of('bob')), [200])
  assert.deepEqual(known.log, [])
})

test('a request that signs a user in is not warned about', async (t) => {
  const { log, request, statuses } = await startApp(t, {
    database: null,
    plugin: { middleware: { key: 'user' } },
    before: authenticate('onRequest'),
    routes: (app) => {
      okRoutes(app)
      app.post('/sign-in', async (request) => void Object.assign(request, { user: { id: 7 } }))
    },
  })
  for (let count = 0; count < 5; count++) {
    await request('/sign-in', { method: 'POST' })
    await statuses(2, '/')
    await request('/', { headers: { 'x-user': '7' } })
  }
  assert.deepEqual(log, [])
})

test('a parent plugin that hides the hook from the app is warned about; one with a prefix or fastify-plugin is not', async (t) => {
  const warnings: Record<string, readonly string[]> = {}
  const parents: Record<string, (app: FastifyInstance) => unknown> = {
    'no plugin': limitRequests,
    'a plugin': (app) => app.register(limitRequests),
    'a plugin in a plugin': (app) => app.register(async (scope) => scope.register(limitRequests)),
    'fastify-plugin': (app) => app.register(fastifyPlugin(async (scope: FastifyInstance) => limitRequests(scope))),
    'a prefix': (app) => app.register(limitRequests, { prefix: '/api' }),
  }
  for (const [name, register] of Object.entries(parents)) {
    const { stream, log } = captureLog()
    const app = Fastify({ logger: { level: 'warn', stream } })
    atEnd(t, () => app.close())
    await register(app)
    const { headers } = await app.inject('/missing')
    assert.equal('x-ratelimit-limit' in headers, ['no plugin', 'fastify-plugin'].includes(name), name)
    warnings[name] = log.map(({ msg }) => msg)
  }
  const warning =
    'Rate limits cover only the plugin that registers rateLimitPlugin (limitRequests): 404s and routes outside of that plugin have no limit. Wrap that plugin in fastify-plugin, or register rateLimitPlugin on the app itself'
  assert.deepEqual(warnings, {
    'no plugin': [],
    'a plugin': [warning],
    'a plugin in a plugin': [warning],
    'fastify-plugin': [],
    'a prefix': [],
  })
})

async function limitRequests(app: FastifyInstance): Promise<void> {
  await app.register(rateLimitPlugin, { middleware: { backend: 'memory' } })
}
