/** A request is decided once, whatever the host does with it. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { FastifyInstance } from 'fastify'
import type { RateLimitOptions } from '../../src/index.js'
import { openDatabase, startApp } from '../support/build-app.js'

const ok = async () => 'ok'

for (const hook of ['onRequest', 'preHandler'] as const) {
  for (const [what, path, status] of [
    ['answers as if there were no route', '/missing', 404],
    ['hijacks the reply', '/hijacked', 200],
    ['fails', '/fails', 500],
    ['fails, and its error handler after it', '/fails-twice', 500],
    ['is not there', '/nowhere', 404],
  ] as const) {
    test(`with hook: '${hook}' a request counts once whose handler ${what}, and has one event`, async (t) => {
      const database = await openDatabase(t, 'sqlite')
      const { app, statuses, request } = await startApp(t, {
        database,
        plugin: { hook, logEvents: true, middleware: { defaultRate: '3/m' } },
        routes: declareRoutes,
      })
      assert.deepEqual(await statuses(2, path), [status, status])
      assert.equal((await request('/')).headers['x-ratelimit-remaining'], '0')
      assert.deepEqual(await statuses(1, path), [429])
      await app.smartRateLimit.events.flush()
      assert.equal(await database.client.rateLimitEvent.count(), 4)
    })
  }

  test(`with hook: '${hook}' a route that has opted out does so also where its handler finds nothing`, async (t) => {
    const { statuses, request } = await start({ hook, middleware: { defaultRate: '1/m' } })
    assert.deepEqual(await statuses(3, '/opted-out'), [404, 404, 404])
    assert.equal((await request('/opted-out')).headers['x-ratelimit-limit'], undefined)
    assert.deepEqual(await statuses(2, '/'), [200, 429])
    function start(plugin: RateLimitOptions) {
      return startApp(t, { database: null, plugin, routes: declareRoutes })
    }
  })

  test(`with hook: '${hook}' a refusal stands whatever the error handler does, and counts once`, async (t) => {
    for (const [how, status] of [
      ['throws', 500],
      ['finds nothing', 404],
    ] as const) {
      let isHandled = 0
      const { statuses, clock, request } = await startApp(t, {
        database: null,
        plugin: { hook, middleware: { defaultRate: '2/m', algorithm: 'token_bucket' } },
        routes(app) {
          app.setErrorHandler((error, _request, reply) => {
            if (how === 'throws') throw error instanceof Error ? new Error(error.message) : error
            reply.callNotFound()
          })
          app.get('/', async () => {
            isHandled++
            return 'ok'
          })
        },
      })
      assert.deepEqual(await statuses(4, '/'), [200, 200, status, status])
      assert.equal(isHandled, 2)
      clock.advance(60_000)
      assert.equal((await request('/')).headers['x-ratelimit-remaining'], '1')
    }
  })

  test(`with hook: '${hook}' a request that another one injects is decided by itself, once`, async (t) => {
    const { request } = await startApp(t, {
      database: null,
      plugin: { hook, middleware: { defaultRate: '10/m' } },
      routes(app) {
        app.get('/', ok)
        app.get('/outer', async () => (await app.inject('/')).headers['x-ratelimit-remaining'])
      },
    })
    const { headers, text } = await request('/outer')
    assert.deepEqual([headers['x-ratelimit-remaining'], text], ['9', '8'])
    assert.equal((await request('/')).headers['x-ratelimit-remaining'], '7')
  })
}

test('places and responses of a handler that finds nothing count once, too', async (t) => {
  for (const middleware of [
    { algorithm: 'concurrency', defaultRate: '1/30s' },
    { counts: '404', defaultRate: '2/m' },
  ] as const) {
    const { statuses, request } = await startApp(t, {
      database: null,
      plugin: { hook: 'preHandler', middleware },
      routes: declareRoutes,
    })
    assert.deepEqual(await statuses(2, '/missing'), [404, 404])
    assert.equal((await request('/')).status, 'counts' in middleware ? 429 : 200)
  }
})

test('a limit among the hooks of a scope counts a request once, whose handler finds nothing', async (t) => {
  const { statuses, request } = await startApp(t, {
    database: null,
    routes(app) {
      app.addHook('preHandler', app.smartRateLimit.limit({ rate: '5/m' }))
      declareRoutes(app)
    },
  })
  assert.deepEqual(await statuses(2, '/missing'), [404, 404])
  assert.equal((await request('/missing')).headers['x-ratelimit-remaining'], '2')
  assert.equal((await request('/nowhere')).headers['x-ratelimit-remaining'], '4')
})

function declareRoutes(app: FastifyInstance): void {
  const fails = async () => {
    throw new Error('no')
  }
  app.get('/', ok)
  app.get('/missing', (_request, reply) => reply.callNotFound())
  app.get('/opted-out', { config: { smartRateLimit: false } }, (_request, reply) => reply.callNotFound())
  app.get('/hijacked', (_request, reply) => void reply.hijack().raw.end('mine'))
  app.get('/fails', fails)
  const errorHandler = (error: unknown) => {
    throw error
  }
  app.get('/fails-twice', { errorHandler }, fails)
}
