/** An API team decides which requests are limited, and none slips past: routes, prefixes, lists, hooks, scopes. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import otherRateLimit from '@fastify/rate-limit'
import type { FastifyInstance } from 'fastify'
import { openDatabase, startApp } from '../support/build-app.js'
import { forAnyDatabase } from '../support/databases.js'

const ALICE = '203.0.113.7'
const ONCE = { middleware: { defaultRate: '1/h' } }

forAnyDatabase((provider) => {
  test('skipPaths end at a slash: /health and /health/db are free, /healthy is not', async (t) => {
    const database = await openDatabase(t, provider)
    const { app, request, statuses } = await startApp(t, {
      database,
      plugin: { logEvents: true, middleware: { defaultRate: '1/h', skipPaths: ['/health', '/admin/'] } },
    })

    for (const path of ['/health', '/health/', '/health/db', '/health?deep=1', '/admin/', '/admin/users/']) {
      assert.deepEqual(await statuses(3, path), [200, 200, 200], path)
      assert.equal((await request(path)).headers['x-ratelimit-limit'], undefined, path)
    }
    assert.equal((await request('/healthy')).headers['x-ratelimit-remaining'], '0')
    assert.equal((await request('/admin')).status, 429)
    await app.smartRateLimit.events.flush()
    assert.equal(await database.client.rateLimitEvent.count(), 2)
    assert.equal(await database.client.rateLimitCounter.count(), 1)
  })

  test('a route with config.smartRateLimit false is not counted, not logged and has no headers', async (t) => {
    const database = await openDatabase(t, provider)
    const { app, request, statuses } = await startApp(t, {
      database,
      plugin: { ...ONCE, logEvents: true },
      routes: (app) => {
        app.get('/free', { config: { smartRateLimit: false } }, async () => 'ok')
        app.get('/paid', async () => 'ok')
      },
    })

    assert.deepEqual(await statuses(3, '/free'), [200, 200, 200])
    assert.equal((await request('/free', { method: 'HEAD' })).headers['x-ratelimit-limit'], undefined)
    assert.deepEqual(await statuses(2, '/paid'), [200, 429])
    await app.smartRateLimit.events.flush()
    assert.equal(await database.client.rateLimitEvent.count(), 2)
  })

  test('a client of the allow list has no limit and no headers; others have 2/m', async (t) => {
    const database = await openDatabase(t, provider)
    const { app, statuses, request } = await startApp(t, {
      database,
      plugin: { logEvents: true, middleware: { defaultRate: '2/m', allowList: ['10.0.0.0/8', '2001:db8::/32'] } },
    })

    assert.deepEqual(await statuses(8, '/', { from: '10.4.5.6' }), Array(8).fill(200))
    assert.deepEqual(await statuses(3, '/', { from: '2001:db8::1' }), [200, 200, 200])
    assert.equal((await request('/', { from: '10.4.5.6' })).headers['x-ratelimit-limit'], undefined)
    assert.deepEqual(await statuses(3, '/', { from: ALICE }), [200, 200, 429])
    await app.smartRateLimit.events.flush()
    assert.deepEqual(await database.client.rateLimitEvent.findMany({ distinct: ['key'], select: { key: true } }), [
      { key: `ip:${ALICE}` },
    ])
  })

  test('a client of the deny list is refused at once with limit 0 and no Retry-After, even when it is allow-listed', async (t) => {
    const { request, statuses } = await startApp(t, {
      database: provider,
      plugin: { middleware: { denyList: ['192.0.2.0/24'], allowList: ['192.0.2.1', '10.0.0.0/8'] } },
    })

    for (const from of ['192.0.2.200', '192.0.2.1', '::ffff:192.0.2.1']) {
      const { status, headers, text } = await request('/', { from })
      assert.equal(status, 403, from)
      assert.equal(headers['x-ratelimit-limit'], '0')
      assert.equal(headers['x-ratelimit-remaining'], '0')
      assert.equal(headers['retry-after'], undefined)
      assert.equal(JSON.parse(text).code, 'FST_RATE_LIMIT_DENIED')
    }
    assert.deepEqual(await statuses(1, '/', { from: '192.0.3.1' }), [200])
  })

  test('paths without a route are checked and counted like any other, whatever the 404 handler', async (t) => {
    const database = await openDatabase(t, provider)
    const routes = (app: FastifyInstance) => void app.get('/known', async () => 'ok')
    const plain = await startApp(t, { database, plugin: { middleware: { defaultRate: '2/h' } }, routes })

    assert.deepEqual(await plain.statuses(3, '/nowhere'), [404, 404, 429])
    assert.equal((await plain.request('/nowhere', { from: ALICE })).headers['x-ratelimit-remaining'], '1')
    assert.deepEqual(await plain.statuses(1, '/known'), [429])

    const own = await startApp(t, {
      database,
      plugin: { namespace: 'own', middleware: { defaultRate: '2/h' } },
      routes: (app) => {
        app.setNotFoundHandler((_request, reply) => reply.code(404).send('mine'))
      },
    })
    assert.deepEqual(await own.statuses(3, '/nowhere', { method: 'POST' }), [404, 404, 429])
  })

  test('HEAD, POST and GET of one client share one counter', async (t) => {
    const { request } = await startApp(t, {
      database: provider,
      plugin: { middleware: { defaultRate: '3/h' } },
      routes: (app) => {
        app.get('/', async () => 'ok')
        app.post('/', async () => 'ok')
      },
    })

    assert.equal((await request('/')).headers['x-ratelimit-remaining'], '2')
    assert.equal((await request('/', { method: 'HEAD' })).headers['x-ratelimit-remaining'], '1')
    assert.equal((await request('/', { method: 'POST' })).headers['x-ratelimit-remaining'], '0')
    assert.equal((await request('/', { method: 'HEAD' })).status, 429)
  })

  test('routes declared before the plugin, and in child plugins on both sides of it, are limited', async (t) => {
    const child = (path: string) => async (app: FastifyInstance) => void app.get(path, async () => 'ok')
    const { statuses } = await startApp(t, {
      database: provider,
      plugin: { middleware: { defaultRate: '4/h' } },
      before: async (app) => {
        app.get('/early', async () => 'ok')
        await app.register(child('/early-child'))
      },
      routes: async (app) => {
        app.get('/late', async () => 'ok')
        await app.register(child('/late-child'), { prefix: '/below' })
      },
    })

    for (const path of ['/early', '/early-child', '/late', '/below/late-child']) {
      assert.deepEqual(await statuses(1, path), [200], path)
    }
    for (const path of ['/early', '/early-child', '/late', '/below/late-child']) {
      assert.deepEqual(await statuses(1, path), [429], path)
    }
  })

  test('registered in a child scope, it limits the routes of that scope alone', async (t) => {
    const { statuses, request } = await startApp(t, {
      database: provider,
      plugin: ONCE,
      inChildScope: true,
      before: (app) => {
        app.get('/outside', async () => 'ok')
      },
      routes: (app) => void app.get('/inside', async () => 'ok'),
    })

    assert.deepEqual(await statuses(2, '/inside'), [200, 429])
    assert.deepEqual(await statuses(2, '/outside'), [200, 200])
    assert.equal((await request('/outside')).headers['x-ratelimit-limit'], undefined)
  })

  test('enabled: false checks, counts and logs nothing', async (t) => {
    const database = await openDatabase(t, provider)
    const { app, statuses, request } = await startApp(t, {
      database,
      plugin: { enabled: false, logEvents: true, useDynamicRules: true, middleware: { defaultRate: '1/m' } },
    })

    assert.deepEqual(await statuses(5, '/'), [200, 200, 200, 200, 200])
    assert.equal((await request('/')).headers['x-ratelimit-limit'], undefined)
    await app.smartRateLimit.events.flush()
    assert.equal(await database.client.rateLimitCounter.count(), 0)
    assert.equal(await database.client.rateLimitEvent.count(), 0)
  })

  test("hook: 'preHandler' knows the users that earlier hooks find, and a 400 raised before it is not counted", async (t) => {
    const { statuses } = await startApp(t, {
      database: provider,
      plugin: { hook: 'preHandler', middleware: { defaultRate: '1/h', key: 'user' } },
      routes: (app) => {
        app.decorateRequest('user', null)
        app.addHook('preValidation', async (request) => {
          const id = Number(request.headers.authorization)
          Object.assign(request, { user: id ? { id } : null })
        })
        const schema = { querystring: { type: 'object', properties: { page: { type: 'integer' } } } }
        app.get('/pages', { schema }, async () => 'ok')
      },
    })

    assert.deepEqual(await statuses(2, '/pages?page=x'), [400, 400])
    assert.deepEqual(await statuses(2, '/pages', { headers: { authorization: '7' } }), [200, 429])
    assert.deepEqual(await statuses(2, '/pages', { headers: { authorization: '8' } }), [200, 429])
    assert.deepEqual(await statuses(2, '/pages'), [200, 429])
  })

  test('@fastify/rate-limit lives in the same app: each refuses by its own limit', async (t) => {
    const { request, app } = await startApp(t, {
      database: provider,
      plugin: { middleware: { defaultRate: '3/h' } },
      before: async (app) => {
        await app.register(otherRateLimit, { global: false })
      },
      routes: (app) => {
        app.get('/theirs', { config: { rateLimit: { max: 1, timeWindow: '1 hour' } } }, async () => 'ok')
        app.get('/ours', async () => 'ok')
      },
    })

    assert.equal(typeof app.rateLimit, 'function')
    assert.equal((await request('/theirs')).status, 200)
    const theirs = await request('/theirs')
    assert.equal(theirs.status, 429)
    assert.notEqual(JSON.parse(theirs.text).code, 'FST_RATE_LIMIT_EXCEEDED')
    assert.equal((await request('/ours')).status, 200)
    const ours = await request('/ours')
    assert.equal(ours.status, 429)
    assert.equal(JSON.parse(ours.text).code, 'FST_RATE_LIMIT_EXCEEDED')
  })
})
