/** The event of a request that a limit of its route refuses: the one that the plugin's own check has begun. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { constants } from 'node:http2'
import { connect, Socket } from 'node:net'
import { type TestContext, test } from 'node:test'
import fastifyWebsocket from '@fastify/websocket'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { MemoryStore, type RateLimitOptions, type Store } from '../../src/index.js'
import { atEnd } from '../support/at-end.js'
import { type AppOptions, openDatabase, startApp } from '../support/build-app.js'
import { forAnyDatabase, type Provider, type TestDatabase } from '../support/databases.js'
import { eventually } from '../support/eventually.js'
import { connectHttp2, destroySessions, HTTP2, NO_WINDOW } from '../support/http-client.js'

const ALICE = { from: '203.0.113.7' }
const ok = async () => 'ok'

async function start(t: TestContext, provider: Provider, options: Omit<AppOptions, 'database'>) {
  const database = await openDatabase(t, provider)
  const app = await startApp(t, { ...options, database, plugin: { logEvents: true, ...options.plugin } })
  return { ...app, database }
}

/** Returns what the log says of each request, the oldest first. */
async function logged({ app, database }: { app: FastifyInstance; database: TestDatabase }) {
  await app.smartRateLimit.events.flush()
  return outcomes(database)
}

async function outcomes({ client }: TestDatabase) {
  const rows = await client.rateLimitEvent.findMany({ orderBy: { id: 'asc' } })
  return rows.map(({ policy, outcome, allowed, count, limit }) => [policy, outcome, allowed, count, limit])
}

const PASSED = ['default', 'allowed', true, 1, 100]
const REFUSED = ['mine', 'over_limit', false, 2, 1]
const MINE = { rate: '1/m', name: 'mine' } as const

/** The places of a limit: each declares `/`. */
const PLACES: Readonly<Record<string, Omit<AppOptions, 'database'>>> = {
  'an onRequest hook of the route': {
    routes: (app) => void app.get('/', { onRequest: app.smartRateLimit.limit(MINE) }, ok),
  },
  'a preHandler hook of the route, among others': {
    routes: (app) => void app.get('/', { preHandler: [async () => undefined, app.smartRateLimit.limit(MINE)] }, ok),
  },
  'a hook of the route that calls it': {
    routes(app) {
      const limit = app.smartRateLimit.limit(MINE)
      void app.get('/', { onRequest: (request, reply, done) => limit(request, reply, done) }, ok)
    },
  },
  'a hook of the scope': {
    routes(app) {
      void app.register(async (scope) => {
        scope.addHook('preHandler', app.smartRateLimit.limit(MINE))
        await scope.register(async (child) => void child.get('/', ok))
      })
    },
  },
  'a hook of the scope that comes after the route': {
    routes(app) {
      void app.register(async (scope) => {
        scope.get('/', ok)
        scope.addHook('onRequest', app.smartRateLimit.limit(MINE))
      })
    },
  },
  'the config of the route': {
    routes: (app) => void app.get('/', { config: { smartRateLimit: MINE } }, ok),
  },
  'the handler of requests without a route': {
    routes: (app) => void app.setNotFoundHandler({ preHandler: app.smartRateLimit.limit(MINE) }, ok),
  },
}

forAnyDatabase((provider) => {
  for (const [place, options] of Object.entries(PLACES)) {
    test(`the event takes over the refusal by a limit in ${place}`, async (t) => {
      const app = await start(t, provider, options)
      assert.deepEqual(await app.statuses(2, '/', ALICE), [200, 429])
      assert.deepEqual(await logged(app), [PASSED, REFUSED])
    })
  }

  test('the event takes over the refusal where a scope has the plugin in it', async (t) => {
    const app = await start(t, provider, { inChildScope: true, routes: declareConfigAndHook })
    assert.deepEqual(await app.statuses(2, '/hook', ALICE), [200, 429])
    assert.deepEqual(await app.statuses(2, '/none', ALICE), [404, 404])
    await app.app.close()
    assert.deepEqual(await outcomes(app.database), [PASSED, REFUSED])
  })

  test("with hook: 'preHandler' the event takes over what comes after the check, and where a limit came before it there is none", async (t) => {
    const app = await start(t, provider, {
      plugin: { hook: 'preHandler' },
      routes(scope) {
        declareConfigAndHook(scope)
        scope.get('/late', { preHandler: scope.smartRateLimit.limit(MINE) }, ok)
      },
    })
    for (const path of ['/config', '/late']) assert.deepEqual(await app.statuses(2, path, ALICE), [200, 429])
    assert.deepEqual(await logged(app), [PASSED, REFUSED, ['default', 'allowed', true, 3, 100], REFUSED])
    assert.deepEqual(await app.statuses(2, '/hook', ALICE), [200, 429])
    assert.equal((await logged(app)).length, 5)
  })

  test('a client that hangs up during the check has its event, over HTTP/1 and HTTP/2', async (t) => {
    for (const fastify of [{}, HTTP2]) {
      const held = holding()
      let gone = 0
      const app = await start(t, provider, {
        fastify,
        plugin: { middleware: { backend: held.store } },
        before(scope) {
          scope.addHook('onRequest', async (_request, reply) => void reply.raw.once('close', () => gone++))
        },
        routes(scope) {
          const fail = async () => {
            throw new Error('not today')
          }
          scope.get('/', { onRequest: [fail, scope.smartRateLimit.limit(MINE)] }, ok)
        },
      })
      const client = fastify === HTTP2 ? connectHttp2(app.port) : connect({ port: app.port, host: '127.0.0.1' })
      if (client instanceof Socket) client.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
      else void client.send({ ':path': '/' })
      await held.asked
      if (client instanceof Socket) client.destroy()
      else client.close()
      await eventually('the server notices', () => gone === 1)
      held.letGo()
      await eventually('the event is written', async () => (await logged(app)).length === 1)
      await app.app.close()
      assert.equal((await outcomes(app.database)).length, 1)
    }
  })

  test('an injected request has its event too, and an upgrade on a route whose scope got its limit later', async (t) => {
    const app = await start(t, provider, {
      before: async (scope) => {
        await scope.register(fastifyWebsocket)
      },
      routes(scope) {
        declareConfigAndHook(scope)
        void scope.register(async (child) => {
          child.get('/chat', { websocket: true }, () => undefined)
          child.addHook('onRequest', scope.smartRateLimit.limit({ ...MINE, rate: '9/m' }))
        })
      },
    })
    for (const status of [200, 429]) assert.equal((await app.app.inject('/hook')).statusCode, status)
    assert.deepEqual(await logged(app), [PASSED, REFUSED])
    const socket = connect({ port: app.port, host: '127.0.0.1' })
    atEnd(t, () => socket.destroy())
    socket.write(
      'GET /chat HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n',
    )
    await once(socket, 'data')
    await eventually('the event is written while the connection lasts', async () => (await logged(app)).length === 3)
    assert.equal(socket.closed, false)
  })

  test('it keeps what the request is, and takes over whom the limit counts', async (t) => {
    const app = await start(t, provider, {
      plugin: { useDynamicRules: true, user: () => ({ id: 7 }) },
      routes(scope) {
        const { limit } = scope.smartRateLimit
        scope.post('/a', { onRequest: limit({ ...MINE, key: 'header:x-a' }) }, ok)
        scope.post('/b', { onRequest: limit({ ...MINE, key: 'ip' }) }, ok)
      },
    })
    await app.database.client.rateLimitRule.create({
      data: { name: 'api', pathPattern: '^/', rate: '50/m', key: 'user' },
    })
    await app.app.smartRateLimit.rules.reload()
    const asked = { ...ALICE, method: 'POST', headers: { 'x-a': 'secret' } }
    for (const path of ['/a?q=1', '/b']) assert.deepEqual(await app.statuses(2, path, asked), [200, 429])
    await app.app.smartRateLimit.events.flush()
    const rows = await app.database.client.rateLimitEvent.findMany({ orderBy: { id: 'asc' } })
    assert.deepEqual(
      rows.map(({ ruleName, key, client, clientIp, userId, path, method }) => [
        ruleName,
        key,
        client,
        clientIp,
        userId,
        path,
        method,
      ]),
      [
        ['api', 'rule:api:user:7', 'user:7', null, 7, '/a', 'POST'],
        ['', 'header:secret', 'header:x-a:secret', null, 7, '/a', 'POST'],
        ['api', 'rule:api:user:7', 'user:7', null, 7, '/b', 'POST'],
        ['', `ip:${ALICE.from}`, `ip:${ALICE.from}`, ALICE.from, 7, '/b', 'POST'],
      ],
    )
    const { notes } = await app.app.smartRateLimit.rules.preview({ name: 'api', pathPattern: '^/', rate: '1/m' })
    assert.ok(notes.some((note) => note.startsWith('Limits of single routes refuse requests')))
    assert.deepEqual(new Set(rows.map(({ timestamp }) => timestamp.getTime())), new Set([app.clock.now()]))
  })

  test('of several limits it tells of the one that refuses; one that only counts refuses nothing', async (t) => {
    const app = await start(t, provider, {
      routes(scope) {
        const { limit } = scope.smartRateLimit
        const onRequest = [limit({ rate: '1/h', name: 'counts', block: false }), limit({ rate: '2/m', name: 'first' })]
        scope.get('/', { onRequest, preHandler: limit({ rate: '1/d', name: 'last' }) }, ok)
      },
    })
    assert.deepEqual(await app.statuses(3, '/', ALICE), [200, 429, 429])
    assert.deepEqual(await logged(app), [
      PASSED,
      ['last', 'over_limit', false, 2, 1],
      ['first', 'over_limit', false, 3, 2],
    ])
  })

  test("a refusal by the plugin's own check stands, and what only counts there is taken over", async (t) => {
    for (const block of [true, false]) {
      const app = await start(t, provider, {
        plugin: { middleware: { defaultRate: '1/m', block } },
        routes: (scope) => void scope.get('/', { onRequest: scope.smartRateLimit.limit({ ...MINE, rate: '2/m' }) }, ok),
      })
      assert.deepEqual(await app.statuses(3, '/', ALICE), block ? [200, 429, 429] : [200, 200, 429])
      assert.deepEqual(await logged(app), [
        ['default', 'allowed', true, 1, 1],
        ['default', 'over_limit', !block, 2, 1],
        block ? ['default', 'over_limit', false, 3, 1] : ['mine', 'over_limit', false, 3, 2],
      ])
    }
  })

  test("where the plugin's own check did not run, nothing is written", async (t) => {
    const app = await start(t, provider, {
      plugin: {
        skip: ({ url }) => url === '/skip',
        middleware: { skipPaths: ['/skipped'], allowList: ['10.0.0.0/8'] },
      },
      routes(scope) {
        const onRequest = scope.smartRateLimit.limit(MINE)
        scope.get('/opted-out', { onRequest, config: { smartRateLimit: false } }, ok)
        scope.get('/skipped', { config: { smartRateLimit: MINE } }, ok)
        scope.get('/skip', { onRequest }, ok)
      },
    })
    for (const path of ['/opted-out', '/skipped', '/skip']) assert.deepEqual(await app.statuses(2, path), [200, 429])
    assert.deepEqual(await logged(app), [])
  })

  test("with logEvents 'blocked' only the refusal is written, and with false nothing", async (t) => {
    const routes = (scope: FastifyInstance) => declareConfigAndHook(scope)
    for (const [logEvents, events] of [
      ['blocked', [REFUSED, REFUSED]],
      [false, []],
    ] as const) {
      const app = await start(t, provider, { plugin: { logEvents }, routes })
      for (const path of ['/config', '/hook']) assert.deepEqual(await app.statuses(2, path, ALICE), [200, 429])
      assert.deepEqual(await logged(app), events)
    }
  })

  test('a refusal without a store is written as such', async (t) => {
    const plugin: RateLimitOptions = { onStoreError: 'deny', storeTimeoutMs: 1_000, middleware: { backend: failing() } }
    const app = await start(t, provider, {
      plugin: { ...plugin, middleware: { ...plugin.middleware, block: false } },
      routes: declareConfigAndHook,
    })
    assert.deepEqual(await app.statuses(1, '/hook', ALICE), [503])
    assert.deepEqual(
      (await logged(app)).map(([policy, outcome]) => [policy, outcome]),
      [['mine', 'unavailable']],
    )
  })

  test('a request that another hook ends before the limit keeps its event', async (t) => {
    const app = await start(t, provider, {
      routes(scope) {
        const preHandler = scope.smartRateLimit.limit(MINE)
        const fail = async () => {
          throw new Error('not today')
        }
        scope.get('/throws', { onRequest: fail, preHandler }, ok)
        scope.get('/answers', { onRequest: async (_request, reply) => reply.code(401).send('who?'), preHandler }, ok)
        scope.get(
          '/hijacks',
          { onRequest: async (_request, reply) => void reply.hijack().raw.end('mine'), preHandler },
          ok,
        )
      },
    })
    const answers = [
      await app.statuses(2, '/throws'),
      await app.statuses(1, '/answers'),
      await app.statuses(1, '/hijacks'),
    ]
    assert.deepEqual(answers, [[500, 500], [401], [200]])
    await eventually('every event is recorded', async () => (await logged(app)).length === 4)
    assert.deepEqual(
      (await logged(app)).map(([policy, outcome]) => `${policy} ${outcome}`),
      Array(4).fill('default allowed'),
    )
  })

  test('a request that is aborted while a hook waits keeps its event, and so does one in progress when the app closes', async (t) => {
    let isWaiting = false
    const app = await start(t, provider, {
      routes(scope) {
        const wait = () => {
          isWaiting = true
        }
        const hooks = [wait, scope.smartRateLimit.limit(MINE)]
        scope.get('/', { onRequest: hooks.map((hook) => hook) }, ok)
      },
    })
    for (const ends of ['aborted', 'closed']) {
      isWaiting = false
      const socket = connect({ port: app.port, host: '127.0.0.1' })
      socket.on('error', () => undefined)
      socket.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
      await eventually('the hook waits', () => isWaiting)
      assert.equal((await logged(app)).length, ends === 'aborted' ? 0 : 1)
      if (ends === 'closed') break
      socket.destroy()
      await eventually('the event is recorded', async () => (await logged(app)).length === 1)
    }
    await app.app.close()
    const seen = await outcomes(app.database)
    assert.deepEqual(
      seen.map(([policy, outcome]) => `${policy} ${outcome}`),
      Array(2).fill('default allowed'),
    )
  })

  test('the event is there when a hook answers, though an HTTP/2 client gives no window, and resets without an error', async (t) => {
    const app = await start(t, provider, {
      fastify: HTTP2,
      routes(scope) {
        const authenticate = async (_request: FastifyRequest, reply: FastifyReply) => reply.code(401).send('who?')
        scope.get('/', { config: { smartRateLimit: MINE }, preHandler: authenticate }, ok)
        scope.get('/hook', { onRequest: [authenticate, scope.smartRateLimit.limit(MINE)] }, ok)
      },
    })
    destroySessions(t, app.app)
    const { session, close } = connectHttp2(app.port, NO_WINDOW)
    atEnd(t, close)
    if (session.connecting) await once(session, 'localSettings')
    for (const [index, path] of ['/hook', '/hook', '/'].entries()) {
      const stream = session.request({ ':path': path })
      stream.on('error', () => undefined)
      assert.equal((await once(stream, 'response'))[0][':status'], 401)
      stream.close(constants.NGHTTP2_NO_ERROR)
      assert.equal((await logged(app)).length, index + 1)
    }
  })

  test('the event does not wait for the response: a stream, a hijacked reply or an upgrade may last for hours', async (t) => {
    const app = await start(t, provider, {
      routes(scope) {
        const onRequest = scope.smartRateLimit.limit({ ...MINE, rate: '10/m' })
        scope.get('/hijacked', { onRequest }, (_request, reply) => void reply.hijack().raw.write('first'))
        scope.get(
          '/config',
          { config: { smartRateLimit: MINE } },
          (_request, reply) => void reply.hijack().raw.write('first'),
        )
      },
    })
    for (const [index, path] of ['/hijacked', '/config'].entries()) {
      const socket = connect({ port: app.port, host: '127.0.0.1' })
      atEnd(t, () => socket.destroy())
      socket.write(`GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`)
      await once(socket, 'data')
      assert.equal((await logged(app)).length, index + 1, path)
    }
  })
})

function declareConfigAndHook(scope: FastifyInstance): void {
  scope.get('/config', { config: { smartRateLimit: MINE } }, ok)
  scope.get('/hook', { onRequest: scope.smartRateLimit.limit(MINE) }, ok)
}

/** A store whose first check waits. */
function holding() {
  const memory = new MemoryStore()
  let noteAsked: () => void = () => undefined
  let letGo: () => void = () => undefined
  const asked = new Promise<void>((resolve) => {
    noteAsked = resolve
  })
  const released = new Promise<void>((resolve) => {
    letGo = resolve
  })
  const store: Store = {
    concurrency: 1,
    async check(checks, nowMs) {
      noteAsked()
      await released
      return memory.check(checks, nowMs)
    },
    reset: (keys) => memory.reset(keys),
    close: () => undefined,
  }
  return { store, asked, letGo: () => letGo() }
}

function failing() {
  return {
    concurrency: 1,
    check: async () => Promise.reject(new Error('away')),
    reset: async () => undefined,
    close: async () => undefined,
  }
}
