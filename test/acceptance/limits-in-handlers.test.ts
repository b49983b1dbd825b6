/** `check()` and `peek()` of what `app.smartRateLimit.limit()` answers, for code in handlers, and its `allowList`. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import { test } from 'node:test'
import fastifyWebsocket from '@fastify/websocket'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { RouteLimitOptions } from '../../src/index.js'
import { atEnd } from '../support/at-end.js'
import { openDatabase, startApp } from '../support/build-app.js'
import { forAnyDatabase } from '../support/databases.js'
import { connectHttp2, HTTP2 } from '../support/http-client.js'

const ALICE = { from: '203.0.113.7' }
const BOB = { from: '203.0.113.8' }
const ok = async () => 'ok'

/** Declares routes that ask a limit, and one that has it as a hook. */
function asking(options: RouteLimitOptions) {
  return (app: FastifyInstance): void => {
    const limit = app.smartRateLimit.limit(options)
    const config = { smartRateLimit: false } as const
    const costFor = ({ query }: FastifyRequest) => {
      const { cost } = Object(query)
      return cost === undefined ? {} : { cost: Number(cost) }
    }
    app.get('/ask', { config, onRequest: limit }, async (request) => limit.peek(request))
    app.get('/check', { config }, async (request) => [await limit.check(request, costFor(request))])
    app.get('/peek', { config }, async (request) => [await limit.peek(request)])
    app.get('/hook', { config, onRequest: limit }, ok)
  }
}

forAnyDatabase((provider) => {
  test('a GraphQL server charges each field, and the hook of the same limit counts with it', async (t) => {
    const database = await openDatabase(t, provider)
    const app = await startApp(t, {
      database,
      plugin: { logEvents: true, middleware: { defaultRate: '100/m' } },
      routes(scope) {
        const fields = scope.smartRateLimit.limit({ rate: '10/m', name: 'fields', cost: 2 })
        scope.post('/graphql', { onRequest: fields }, async (request) => {
          const { asked } = Object(request.body)
          const answers = []
          for (const cost of asked) answers.push((await fields.check(request, { cost }))?.allowed)
          const seen = await fields.peek(request)
          return { answers, seen: [seen?.allowed, seen?.count, seen?.remaining] }
        })
      },
    })
    const ask = (asked: number[], from = ALICE) =>
      app.request('/graphql', {
        ...from,
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ asked }),
      })

    const { headers, text } = await ask([3, 4])
    assert.deepEqual([headers['x-ratelimit-limit'], headers['x-ratelimit-remaining']], ['10', '8'])
    assert.deepEqual(JSON.parse(text), { answers: [true, true], seen: [false, 9, 1] }, 'a request costs 2')
    assert.equal((await ask([])).status, 429)
    assert.deepEqual(JSON.parse((await ask([9], BOB)).text).answers, [false])
    await app.app.smartRateLimit.events.flush()
    const events = await database.client.rateLimitEvent.findMany({ orderBy: { id: 'asc' } })
    assert.deepEqual(
      events.map(({ policy, allowed }) => [policy, allowed]),
      [
        ['default', true],
        ['fields', false],
        ['default', true],
      ],
      'one for each request, none for check()',
    )
  })

  test('the deny list and the allow lists hold as in the hook, and overrides hold in neither', async (t) => {
    const { app, request } = await startApp(t, {
      database: provider,
      plugin: {
        useDynamicRules: true,
        middleware: { allowList: ['10.0.0.0/8'], denyList: ['192.0.2.0/24'] },
      },
      routes: asking({ rate: '1/m', allowList: ['198.51.100.0/24', '2001:db8::/32', '192.0.2.7'] }),
    })
    await app.smartRateLimit.client.rateLimitOverride.create({ data: { client: `ip:${ALICE.from}`, effect: 'allow' } })
    await app.smartRateLimit.client.rateLimitOverride.create({ data: { client: `ip:${BOB.from}`, effect: 'deny' } })
    for (const [from, allowed, statuses] of [
      ['10.4.5.6', null, [200, 200]],
      ['198.51.100.9', null, [200, 200]],
      ['2001:db8::1', null, [200, 200]],
      ['192.0.2.7', [false, 0, null], [403, 403]],
      [ALICE.from, [true, 1, 0], [200, 429]],
      [BOB.from, [true, 1, 0], [200, 429]],
    ] as const) {
      const [decision] = JSON.parse((await request('/check', { from })).text)
      assert.deepEqual(decision && [decision.allowed, decision.limit, decision.retryAfterMs], allowed, from)
      const hook = [await request('/hook', { from }), await request('/hook', { from })]
      assert.deepEqual(
        hook.map(({ status }) => status),
        statuses,
        from,
      )
    }
  })

  test('reset() forgets what check() used', async (t) => {
    const { app, request } = await startApp(t, {
      database: provider,
      routes: asking({ rate: '5/m', algorithm: 'token_bucket' }),
    })
    const remaining = async () => JSON.parse((await request('/check?cost=2', ALICE)).text)[0].remaining
    assert.deepEqual([await remaining(), await remaining()], [3, 1])
    await app.smartRateLimit.reset(`ip:${ALICE.from}`)
    assert.equal(await remaining(), 3)
  })
})

test('a check costs what the limit says, a function of the request too, unless the code says it; peek answers for that cost', async (t) => {
  const { request } = await startApp(t, {
    database: null,
    routes: asking({ rate: '10/m', cost: ({ headers }) => Number(headers['x-cost'] ?? 1) }),
  })
  const ask = async (path: string, cost = '1') => {
    const { text } = await request(path, { ...ALICE, headers: { 'x-cost': cost } })
    const [{ allowed, count, remaining }] = JSON.parse(text)
    return [allowed, count, remaining]
  }
  assert.deepEqual(await ask('/check', '4'), [true, 4, 6])
  assert.deepEqual(await ask('/check?cost=2', '4'), [true, 6, 4])
  // The limit is one per route.
  assert.deepEqual(await ask('/peek', '10'), [true, 0, 10])
  assert.deepEqual(await ask('/peek', '11'), [false, 0, 10])
  const { status, text } = await request('/check?cost=0', ALICE)
  assert.equal(status, 500)
  assert.match(text, /"check.cost\\" is 0: give an integer, 1 to 2147483647/)
})

test('a limit that counts responses counts a check at once, and one that only counts says what it would do', async (t) => {
  for (const options of [{ counts: '5xx' }, { block: false }]) {
    const { request } = await startApp(t, { database: null, routes: asking({ rate: '1/m', ...options }) })
    const answers = [await request('/check', ALICE), await request('/check', ALICE)]
    assert.deepEqual(
      answers.map(({ text }) => JSON.parse(text)[0].allowed),
      [true, false],
    )
  }
})

test('when the plugin is disabled check and peek answer null, for each of several limits', async (t) => {
  const { request } = await startApp(t, {
    database: null,
    plugin: { enabled: false },
    routes(app) {
      asking({ rate: '0/m' })(app)
      const other = app.smartRateLimit.limit({ rate: '0/m' })
      app.get('/other', { onRequest: other }, async (asked) => [await other.check(asked)])
    },
  })
  for (const path of ['/check', '/peek', '/other']) assert.equal((await request(path)).text, '[null]')
})

/** Returns the frame of a short text; the mask is all zeros. */
function frame(text: string): Buffer {
  return Buffer.concat([Buffer.from([0x81, 0x80 | text.length, 0, 0, 0, 0]), Buffer.from(text)])
}

test('messages of a WebSocket are limited by their own limit, beside that of connections', async (t) => {
  const { port } = await startApp(t, {
    database: null,
    before: async (app) => {
      await app.register(fastifyWebsocket)
    },
    routes(app) {
      const messages = app.smartRateLimit.limit({ rate: '2/10s', name: 'messages' })
      app.get('/chat', { websocket: true }, (socket, request) => {
        socket.on('message', async () => {
          const decision = await messages.check(request)
          if (decision?.allowed === false) socket.close(4429, 'slow down')
          else socket.send('heard')
        })
      })
    },
  })
  const socket = connect({ port, host: '127.0.0.1' })
  atEnd(t, () => socket.destroy())
  let received = ''
  socket.setEncoding('latin1')
  socket.setTimeout(10_000, () => socket.destroy(new Error('The server does not answer')))
  socket.on('data', (chunk) => {
    received += String(chunk)
  })
  socket.write(
    'GET /chat HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n',
  )
  await once(socket, 'data')
  assert.match(received, /^HTTP\/1\.1 101 /)
  for (let count = 0; count < 3; count++) socket.write(frame('hello'))
  while (!received.includes('slow down')) await once(socket, 'data')
  assert.equal(received.split('heard').length - 1, 2)
})

test('over HTTP/2 a limit works as a hook, in the config and in code, and its refusal is the event', async (t) => {
  const database = await openDatabase(t, 'sqlite')
  const { app, port } = await startApp(t, {
    database,
    fastify: HTTP2,
    plugin: { logEvents: true },
    routes(scope) {
      const limit = scope.smartRateLimit.limit({ rate: '1/m', name: 'mine' })
      scope.get('/hook', { onRequest: limit }, ok)
      scope.get('/config', { config: { smartRateLimit: { rate: '1/m', name: 'mine' } } }, ok)
      scope.get('/code', async (request, reply) => {
        const decision = await limit.check(request)
        return reply.code(decision?.allowed ? 200 : 429).send(await limit.peek(request))
      })
      scope.get('/breaks', { onRequest: [(_request, reply) => void reply.raw.destroy(), limit] }, ok)
    },
  })
  const client = connectHttp2(port)
  atEnd(t, client.close)
  const statuses = async (path: string) => [await client.send({ ':path': path }), await client.send({ ':path': path })]
  for (const path of ['/hook', '/config', '/code']) assert.deepEqual(await statuses(path), [200, 429], path)
  assert.equal(await client.send({ ':path': '/breaks' }), undefined)
  await app.smartRateLimit.events.flush()
  const events = await database.client.rateLimitEvent.findMany({ orderBy: { id: 'asc' } })
  assert.deepEqual(
    events.map(({ path, policy, allowed }) => [path, policy, allowed]),
    [
      ['/hook', 'default', true],
      ['/hook', 'mine', false],
      ['/config', 'default', true],
      ['/config', 'mine', false],
      ['/code', 'default', true],
      ['/code', 'default', true],
      ['/breaks', 'default', true],
    ],
  )
})
