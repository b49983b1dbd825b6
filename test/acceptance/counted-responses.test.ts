/** Limits that count the responses with certain statuses instead of requests. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { constants, type Settings } from 'node:http2'
import { connect } from 'node:net'
import { Readable } from 'node:stream'
import { type TestContext, test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import fastifyWebsocket from '@fastify/websocket'
import type { FastifyInstance, FastifyRequest, RouteShorthandOptions } from 'fastify'
import { HOUR_MS, MINUTE_MS } from '../../src/ground/time/clock.js'
import { MemoryStore, type RateLimitOptions, type Store } from '../../src/index.js'
import { atEnd } from '../support/at-end.js'
import { openDatabase, startApp } from '../support/build-app.js'
import { forAnyDatabase, type Provider } from '../support/databases.js'
import { eventually } from '../support/eventually.js'
import { connectHttp2, destroySessions, HTTP2, NO_WINDOW, rawStatus } from '../support/http-client.js'
import { openRedis, redisMissing } from '../support/redis.js'
import { refusalOf } from '../support/refusal.js'

const SIGN_IN = { name: 'sign-in', pathPattern: '^/', rate: '3/m', counts: '401,403' }
const ALGORITHMS = ['fixed_window', 'sliding_window', 'token_bucket', 'leaky_bucket'] as const
const WRONG = '/answer/401'
const RIGHT = '/answer/200'

forAnyDatabase((provider) => {
  for (const backend of ['database', 'memory'] as const) {
    declareTests(`${provider}, counters in ${backend}`, (t) => start(t, provider, { middleware: { backend } }))
  }

  test(`the event's count is what stands plus the cost: ${provider}`, async (t) => {
    const { rules, statuses, app, client } = await start(t, provider, { logEvents: true })
    await rules.create({ data: { ...SIGN_IN, rate: '6/m', cost: 2 } })
    await statuses(2, RIGHT)
    await statuses(4, WRONG)
    await app.smartRateLimit.events.flush()
    const events = await client.rateLimitEvent.findMany({ orderBy: { id: 'asc' } })
    assert.deepEqual(
      events.map(({ allowed, count, limit, outcome }) => [allowed, count, limit, outcome]),
      [
        [true, 2, 6, 'allowed'],
        [true, 2, 6, 'allowed'],
        [true, 2, 6, 'allowed'],
        [true, 4, 6, 'allowed'],
        [true, 6, 6, 'allowed'],
        [false, 8, 6, 'over_limit'],
      ],
    )
  })

  test(`a rule begins and ceases to count responses while the server runs, and is reverted: ${provider}`, async (t) => {
    const { rules, statuses, app } = await start(t, provider)
    const where = { name: SIGN_IN.name }
    await rules.create({ data: { ...SIGN_IN, counts: ' 403, 4XX,403 ' } })
    assert.equal((await rules.findUniqueOrThrow({ where })).counts, '403,4xx')
    assert.deepEqual((await app.smartRateLimit.rules.active())[0]?.counts, { statuses: [403], classes: [4] })
    assert.deepEqual(await statuses(5, RIGHT), [200, 200, 200, 200, 200])
    await rules.update({ where, data: { counts: 'requests' } })
    assert.deepEqual(await statuses(4, RIGHT), [200, 200, 200, 429])
    const [change] = await app.smartRateLimit.rules.history(SIGN_IN.name)
    assert.deepEqual([change?.before?.counts, change?.after?.counts], ['403,4xx', 'requests'])
    await app.smartRateLimit.rules.revert(change?.id ?? 0)
    assert.equal((await rules.findUniqueOrThrow({ where })).counts, '403,4xx')
  })

  test(`what counts nothing is refused with the field, and a wrong row is left out: ${provider}`, async (t) => {
    const { rules, database, app } = await start(t, provider)
    for (const counts of ['', '401 403', '4x', '99', '101', '1xx', '600', 'requests,401', 'all', '401,', '-401']) {
      assert.deepEqual(Object.keys((await refusalOf(rules.create({ data: { ...SIGN_IN, counts } }))).errors), [
        'counts',
      ])
    }
    const { message } = await refusalOf(rules.create({ data: { ...SIGN_IN, counts: '401,teapot' } }))
    assert.match(
      message,
      /counts: "teapot" is not a valid status of a response: give requests, or statuses from 200 to 599/,
    )
    await rules.create({ data: SIGN_IN })
    const { table } = database.database.dialect
    await database.database.execute(`UPDATE ${table('rate_limit_rule')} SET counts = 'sometimes'`)
    await app.smartRateLimit.rules.reload()
    assert.deepEqual(await app.smartRateLimit.rules.active(), [])
  })
})

test('only failed sign-ins count on Redis, too', { skip: redisMissing }, async (t) => {
  for (const algorithm of ALGORITHMS) {
    const { url, namespace } = openRedis(t)
    const backend = { redis: url, namespace, middleware: { backend: 'redis' } } as const
    const { rules, statuses } = await start(t, 'sqlite', backend)
    await rules.create({ data: { ...SIGN_IN, algorithm } })
    assert.deepEqual(await statuses(5, RIGHT), [200, 200, 200, 200, 200])
    assert.deepEqual(await statuses(5, WRONG), [401, 401, 401, 429, 429], algorithm)
  }
})

type Started = Awaited<ReturnType<typeof start>>

/** Declares the tests that are the same wherever the counters are. */
function declareTests(place: string, open: (t: TestContext) => Promise<Started>): void {
  for (const algorithm of ALGORITHMS) {
    test(`only failed sign-ins count, and at the limit nobody signs in: ${algorithm}, ${place}`, async (t) => {
      const { rules, request, statuses, clock } = await open(t)
      await rules.create({ data: { ...SIGN_IN, algorithm } })
      assert.deepEqual(await statuses(5, RIGHT), [200, 200, 200, 200, 200])
      assert.deepEqual(await statuses(2, WRONG), [401, 401])
      assert.deepEqual(await statuses(2, RIGHT), [200, 200])
      const { status, headers } = await request('/answer/403')
      assert.deepEqual([status, headers['x-ratelimit-limit'], headers['x-ratelimit-remaining']], [403, '3', '0'])
      // Refusals do not count: the wait is over when it was said to be.
      assert.deepEqual(await statuses(4, WRONG), [429, 429, 429, 429])
      const refused = await request(RIGHT)
      assert.deepEqual([refused.status, refused.headers['x-ratelimit-remaining']], [429, '0'])
      clock.advance(Number(refused.headers['retry-after']) * 1_000)
      assert.equal((await request(WRONG)).status, 401)
    })

    test(`each of several windows is for responses: ${algorithm}, ${place}`, async (t) => {
      const { rules, request, statuses, clock } = await open(t)
      for (const [name, rate, cost, hour] of [
        ['cheap', '3/m, 5/h', 1, '5'],
        ['dear', '7/m, 11/h', 2, '11'],
      ] as const) {
        clock.advance(HOUR_MS - (clock.now() % HOUR_MS))
        await rules.deleteMany()
        await rules.create({ data: { ...SIGN_IN, name, algorithm, rate, cost } })
        assert.deepEqual(await statuses(2, RIGHT), [200, 200])
        assert.deepEqual(await statuses(5, WRONG), [401, 401, 401, 429, 429], name)
        clock.advance(2 * MINUTE_MS)
        assert.deepEqual(await statuses(1, RIGHT), [200])
        assert.deepEqual(await statuses(3, WRONG), [401, 401, 429])
        const { headers } = await request(RIGHT)
        assert.deepEqual([headers['x-ratelimit-limit'], headers['x-ratelimit-remaining']], [hour, String(cost - 1)])
      }
    })

    test(`a cost above 1 is used at once, as long as all of it is left: ${algorithm}, ${place}`, async (t) => {
      const { rules, request, statuses, clock } = await open(t)
      await rules.create({ data: { ...SIGN_IN, algorithm, rate: '25/m', cost: 10 } })
      assert.deepEqual(await statuses(2, RIGHT), [200, 200])
      assert.deepEqual(await statuses(4, WRONG), [401, 401, 429, 429])
      const { headers } = await request(RIGHT)
      assert.equal(headers['x-ratelimit-remaining'], '5')
      clock.advance((Number(headers['retry-after']) - 1) * 1_000)
      assert.equal((await request(RIGHT)).status, 429)
      clock.advance(1_000)
      assert.equal((await request(RIGHT)).status, 200)
    })
  }

  test(`requests that race get through as long as none has failed, and no further one does: ${place}`, async (t) => {
    const { rules, request, statuses, held } = await open(t)
    await rules.create({ data: SIGN_IN })
    const racing = Array.from({ length: 8 }, () => request('/held/401'))
    await eventually('all are in progress', () => held.length === 8)
    assert.deepEqual(await statuses(1, RIGHT), [200])
    for (const letGo of held) letGo()
    assert.deepEqual(
      (await Promise.all(racing)).map(({ status }) => status),
      Array(8).fill(401),
    )
    assert.deepEqual(await statuses(2, RIGHT), [429, 429])
  })
}

test('a request that is aborted before its status is decided counts nothing, and amid its answer it has counted', async (t) => {
  const { app, rules, port, statuses, held, requests } = await start(t, 'sqlite')
  await rules.create({ data: { ...SIGN_IN, rate: '2/m', counts: '2xx,4xx,5xx' } })
  const socket = connect(port, '127.0.0.1')
  socket.write('GET /held/401 HTTP/1.1\r\nHost: a\r\n\r\n')
  await eventually('it is in progress', () => held.length === 1)
  const [first] = requests
  socket.destroy()
  await once(first?.raw.socket ?? socket, 'close')
  held[0]?.()
  await eventually('the handler is done', () => held.length === 0)
  assert.equal(await countedBy(app), 0)

  const reader = connect(port, '127.0.0.1')
  reader.write('GET /endless HTTP/1.1\r\nHost: a\r\n\r\n')
  assert.match(String((await once(reader, 'data'))[0]), /^HTTP\/1.1 401/)
  assert.equal(await countedBy(app), 1)
  const endless = requests.at(-1)
  reader.destroy()
  await once(endless?.raw.socket ?? reader, 'close')
  assert.deepEqual(await statuses(2, WRONG), [401, 429])
})

test('an HTTP/2 stream that is reset before its status is decided counts nothing, and others count once', async (t) => {
  const { app, session, held, send } = await startHttp2(t, { defaultRate: '2/m', counts: '2xx,4xx' })
  for (const code of [constants.NGHTTP2_NO_ERROR, constants.NGHTTP2_CANCEL]) {
    const stream = session.request({ ':path': '/held/401' })
    stream.on('error', () => undefined)
    await eventually('it is in progress', () => held.length === 1)
    stream.close(code)
    await once(stream, 'close')
    assert.equal(await send({ ':path': '/answer/304' }), 304)
    held[0]?.()
    await eventually('the handler is done', () => held.length === 0)
  }
  assert.equal(await countedBy(app), 0)
  const answered = []
  for (const path of [WRONG, WRONG, WRONG]) answered.push(await send({ ':path': path }))
  assert.deepEqual(answered, [401, 401, 429])
})

for (const [what, path, status] of [
  ['answers', WRONG, 401],
  ['streams', '/stream', 401],
  ['is hijacked', '/hijacked', 418],
] as const) {
  test(`over HTTP/2 a response counts that ${what}, whose client gives no window and resets it or not`, async (t) => {
    for (const code of [undefined, constants.NGHTTP2_NO_ERROR, constants.NGHTTP2_CANCEL]) {
      const { app, session } = await startHttp2(t, { defaultRate: '2/m', counts: String(status) }, NO_WINDOW)
      const answered: unknown[] = []
      for (let times = 0; times < 4; times++) {
        const stream = session.request({ ':path': path })
        stream.on('error', () => undefined)
        const [headers] = await once(stream, 'response')
        if (code !== undefined) stream.close(code)
        answered.push(headers[':status'])
      }
      assert.deepEqual(answered, [status, status, 429, 429], `${path}, ${code}`)
      assert.equal(await countedBy(app), 2)
    }
  })
}

test('over HTTP/1 a response counts whose client has read its status and no more', async (t) => {
  const { port, statuses } = await startApp(t, {
    database: null,
    plugin: { middleware: { defaultRate: '2/m', counts: '401' } },
    routes: declareRoutes,
  })
  for (let times = 0; times < 2; times++) {
    const socket = connect(port, '127.0.0.1')
    socket.write('GET /endless HTTP/1.1\r\nHost: a\r\n\r\n')
    const [head] = await once(socket, 'data')
    socket.pause()
    t.after(() => socket.destroy())
    assert.match(String(head), /^HTTP\/1.1 401/)
  }
  assert.deepEqual(await statuses(2, WRONG), [429, 429])
})

test('headers that cannot be sent count nothing, and the answer that follows counts', async (t) => {
  for (const [counts, expected] of [
    ['200', [500, 500, 500]],
    ['500', [500, 500, 429]],
  ] as const) {
    const { statuses } = await startApp(t, {
      database: null,
      plugin: { middleware: { defaultRate: '2/m', counts } },
      routes: declareRoutes,
    })
    assert.deepEqual(await statuses(3, '/unsendable'), expected, counts)
  }
})

test('an upgrade that a hook refuses counts, and one that is made counts nothing', async (t) => {
  const { app, port } = await startApp(t, {
    database: null,
    plugin: { middleware: { defaultRate: '2/m', counts: '2xx,4xx' } },
    before: async (scope) => void (await scope.register(fastifyWebsocket)),
    routes(scope) {
      declareRoutes(scope)
      const preValidation: RouteShorthandOptions['preValidation'] = async ({ headers }, reply) => {
        if (headers.authorization === undefined) return reply.code(401).send('who?')
      }
      scope.get('/chat', { websocket: true, preValidation }, () => undefined)
    },
  })
  const answered: unknown[] = []
  for (const headers of ['Authorization: Basic YTpi\r\n', '', '', '']) {
    const socket = connect(port, '127.0.0.1')
    socket.write(
      `GET /chat HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n${headers}\r\n`,
    )
    answered.push(rawStatus(String((await once(socket, 'data'))[0])))
    socket.destroy()
  }
  assert.deepEqual(answered, [101, 401, 401, 429])
  assert.equal(await countedBy(app), 2)
})

for (const [what, path, status, counts] of [
  ['of a reply that the host hijacked', '/hijacked', 418, '418'],
  ['of a stream', '/stream', 401, '401'],
  ['that an error handler chose', '/error', 409, '409'],
  ['that a failing onSend hook left', '/broken', 500, '5xx'],
  ['that a hook before the handler sent', '/early', 402, '402'],
  ['of a path without a route', '/nowhere', 404, '404'],
] as const) {
  test(`the status ${what} counts`, async (t) => {
    const { statuses } = await startApp(t, {
      database: null,
      plugin: { middleware: { defaultRate: '2/m', counts } },
      routes: declareRoutes,
    })
    assert.deepEqual(await statuses(2, RIGHT), [200, 200])
    assert.deepEqual(await statuses(3, path), [status, status, 429])
  })
}

test('a refusal by another limit never counts, whatever status it has', async (t) => {
  const { app, rules, statuses, request } = await start(t, 'sqlite', {
    middleware: { denyList: ['192.0.2.0/24'] },
  })
  await rules.create({ data: { ...SIGN_IN, rate: '5/m', counts: '2xx,4xx' } })
  assert.deepEqual(await statuses(4, '/limited'), [200, 429, 429, 429])
  assert.equal((await request('/limited', { from: '192.0.2.1' })).status, 403)
  assert.equal(await countedBy(app), 1)
})

test('a limit of a route counts its responses, and the plugin’s own limit counts its requests', async (t) => {
  const { statuses, request } = await startApp(t, {
    database: null,
    plugin: { middleware: { defaultRate: '8/m' } },
    routes: (app) => {
      const onRequest = app.smartRateLimit.limit({ rate: '2/m', counts: '401' })
      declareAnswers(app, { onRequest })
    },
  })
  assert.deepEqual(await statuses(3, RIGHT), [200, 200, 200])
  assert.deepEqual(await statuses(4, WRONG), [401, 401, 429, 429])
  assert.equal((await request('/none')).headers['x-ratelimit-remaining'], '0')
})

test('the config of a route counts responses as limit() does', async (t) => {
  const { statuses } = await startApp(t, {
    database: null,
    routes: (app) => declareAnswers(app, { config: { smartRateLimit: { rate: '2/m', counts: '4xx' } } }),
  })
  assert.deepEqual(await statuses(3, RIGHT), [200, 200, 200])
  assert.deepEqual(await statuses(3, WRONG), [401, 401, 429])
})

test('a ceiling counts every request, and its refusals count for no other limit', async (t) => {
  const { app, rules, statuses, clock } = await start(t, 'sqlite', { middleware: { ceiling: '2/m' } })
  await rules.create({ data: { ...SIGN_IN, rate: '4/h', counts: '4xx' } })
  assert.deepEqual(await statuses(4, WRONG), [401, 401, 429, 429])
  clock.advance(MINUTE_MS)
  assert.equal(await countedBy(app), 2)
  assert.deepEqual(await statuses(3, WRONG), [401, 401, 429])
  clock.advance(MINUTE_MS)
  assert.deepEqual(await statuses(1, RIGHT), [429])
})

test('with block: false responses count, and none is refused', async (t) => {
  const { rules, statuses, request } = await start(t, 'sqlite')
  await rules.create({ data: { ...SIGN_IN, block: false } })
  assert.deepEqual(await statuses(5, WRONG), Array(5).fill(401))
  await rules.update({ where: { name: SIGN_IN.name }, data: { block: true } })
  assert.equal((await request(RIGHT)).status, 429)
})

for (const [algorithm, waitSeconds] of [
  ['fixed_window', 60],
  // One of the 20 is left of the estimate then.
  ['sliding_window', 117],
  // 19 of the 20 have drained then.
  ['token_bucket', 570],
] as const) {
  test(`what gets through beyond the limit counts too: ${algorithm}`, async (t) => {
    const { rules, request, held, clock } = await start(t, 'sqlite')
    clock.advance(MINUTE_MS - (clock.now() % MINUTE_MS))
    await rules.create({ data: { ...SIGN_IN, rate: '2/m', algorithm } })
    const racing = Array.from({ length: 20 }, () => request('/held/401'))
    await eventually('all are in progress', () => held.length === 20)
    for (const letGo of held) letGo()
    await Promise.all(racing)
    const { status, headers } = await request(RIGHT)
    assert.deepEqual([status, Number(headers['retry-after'])], [429, waitSeconds])
  })
}

test('a response counts in the window in which it ends', async (t) => {
  const { rules, request, statuses, held, clock } = await start(t, 'sqlite')
  await rules.create({ data: { ...SIGN_IN, rate: '1/m' } })
  const pending = request('/held/401')
  await eventually('it is in progress', () => held.length === 1)
  clock.advance(MINUTE_MS)
  held[0]?.()
  await pending
  assert.deepEqual(await statuses(1, RIGHT), [429])
})

test('check() uses the limit at once, and peek() nothing', async (t) => {
  const { app, rules, request } = await start(t, 'sqlite')
  await rules.create({ data: SIGN_IN })
  for (const count of [1, 2]) assert.deepEqual(JSON.parse((await request('/check')).text), [true, count])
  assert.equal(await countedBy(app), 2)
})

test('a flood that is refused reaches the store once, and a reset ends it', async (t) => {
  for (const algorithm of ALGORITHMS) {
    const { store, asked } = createRemoteStore()
    const { statuses, app } = await startApp(t, {
      database: null,
      plugin: { middleware: { backend: store, defaultRate: '2/m', counts: '401', algorithm } },
      routes: declareRoutes,
    })
    assert.deepEqual(await statuses(3, WRONG), [401, 401, 429], algorithm)
    const before = asked()
    assert.deepEqual(await statuses(20, WRONG), Array(20).fill(429))
    assert.equal(asked(), before)
    await app.smartRateLimit.reset('ip:127.0.0.1')
    assert.deepEqual(await statuses(3, WRONG), [401, 401, 429])
  }
})

for (const [onStoreError, during, later] of [
  ['local', [401, 401, 429], 429],
  ['allow', [401, 401, 401], 401],
  ['deny', [503, 503, 503], 503],
] as const) {
  test(`while the store fails, onStoreError decides: ${onStoreError}`, async (t) => {
    const { store, fail } = createRemoteStore()
    const { statuses, request, log } = await startApp(t, {
      database: null,
      plugin: { onStoreError, middleware: { backend: store, defaultRate: '2/m', counts: '4xx,5xx' } },
      routes: declareRoutes,
    })
    assert.equal((await request(RIGHT)).status, 200)
    fail()
    assert.deepEqual(await statuses(3, WRONG), during)
    assert.equal((await request(WRONG)).status, later)
    assert.equal(log.filter(({ msg }) => msg.startsWith('Rate limit store failed')).length, 1)
  })
}

test('a store that fails between a request and its response changes no answer', async (t) => {
  const { store, fail } = createRemoteStore()
  const held: LetGo[] = []
  const { request, statuses } = await startApp(t, {
    database: null,
    plugin: { middleware: { backend: store, defaultRate: '2/m', counts: '401' } },
    routes: (scope) => declareRoutes(scope, held),
  })
  const pending = request('/held/401')
  await eventually('it is in progress', () => held.length === 1)
  fail()
  held[0]?.()
  assert.equal((await pending).status, 401)
  assert.deepEqual(await statuses(2, WRONG), [401, 429])
})

test('a clock that fails when a response has ended is logged, and ends nothing', async (t) => {
  let isBroken = false
  const clock = {
    now() {
      if (isBroken) throw new Error('no time')
      return 0
    },
  }
  const held: LetGo[] = []
  const { request, log } = await startApp(t, {
    database: null,
    plugin: { clock, middleware: { counts: '401' } },
    routes: (scope) => declareRoutes(scope, held),
  })
  const pending = request('/held/401')
  await eventually('it is in progress', () => held.length === 1)
  isBroken = true
  held[0]?.()
  assert.equal((await pending).status, 401)
  assert.deepEqual(
    log.map(({ msg, err }) => [msg, err?.message]),
    [['Rate limit failed to count a response', 'no time']],
  )
})

test('limits that count responses take no shares', async (t) => {
  const { store, asked } = createRemoteStore()
  const { statuses } = await startApp(t, {
    database: null,
    plugin: { middleware: { backend: store, defaultRate: '50/m', counts: '401', lease: '2s' } },
    routes: declareRoutes,
  })
  await statuses(20, WRONG)
  await eventually('each was asked for, and has counted', () => asked() === 40)
  assert.deepEqual(await statuses(31, WRONG), [...Array(30).fill(401), 429])
})

test('the last response counts also when the app closes at once', async (t) => {
  const database = await openDatabase(t, 'sqlite')
  const plugin: RateLimitOptions = { middleware: { defaultRate: '1/m', counts: '401' } }
  const first = await startApp(t, { database, plugin, routes: declareRoutes })
  await first.app.inject(WRONG)
  await first.app.close()
  assert.deepEqual(first.log, [])
  const second = await startApp(t, { database, plugin, routes: declareRoutes })
  assert.equal((await second.request(RIGHT)).status, 429)
})

test('other limits watch no response', async (t) => {
  for (const [counts, isWatched] of [
    [undefined, false],
    ['401', true],
  ] as const) {
    let raw: object = {}
    const { request } = await startApp(t, {
      database: null,
      plugin: { middleware: { rateLimits: { '/answer/': '5/m' }, ...(counts && { counts }) } },
      before: (app) => {
        app.get('/answer/:status', async (_request, reply) => {
          raw = reply.raw
        })
      },
      routes: () => undefined,
    })
    await request(RIGHT)
    assert.equal(Object.hasOwn(raw, 'writeHead'), isWatched)
  }
})

test('counts that are wrong are refused at start, by name', async (t) => {
  for (const counts of ['', '4x', '401;403']) {
    await assert.rejects(startApp(t, { database: null, plugin: { middleware: { counts } } }), {
      message: new RegExp(
        `Setting "middleware.counts" is "${counts}": ".*" is not a valid status of a response: give requests`,
      ),
    })
    const { app } = await startApp(t, { database: null })
    assert.throws(() => app.smartRateLimit.limit({ rate: '5/m', counts }), /Setting "limit.counts" is ".*": .* give/)
  }
})

/** Lets a request end that its handler holds. */
type LetGo = () => void

async function start(t: TestContext, provider: Provider, plugin: RateLimitOptions = {}) {
  const database = await openDatabase(t, provider)
  const held: LetGo[] = []
  const requests: FastifyRequest[] = []
  const started = await startApp(t, {
    database,
    plugin: { useDynamicRules: true, ...plugin, middleware: { defaultRate: '1000/m', ...plugin.middleware } },
    routes: (app) => declareRoutes(app, held, requests),
  })
  const { client } = started.app.smartRateLimit
  return { ...started, database, held, requests, client, rules: client.rateLimitRule }
}

interface StatusRoute {
  readonly Params: { readonly status: string }
}

/**
 * Declares routes that answer with all kinds of statuses.
 *
 * @param held receives the requests that are in progress until they are let go
 * @param requests receives the requests that a test may abort
 */
function declareRoutes(app: FastifyInstance, held: LetGo[] = [], requests: FastifyRequest[] = []): void {
  const { check, limit, peek } = app.smartRateLimit
  const isLeftAlone = { config: { smartRateLimit: false } } as const
  declareAnswers(app)
  app.get<StatusRoute>('/held/:status', async (request, reply) => {
    requests.push(request)
    await new Promise<void>((letGo) => held.push(letGo))
    held.shift()
    return reply.code(Number(request.params.status)).send('held')
  })
  app.get('/endless', (request, reply) => {
    requests.push(request)
    void reply.code(401).send(Readable.from(endless()))
  })
  app.get('/stream', async (_request, reply) => reply.code(401).send(Readable.from(['a', 'b'])))
  app.get('/unsendable', async (_request, reply) => reply.header('x-name', 'a\nb').send('no'))
  app.get('/hijacked', (_request, reply) => {
    reply.hijack()
    reply.raw.writeHead(418).end('tea')
  })
  const isThrown = async () => {
    throw new Error('no')
  }
  const errorHandler: RouteShorthandOptions['errorHandler'] = (error, _request, reply) =>
    reply.send(error.message === 'no' ? Object.assign(error, { statusCode: 409 }) : error)
  app.get('/error', { errorHandler }, isThrown)
  app.get('/broken', { onSend: isThrown }, async () => 'ok')
  app.get('/early', { preHandler: async (_request, reply) => reply.code(402).send('pay') }, async () => 'ok')
  app.get('/limited', { onRequest: limit({ rate: '1/m' }) }, async () => 'ok')
  app.get('/check', isLeftAlone, async (request) => {
    const decision = await check(request)
    return [decision?.allowed, decision?.count]
  })
  app.get('/peek', isLeftAlone, async (request) => peek(request))
}

function declareAnswers(app: FastifyInstance, options: Pick<RouteShorthandOptions, 'config' | 'onRequest'> = {}): void {
  app.get<StatusRoute>('/answer/:status', options, async (request, reply) => {
    const status = Number(request.params.status)
    reply.code(status)
    return status === 304 ? undefined : 'answered'
  })
}

/** Chunks that never end. */
async function* endless(): AsyncGenerator<string> {
  for (;;) {
    yield 'x'.repeat(1_000)
    await turn()
  }
}

/** Starts an app, and opens a connection to it over HTTP/2. */
async function startHttp2(t: TestContext, middleware: RateLimitOptions['middleware'], settings: Settings = {}) {
  const held: LetGo[] = []
  const started = await startApp(t, {
    database: null,
    plugin: { middleware },
    fastify: HTTP2,
    routes: (scope) => declareRoutes(scope, held),
  })
  destroySessions(t, started.app)
  const { session, send, close } = connectHttp2(started.port, settings)
  atEnd(t, close)
  // A request may come before the settings.
  if (session.connecting) await once(session, 'localSettings')
  return { ...started, held, session, send }
}

/** Returns how much is counted for this machine. */
async function countedBy(app: FastifyInstance): Promise<number> {
  return (await app.inject('/peek')).json().count
}

/** A store that answers later, as those of databases do, and can fail. */
function createRemoteStore() {
  const memory = new MemoryStore()
  let asked = 0
  let fails = false
  const store: Store = {
    concurrency: 2,
    async check(checks, nowMs) {
      asked += checks.length
      await turn()
      if (fails) throw new Error('no store')
      return memory.check(checks, nowMs)
    },
    settle: (settlements) => memory.settle(settlements),
    reset: (keys) => memory.reset(keys),
    close: () => undefined,
  }
  return {
    store,
    asked: () => asked,
    fail() {
      fails = true
    },
  }
}
