/** Limits on the requests that are in progress at the same time. */
import assert from 'node:assert/strict'
import { EventEmitter, once } from 'node:events'
import { connect as connectSession, constants } from 'node:http2'
import { connect, type Socket } from 'node:net'
import { Readable } from 'node:stream'
import { type TestContext, test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import websocket from '@fastify/websocket'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { MINUTE_MS } from '../../src/ground/time/clock.js'
import { MemoryStore, type RateLimitOptions, type Store } from '../../src/index.js'
import { atEnd } from '../support/at-end.js'
import { openDatabase, startApp, type TestApp } from '../support/build-app.js'
import { fakeClock } from '../support/clock.js'
import { forAnyDatabase, type Provider, type TestDatabase } from '../support/databases.js'
import { eventually } from '../support/eventually.js'
import { connectHttp2, destroySessions, HTTP2, NO_WINDOW } from '../support/http-client.js'
import { long } from '../support/long.js'
import { openRedis, redisMissing } from '../support/redis.js'
import { refusalOf } from '../support/refusal.js'

const UPLOADS = { name: 'uploads', pathPattern: '^/', rate: '2/60s', algorithm: 'concurrency' } as const
const LIMITED = { algorithm: 'concurrency', defaultRate: '2/60s' } as const

forAnyDatabase((provider) => {
  for (const backend of ['database', 'memory'] as const) {
    declareTests(`${provider}, counters in ${backend}`, (t) => start(t, provider, { middleware: { backend } }))
  }

  test(`four servers together let exactly the limit through, and again once these have ended: ${provider}`, async (t) => {
    const database = await openDatabase(t, provider)
    const servers: Opened[] = []
    for (let count = 0; count < 4; count++) {
      servers.push(await open(t, { database, plugin: { middleware: { ...LIMITED, defaultRate: '7/60s' } } }))
    }
    for (const _round of [1, 2]) {
      const answers = servers.flatMap(({ request }) => Array.from({ length: 10 }, () => request('/held')))
      let refused = 0
      for (const answer of answers) void answer.then(({ status }) => status === 429 && refused++)
      const inProgress = () => servers.reduce((sum, { held }) => sum + held.length, 0)
      await eventually('all have been decided', () => inProgress() + refused === 40)
      assert.equal(inProgress(), 7)
      for (const { letGo } of servers) letGo()
      await Promise.all(answers)
      for (const { app } of servers) await eventually('all permits are free', async () => (await taken(app)) === 0)
    }
  })

  test(`events count what is in progress, and a rule is edited while requests are: ${provider}`, async (t) => {
    const { app, rules, client, hold, letGo, statuses } = await start(t, provider, { logEvents: true })
    await rules.create({ data: UPLOADS })
    const answers = await hold(2)
    assert.deepEqual(await statuses(1, '/'), [429])
    await rules.update({ where: { name: UPLOADS.name }, data: { rate: '3/60s' } })
    assert.deepEqual(await statuses(2, '/'), [200, 200])
    await app.smartRateLimit.events.flush()
    const events = await client.rateLimitEvent.findMany({ orderBy: { id: 'asc' } })
    assert.deepEqual(
      events.map(({ count, limit, outcome }) => [count, limit, outcome]),
      [
        [1, 2, 'allowed'],
        [2, 2, 'allowed'],
        [3, 2, 'over_limit'],
        [3, 3, 'allowed'],
        [3, 3, 'allowed'],
      ],
    )
    letGo()
    await Promise.all(answers)
  })
})

test('requests in progress are limited on Redis, too', { skip: redisMissing }, async (t) => {
  const { url, namespace } = openRedis(t)
  const { rules, hold, letGo, statuses } = await start(t, 'sqlite', {
    redis: url,
    namespace,
    middleware: { backend: 'redis' },
  })
  await rules.create({ data: UPLOADS })
  const answers = await hold(2)
  assert.deepEqual(await statuses(2, '/'), [429, 429])
  letGo()
  await Promise.all(answers)
  assert.deepEqual(await statuses(5, '/'), Array(5).fill(200))
})

/** Declares the tests that are the same wherever the counters are. */
function declareTests(store: string, openApp: (t: TestContext) => Promise<Started>): void {
  test(`at most the limit is in progress, and the next one goes on when one has ended: ${store}`, async (t) => {
    const { rules, request, hold, letGo, statuses } = await openApp(t)
    await rules.create({ data: UPLOADS })
    const answers = await hold(2)
    const { status, headers, text } = await request('/')
    assert.equal(status, 429)
    assert.deepEqual(
      [headers['retry-after'], headers['x-ratelimit-limit'], headers['x-ratelimit-remaining']],
      ['1', '2', '0'],
    )
    assert.equal(headers['x-ratelimit-reset'], '1')
    assert.equal(JSON.parse(text).message, 'Rate limit exceeded, retry in 1 second')
    assert.equal((await request('/', { from: '203.0.113.1' })).status, 200)
    letGo(1)
    await Promise.race(answers)
    assert.deepEqual(await statuses(4, '/'), [200, 200, 200, 200])
    letGo()
    await Promise.all(answers)
  })

  test(`a permit that is not given back is free after the period, and is not given back later: ${store}`, async (t) => {
    const { rules, clock, hold, letGo, statuses } = await openApp(t)
    await rules.create({ data: UPLOADS })
    const slow = await hold(2)
    clock.advance(MINUTE_MS - 1)
    assert.deepEqual(await statuses(1, '/'), [429])
    clock.advance(1)
    assert.deepEqual(await statuses(1, '/'), [200])
    const others = await hold(2)
    letGo(2)
    await Promise.all(slow)
    assert.deepEqual(await statuses(1, '/'), [429])
    letGo()
    await Promise.all(others)
    assert.deepEqual(await statuses(1, '/'), [200])
  })

  test(`a reset frees all permits, and what ends later frees no other: ${store}`, async (t) => {
    const { app, rules, hold, letGo, statuses } = await openApp(t)
    await rules.create({ data: UPLOADS })
    const before = await hold(2)
    await app.smartRateLimit.reset('rule:uploads:127.0.0.1')
    const after = await hold(2)
    letGo(2)
    await Promise.all(before)
    assert.deepEqual(await statuses(1, '/'), [429])
    letGo()
    await Promise.all(after)
  })

  test(`a request takes as many permits as it costs: ${store}`, async (t) => {
    const { rules, hold, letGo, statuses } = await openApp(t)
    await rules.create({ data: { ...UPLOADS, rate: '5/60s', cost: 2 } })
    const answers = await hold(2)
    assert.deepEqual(await statuses(1, '/'), [429])
    letGo()
    await Promise.all(answers)
    assert.deepEqual(await statuses(3, '/'), [200, 200, 200])
  })
}

for (const [what, path, status] of [
  ['that the host hijacked and finished', '/hijacked', 200],
  ['that is a stream', '/stream', 200],
  ['that a failing onSend hook left', '/broken', 500],
  ['that a hook before the handler sent', '/early', 402],
  ['that a handler threw', '/thrown', 500],
  ['of a path without a route', '/nowhere', 404],
  ['without a body', '/empty', 204],
] as const) {
  test(`a permit is given back after a response ${what}`, async (t) => {
    const { statuses, app } = await open(t, { plugin: { middleware: { ...LIMITED, defaultRate: '1/60s' } } })
    assert.deepEqual(await statuses(4, path), Array(4).fill(status))
    assert.equal((await app.inject(path)).statusCode, status)
    assert.equal(await taken(app), 0)
  })
}

test('a client that goes away gives its permit back, before its response and amid it, and once', async (t) => {
  const { app, port, held, letGo } = await open(t, { plugin: { middleware: LIMITED } })
  const waiting = connect(port, '127.0.0.1')
  waiting.write('GET /held HTTP/1.1\r\nHost: a\r\n\r\n')
  const reading = connect(port, '127.0.0.1')
  reading.write('GET /endless HTTP/1.1\r\nHost: a\r\n\r\n')
  await once(reading, 'data')
  await eventually('both are in progress', async () => held.length === 1 && (await taken(app)) === 2)
  waiting.destroy()
  await eventually('the first permit is free', async () => (await taken(app)) === 1)
  letGo()
  await turn()
  assert.equal(await taken(app), 1)
  reading.destroy()
  await eventually('the second permit is free', async () => (await taken(app)) === 0)
})

test('all requests of one connection give their permits back when it is gone', async (t) => {
  const { app, port, held } = await open(t, { plugin: { middleware: { ...LIMITED, defaultRate: '20/60s' } } })
  const warnings: Error[] = []
  const note = (warning: Error) => warnings.push(warning)
  process.on('warning', note)
  t.after(() => process.off('warning', note))
  const socket = connect(port, '127.0.0.1')
  socket.write('GET /held HTTP/1.1\r\nHost: a\r\n\r\n'.repeat(15))
  await eventually('all are in progress', () => held.length === 15)
  assert.equal(await taken(app), 15)
  socket.destroy()
  await eventually('all permits are free', async () => (await taken(app)) === 0)
  assert.deepEqual(warnings, [])
})

test('a client that goes away while the store is asked gives its permit back', async (t) => {
  const { store, release, asked } = createHeldStore()
  const { app, port, connections } = await open(t, { plugin: { middleware: { ...LIMITED, backend: store } } })
  const socket = connect(port, '127.0.0.1')
  socket.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
  await eventually('the store is asked', () => asked() === 1)
  socket.destroy()
  await eventually('the server knows', () => connections[0]?.destroyed === true)
  release()
  await eventually('the permit is free', async () => (await taken(app)) === 0)
})

test('an HTTP/2 stream that is reset gives its permit back, and others once they have ended', async (t) => {
  const { app, port, held, letGo } = await open(t, { fastify: HTTP2, plugin: { middleware: LIMITED } })
  const session = connectSession(`http://127.0.0.1:${port}`)
  t.after(() => session.close())
  const reset = session.request({ ':path': '/held' })
  reset.on('error', () => undefined)
  const kept = session.request({ ':path': '/held' })
  await eventually('both are in progress', () => held.length === 2)
  assert.equal(await taken(app), 2)
  reset.close(8)
  await once(reset, 'close')
  await eventually('its permit is free', async () => (await taken(app)) === 1)
  letGo()
  kept.resume()
  await once(kept, 'close')
  await eventually('all permits are free', async () => (await taken(app)) === 0)
})

test(
  'an HTTP/2 answer that waits for the client’s window gives its permit back when it is reset, however, and once',
  long(),
  async (t) => {
    const { app, port } = await open(t, { fastify: HTTP2, plugin: { middleware: LIMITED } })
    destroySessions(t, app)
    const { session, close } = connectHttp2(port, NO_WINDOW)
    atEnd(t, close)
    if (session.connecting) await once(session, 'localSettings')
    for (const code of [constants.NGHTTP2_CANCEL, constants.NGHTTP2_NO_ERROR]) {
      for (const path of ['/', '/unread']) {
        const waiting = [0, 1].map(() => session.request({ ':method': 'POST', ':path': path }))
        for (const stream of waiting) stream.on('error', () => undefined).write('x')
        for (const stream of waiting) assert.equal((await once(stream, 'response'))[0][':status'], 200)
        for (const stream of waiting) await new Promise((written) => stream.write('y', written))
        assert.equal(await taken(app), 2)
        waiting[0]?.close(code)
        await eventually('one permit is free', async () => (await taken(app)) === 1)
        waiting[1]?.close(constants.NGHTTP2_CANCEL)
        await eventually('both are', async () => (await taken(app)) === 0)
      }
    }
  },
)

test('a WebSocket holds its permit until it is closed', async (t) => {
  const { app, port, statuses } = await open(t, { plugin: { middleware: LIMITED } })
  const [first, second] = [await openWebSocket(port), await openWebSocket(port)]
  assert.equal(await taken(app), 2)
  assert.deepEqual(await statuses(1, '/'), [429])
  first.destroy()
  await eventually('its permit is free', async () => (await taken(app)) === 1)
  second.destroy()
  await eventually('all permits are free', async () => (await taken(app)) === 0)
})

test('a connection that the host took over holds its permit until it is closed', async (t) => {
  const { app, port } = await open(t, { plugin: { middleware: LIMITED } })
  const socket = connect(port, '127.0.0.1')
  socket.write('GET /taken-over HTTP/1.1\r\nHost: a\r\n\r\n')
  assert.equal(String((await once(socket, 'data'))[0]), 'mine now')
  assert.equal(await taken(app), 1)
  socket.destroy()
  await eventually('its permit is free', async () => (await taken(app)) === 0)
})

test('an app that closes gives back what is in progress, for the other servers', async (t) => {
  const database = await openDatabase(t, 'sqlite')
  const plugin: RateLimitOptions = { middleware: LIMITED }
  const [closing, other] = [await open(t, { database, plugin }), await open(t, { database, plugin })]
  const [socket, upgraded] = [connect(closing.port, '127.0.0.1'), await openWebSocket(closing.port)]
  socket.on('error', () => undefined)
  socket.write('GET /held HTTP/1.1\r\nHost: a\r\n\r\n')
  await eventually('it is in progress', () => closing.held.length === 1)
  assert.deepEqual(await other.statuses(1, '/'), [429])
  await closing.app.close()
  assert.equal(await taken(other.app), 0)
  upgraded.destroy()
})

test('what a killed server held is free after the period', async (t) => {
  const database = await openDatabase(t, 'sqlite')
  const { clock, statuses } = await open(t, { database, plugin: { middleware: LIMITED } })
  const { store } = (await open(t, { database })).app.smartRateLimit
  const policy = { algorithm: 'concurrency', limit: 2, periodMs: MINUTE_MS } as const
  for (const permit of [1, 2])
    await store.check([{ key: 'default|ip:127.0.0.1', policy, cost: 1, permit }], clock.now())
  assert.deepEqual(await statuses(1, '/'), [429])
  clock.advance(MINUTE_MS)
  assert.deepEqual(await statuses(1, '/'), [200])
})

test('with block: false requests take permits, and none is refused', async (t) => {
  const { rules, hold, letGo, statuses, request } = await start(t, 'sqlite')
  await rules.create({ data: { ...UPLOADS, block: false } })
  const answers = await hold(3)
  assert.equal((await request('/')).headers['x-ratelimit-remaining'], '0')
  await rules.update({ where: { name: UPLOADS.name }, data: { block: true } })
  assert.deepEqual(await statuses(1, '/'), [429])
  letGo()
  await Promise.all(answers)
  assert.deepEqual(await statuses(2, '/'), [200, 200])
})

test('a refusal by another limit gives back what the request took', async (t) => {
  const { app, statuses, clock } = await open(t, { plugin: { middleware: { ...LIMITED, ceiling: '3/m' } } })
  assert.deepEqual(await statuses(5, '/'), [200, 200, 200, 429, 429])
  clock.advance(MINUTE_MS)
  assert.equal(await taken(app), 0)
})

test('a limit of a route, the config of a route and an override count requests in progress', async (t) => {
  const { app, client, held, letGo, request, statuses } = await start(t, 'sqlite')
  for (const path of ['/by-hook', '/by-config']) {
    const pending = request(path)
    await eventually('it is in progress', () => held.length === 1)
    const { status, headers } = await request(path)
    assert.deepEqual([status, headers['retry-after']], [429, '1'], path)
    letGo()
    assert.equal((await pending).status, 200)
    assert.deepEqual(await statuses(1, '/'), [200])
  }
  await client.rateLimitOverride.create({
    data: { client: 'ip:127.0.0.1', effect: '1/30s', algorithm: 'concurrency' },
  })
  const pending = request('/held')
  await eventually('it is in progress', () => held.length === 1)
  assert.deepEqual(await statuses(1, '/'), [429])
  letGo()
  await pending
  assert.deepEqual(await statuses(2, '/'), [200, 200])
  assert.equal(await taken(app), 0)
})

test('a path prefix and a rate that a function answers count requests in progress', async (t) => {
  const { request, hold, letGo, statuses, held } = await open(t, {
    plugin: {
      middleware: { algorithm: 'concurrency', rateLimits: { '/held': '1/60s' }, defaultRate: async () => '2/60s' },
    },
  })
  const answers = await hold(1)
  assert.deepEqual(await statuses(1, '/held'), [429])
  answers.push(request('/by-hook'))
  await eventually('it is in progress', () => held.length === 2)
  assert.equal((await request('/')).headers['x-ratelimit-remaining'], '0')
  letGo()
  await Promise.all(answers)
  assert.equal((await request('/')).headers['x-ratelimit-remaining'], '1')
})

test('check() holds a permit until the response of its request, each time it is asked; peek() holds none', async (t) => {
  const { app, request, hold, letGo, statuses } = await open(t, {
    plugin: { middleware: { ...LIMITED, defaultRate: '20/60s' } },
  })
  const answers = await hold(1, '/check/17')
  assert.equal(await taken(app), 17)
  assert.deepEqual(JSON.parse((await request('/peek')).text).count, 17)
  letGo()
  assert.deepEqual(
    JSON.parse((await Promise.all(answers))[0]?.text ?? ''),
    Array.from({ length: 17 }, (_, index) => index + 1),
  )
  assert.equal(await taken(app), 0)
  assert.deepEqual(await statuses(3, '/check-late'), [200, 200, 200])
  await eventually('what was taken after the response is free', async () => (await taken(app)) === 0)
})

test('check() of a limit holds a permit until the response of its request', async (t) => {
  const { request, hold, letGo, statuses } = await open(t, {})
  const answers = await hold(1, '/own/check')
  assert.equal((await request('/own/peek')).text, '1')
  letGo()
  await Promise.all(answers)
  assert.deepEqual(await statuses(2, '/own/peek'), [200, 200])
  assert.equal((await request('/own/peek')).text, '0')
})

test('check() in a hook before the plugin’s own holds a permit until the response, on a connection that goes on', async (t) => {
  const { request } = await startApp(t, {
    database: null,
    plugin: { hook: 'preHandler' },
    routes: (app) => {
      const own = app.smartRateLimit.limit({ rate: '1/60s', algorithm: 'concurrency' })
      const counts = new WeakMap<FastifyRequest, number | undefined>()
      const preValidation = async (asked: FastifyRequest) => void counts.set(asked, (await own.check(asked))?.count)
      app.get('/early', { preValidation }, async (asked) => [asked.socket.remotePort, counts.get(asked)])
    },
  })
  const answers: [number, number][] = []
  for (let times = 0; times < 4; times++) answers.push(JSON.parse((await request('/early')).text))
  assert.equal(new Set(answers.map(([port]) => port)).size, 1)
  assert.deepEqual(
    answers.map(([, count]) => count),
    [1, 1, 1, 1],
  )
})

test('a request that takes permits for hours keeps no account of those that are free again', async (t) => {
  const { store } = createRemoteStore()
  let settled = 0
  const settle: Store['settle'] = async (settlements, nowMs) => {
    settled += settlements.length
    await store.settle?.(settlements, nowMs)
  }
  let nowMs = fakeClock().now()
  const now = () => {
    nowMs += MINUTE_MS
    return nowMs
  }
  const { hold, letGo } = await open(t, {
    plugin: { clock: { now }, middleware: { ...LIMITED, backend: { ...store, settle } } },
  })
  const answers = await hold(1, '/check/1000')
  letGo()
  assert.deepEqual(JSON.parse((await Promise.all(answers))[0]?.text ?? ''), Array(1_000).fill(1))
  await eventually('the last ones are given back', () => settled > 0)
  assert.ok(settled < 100, `${settled} were given back`)
})

test('the draft’s fields have no window and no time', async (t) => {
  const { rules, request, hold, letGo } = await start(t, 'sqlite', { headers: 'draft' })
  await rules.create({ data: UPLOADS })
  const answers = await hold(2)
  const { headers, text } = await request('/', { headers: { accept: 'application/problem+json' } })
  assert.equal(headers['ratelimit-policy'], '"uploads";q=2;qu="concurrent-requests"')
  assert.equal(headers.ratelimit, '"uploads";r=0')
  assert.equal(headers['retry-after'], '1')
  assert.deepEqual(JSON.parse(text)['violated-policies'], ['uploads'])
  letGo()
  await Promise.all(answers)
})

test('refusals are not remembered: the store is asked for each', async (t) => {
  const { store, asked } = createRemoteStore()
  const { hold, letGo, statuses } = await open(t, {
    plugin: { middleware: { ...LIMITED, backend: store, lease: '2s' } },
  })
  const answers = await hold(2)
  const before = asked()
  assert.deepEqual(await statuses(5, '/'), Array(5).fill(429))
  assert.equal(asked(), before + 5)
  letGo()
  await Promise.all(answers)
})

test('a client whose requests follow each other is never refused, however slowly permits are given back', async (t) => {
  const { store } = createRemoteStore()
  const settle: Store['settle'] = async (settlements, nowMs) => {
    for (let turns = 0; turns < 20; turns++) await turn()
    await store.settle?.(settlements, nowMs)
  }
  const backend: Store = { ...store, concurrency: 8, settle }
  const { statuses } = await open(t, { plugin: { middleware: { ...LIMITED, defaultRate: '1/60s', backend } } })
  assert.deepEqual(await statuses(20, '/'), Array(20).fill(200))
})

for (const [onStoreError, during] of [
  ['local', [200, 200, 200]],
  ['allow', [200, 200, 200]],
  ['deny', [503, 503, 503]],
] as const) {
  test(
    `a store that fails when permits are given back is logged once, and onStoreError decides: ${onStoreError}`,
    long(),
    async (t) => {
      const { store, fail, counters } = createRemoteStore()
      const { app, hold, letGo, statuses, clock, log } = await open(t, {
        plugin: { onStoreError, middleware: { ...LIMITED, backend: store } },
      })
      const answers = await hold(2)
      fail(true)
      letGo()
      assert.deepEqual(
        (await Promise.all(answers)).map(({ status }) => status),
        [200, 200],
      )
      assert.deepEqual(await statuses(3, '/'), during)
      assert.equal(log.filter(({ msg }) => msg.startsWith('Rate limit store failed')).length, 1)
      fail(false)
      clock.advance(2_000)
      await statuses(1, '/')
      await eventually('the store gets back what ended meanwhile', () => counters() === 0)
      assert.equal(await taken(app), 0)
      assert.deepEqual(await statuses(3, '/'), [200, 200, 200])
    },
  )

  test(`what a store takes for requests that it answers too late is given back: ${onStoreError}`, long(), async (t) => {
    const { store, release, counters } = createHeldStore()
    const { statuses, clock } = await open(t, {
      plugin: { onStoreError, storeTimeoutMs: 20, middleware: { ...LIMITED, backend: store } },
    })
    assert.deepEqual(await statuses(1, '/'), during.slice(0, 1))
    assert.equal(counters(), 1)
    release()
    await turn()
    clock.advance(2_000)
    await statuses(1, '/')
    await eventually('the store holds nothing', () => counters() === 0)
  })
}

test('permits that the fallback gave are given back to it', async (t) => {
  const { store, fail } = createRemoteStore()
  const { hold, letGo, statuses } = await open(t, { plugin: { middleware: { ...LIMITED, backend: store } } })
  fail(true)
  const answers = await hold(2)
  assert.deepEqual(await statuses(1, '/'), [429])
  letGo()
  await Promise.all(answers)
  assert.deepEqual(await statuses(1, '/'), [200])
})

test('a clock that fails when a request ends is logged, and ends nothing', async (t) => {
  let isBroken = false
  const clock = fakeClock()
  const now = () => {
    if (isBroken) throw new Error('no time')
    return clock.now()
  }
  const { hold, letGo, log } = await open(t, { plugin: { clock: { now }, middleware: LIMITED } })
  const answers = await hold(1)
  isBroken = true
  letGo()
  assert.equal((await Promise.all(answers))[0]?.status, 200)
  assert.deepEqual(
    log.map(({ msg, err }) => [msg, err?.message]),
    [['Rate limit failed to give back the permit of a request: its period frees it', 'no time']],
  )
})

test('a store without settle is refused at start, by the setting that needs it', async (t) => {
  const { settle: _settle, ...backend } = createRemoteStore().store
  await assert.rejects(startApp(t, { database: null, plugin: { middleware: { ...LIMITED, backend } } }), {
    message:
      'Setting "middleware.algorithm" is "concurrency", but the Store given as backend has no method settle: add it, or give another algorithm',
  })
  const { app } = await startApp(t, { database: null, plugin: { middleware: { backend } } })
  assert.throws(
    () => app.smartRateLimit.limit({ rate: '5/m', algorithm: 'concurrency' }),
    /Setting "limit.algorithm" is "concurrency", but the Store given as backend has no method settle/,
  )
})

test('a rule and an override that a store without settle cannot count are left out, and logged once', async (t) => {
  const { settle: _settle, ...backend } = createRemoteStore().store
  const held: LetGo[] = []
  const { app, request, log } = await startApp(t, {
    database: 'sqlite',
    plugin: { useDynamicRules: true, middleware: { backend } },
    routes: (scope) => declareHeld(scope, held),
  })
  const { rateLimitRule: rules, rateLimitOverride: overrides } = app.smartRateLimit.client
  const holdTwo = async () => {
    const answers = [request('/held'), request('/held')]
    await eventually('both are in progress', () => held.length === 2)
    for (const letGo of held.splice(0)) letGo()
    await Promise.all(answers)
  }
  await rules.create({ data: { ...UPLOADS, rate: '1/60s' } })
  await holdTwo()
  await overrides.create({ data: { client: 'ip:127.0.0.1', effect: '1/30s', algorithm: 'concurrency' } })
  await holdTwo()
  assert.deepEqual(
    log.map(({ msg }) => msg.slice(0, 60)),
    [
      'Rate limit rule uploads has the algorithm concurrency, but t',
      'Rate limit override for ip:127.0.0.1 has the algorithm concu',
    ],
  )
})

test('what requests in progress cannot have is refused, by the field and by the setting', async (t) => {
  const { app, rules, client, database } = await start(t, 'sqlite')
  for (const [field, data, message] of [
    ['rate', { rate: '5/s, 20/60s' }, /has 2 windows, and the algorithm concurrency counts in one/],
    ['rate', { rate: '20/month' }, /is a calendar month, which goes with the algorithm fixed_window only/],
    ['rate', { rate: '10001/60s' }, /has the count 10001, .* give 0 to 10000/],
    ['counts', { counts: '401' }, /counts requests while they are in progress: give requests, or another algorithm/],
    ['cost', { cost: 3 }, /more than the rate ever allows: give at most 2/],
  ] as const) {
    const refused = await refusalOf(rules.create({ data: { ...UPLOADS, ...data } }))
    assert.deepEqual(Object.keys(refused.errors), [field])
    assert.match(refused.message, message)
    if (field === 'cost') continue
    const options = { algorithm: 'concurrency', ...('counts' in data ? { rate: '2/60s', ...data } : data) } as const
    assert.throws(() => app.smartRateLimit.limit(options), new RegExp(`"limit.${field}".*`))
  }
  const override = { client: 'ip:127.0.0.1', effect: '5/s, 20/60s', algorithm: 'concurrency' }
  assert.deepEqual(Object.keys((await refusalOf(client.rateLimitOverride.create({ data: override }))).errors), [
    'effect',
  ])
  await assert.rejects(startApp(t, { database: null, plugin: { middleware: { ...LIMITED, counts: '401' } } }), {
    message: /Setting "middleware.counts" is "401": The algorithm concurrency counts requests while/,
  })
  await rules.create({ data: { ...UPLOADS, rate: '10000/60s' } })
  const { table } = database.database.dialect
  await database.database.execute(`UPDATE ${table('rate_limit_rule')} SET counts = '401'`)
  await app.smartRateLimit.rules.reload()
  assert.deepEqual(await app.smartRateLimit.rules.active(), [])
})

test('a preview covers no request, and says why', async (t) => {
  const { app, statuses } = await start(t, 'sqlite', { logEvents: true })
  await statuses(3, '/')
  const preview = await app.smartRateLimit.rules.preview(UPLOADS)
  assert.deepEqual(preview.uncovered, { count: 3, share: 1, reasons: { progress_not_logged: 3 } })
})

test('other limits listen to no end of a request', async (t) => {
  const count = async (middleware: RateLimitOptions['middleware']) => {
    let listeners = 0
    const { request } = await startApp(t, {
      database: null,
      plugin: { middleware: { ...middleware } },
      routes: (app) => {
        app.get('/', async (_request, reply) => {
          const { socket } = reply.raw
          listeners =
            reply.raw.listenerCount('finish') + reply.raw.listenerCount('close') + (socket?.listenerCount('close') ?? 0)
        })
      },
    })
    await request('/')
    return listeners
  }
  const without = await count({})
  assert.equal(await count({ algorithm: 'sliding_window' }), without)
  assert.equal(await count(LIMITED), without + 3)
})

/** Lets a request end that its handler holds. */
type LetGo = () => void

type Opened = Awaited<ReturnType<typeof open>>
type Started = Awaited<ReturnType<typeof start>>

/** Starts an app whose rules are in a database. */
async function start(t: TestContext, provider: Provider, plugin: RateLimitOptions = {}) {
  const database = await openDatabase(t, provider)
  const opened = await open(t, {
    database,
    plugin: { useDynamicRules: true, ...plugin, middleware: { defaultRate: '1000/m', ...plugin.middleware } },
  })
  const { client } = opened.app.smartRateLimit
  return { ...opened, database, client, rules: client.rateLimitRule }
}

interface Opening {
  readonly database?: TestDatabase
  readonly plugin?: RateLimitOptions
  readonly fastify?: typeof HTTP2
}

/** Starts an app with requests that stay in progress until they are let go. */
async function open(t: TestContext, { database, ...options }: Opening) {
  const held: LetGo[] = []
  const connections: Socket[] = []
  const started = await startApp(t, {
    database: database ?? null,
    ...options,
    before: async (app) => {
      app.server.on('connection', (socket) => connections.push(socket))
      // The types of ws do not know `closeTimeout` yet, and want an option that they know.
      const options = { clientTracking: true, closeTimeout: 100 }
      await app.register(websocket, { options })
    },
    routes: (app) => declareRoutes(app, held),
  })
  const letGo = (most = held.length) => {
    for (const each of held.splice(0, most)) each()
  }
  atEnd(t, async () => letGo())
  return {
    ...started,
    connections,
    held,
    letGo,
    /** Sends so many requests, and waits until they are all in progress. */
    async hold(count: number, path = '/held'): Promise<ReturnType<TestApp['request']>[]> {
      const all = held.length + count
      const answers = Array.from({ length: count }, () => started.request(path))
      await eventually('all are in progress', () => held.length === all)
      return answers
    },
  }
}

/** Declares a route whose requests stay in progress until they are let go. */
function declareHeld(app: FastifyInstance, held: LetGo[]): void {
  app.get('/held', () => waitIn(held))
}

async function waitIn(held: LetGo[]): Promise<string> {
  await new Promise<void>((letGo) => held.push(letGo))
  return 'held'
}

function declareRoutes(app: FastifyInstance, held: LetGo[]): void {
  const { check, limit, peek } = app.smartRateLimit
  const isLeftAlone = { config: { smartRateLimit: false } } as const
  const wait = () => waitIn(held)
  const fails = async () => {
    throw new Error('no')
  }
  const one = { rate: '1/30s', algorithm: 'concurrency' } as const
  app.route({ method: ['GET', 'POST'], url: '/', handler: async () => 'ok' })
  // What a client sends more waits, and Node with it.
  app.post('/unread', ({ raw }, reply) => {
    const body = 'stream' in raw && raw.stream instanceof Readable ? raw.stream : raw
    body.once('data', () => {
      body.pause()
      void reply.send('ok')
    })
  })
  declareHeld(app, held)
  app.get('/by-hook', { onRequest: limit(one) }, wait)
  app.get('/by-config', { config: { smartRateLimit: one } }, wait)
  app.get('/endless', (_request, reply) => void reply.send(Readable.from(endless())))
  app.get('/stream', async (_request, reply) => reply.send(Readable.from(['a', 'b'])))
  app.get('/hijacked', (_request, reply) => {
    reply.hijack()
    reply.raw.writeHead(200).end('tea')
  })
  app.get('/taken-over', (_request, reply) => {
    reply.hijack()
    const { socket } = reply.raw
    if (socket === null) return
    reply.raw.detachSocket(socket)
    socket.write('mine now')
  })
  app.get('/broken', { onSend: fails }, async () => 'ok')
  app.get('/thrown', fails)
  app.get('/early', { preHandler: async (_request, reply) => reply.code(402).send('pay') }, async () => 'ok')
  app.get('/empty', async (_request, reply) => reply.code(204).send())
  app.get('/socket', { websocket: true }, () => undefined)
  app.get<{ Params: { times: number } }>('/check/:times', isLeftAlone, async (request) => {
    const counts = []
    for (let times = 0; times < request.params.times; times++) counts.push((await check(request))?.count)
    await wait()
    return counts
  })
  app.get('/check-late', isLeftAlone, (request: FastifyRequest, reply: FastifyReply) => {
    reply.raw.once('finish', () => void check(request))
    void reply.send('ok')
  })
  const own = limit(one)
  app.get<{ Params: { does: string } }>('/own/:does', async (request) => {
    if (request.params.does === 'peek') return String((await own.peek(request))?.count)
    await own.check(request)
    return wait()
  })
  app.get('/peek', isLeftAlone, async (request) => peek(request))
}

/** Chunks that never end. */
async function* endless(): AsyncGenerator<string> {
  for (;;) {
    yield 'x'.repeat(1_000)
    await turn()
  }
}

/** Returns how many permits this machine has taken. */
async function taken(app: FastifyInstance): Promise<number> {
  return (await app.inject('/peek')).json().count
}

/** Opens a WebSocket, as far as its handshake. */
async function openWebSocket(port: number): Promise<Socket> {
  const socket = connect(port, '127.0.0.1')
  socket.on('error', () => undefined)
  const headers =
    'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n'
  socket.write(`GET /socket HTTP/1.1\r\nHost: a\r\n${headers}\r\n`)
  assert.match(String((await once(socket, 'data'))[0]), /^HTTP\/1.1 101/)
  return socket
}

/** A store that answers later, as those of databases do, and can fail. */
function createRemoteStore() {
  const memory = new MemoryStore()
  let asked = 0
  let fails = false
  async function answer() {
    await turn()
    if (fails) throw new Error('no store')
  }
  const store: Store = {
    concurrency: 2,
    async check(checks, nowMs) {
      asked += checks.length
      await answer()
      return memory.check(checks, nowMs)
    },
    async settle(settlements) {
      await answer()
      memory.settle(settlements)
    },
    reset: (keys) => memory.reset(keys),
    close: () => undefined,
  }
  return {
    store,
    asked: () => asked,
    /** Returns how many clients have requests in progress. */
    counters: () => memory.size,
    fail(isFailing: boolean) {
      fails = isFailing
    },
  }
}

/** A store whose answers wait until it is released. */
function createHeldStore() {
  const { store, asked, counters } = createRemoteStore()
  const released = new EventEmitter()
  const isReleased = once(released, 'now')
  const held: Store = {
    ...store,
    async check(checks, nowMs) {
      const decisions = await store.check(checks, nowMs)
      await isReleased
      return decisions
    },
  }
  return { store: held, asked, counters, release: () => released.emit('now') }
}
