/** The header variants, and refusals as `application/problem+json`. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { FastifyReply } from 'fastify'
import { parseRateLimit } from 'ratelimit-header-parser'
import type { RateLimitOptions } from '../../src/index.js'
import { openDatabase, startApp } from '../support/build-app.js'
import { fakeClock } from '../support/clock.js'

const PROBLEM = { headers: { accept: 'application/problem+json, application/json;q=0.9' } }

const VARIANTS: readonly [RateLimitOptions['headers'], legacy: boolean, draft: boolean][] = [
  [undefined, true, false],
  ['legacy', true, false],
  ['draft', false, true],
  ['both', true, true],
  ['none', false, false],
]
for (const [headers, legacy, draft] of VARIANTS) {
  test(`headers: ${headers ?? 'nothing said'}`, async (t) => {
    const { request, clock } = await startApp(t, {
      database: null,
      plugin: { headers, middleware: { defaultRate: '2/m', rateLimits: { '/auth/': '5/30s' } } },
    })
    clock.advance(60_000 - (clock.now() % 60_000) + 15_000)

    const { headers: seen } = await request('/')
    assert.equal(seen['x-ratelimit-limit'], legacy ? '2' : undefined)
    assert.equal(seen['x-ratelimit-remaining'], legacy ? '1' : undefined)
    assert.equal(seen['x-ratelimit-reset'], legacy ? '45' : undefined)
    assert.equal(seen['ratelimit-policy'], draft ? '"default";q=2;w=60' : undefined)
    const comments = (remaining: number) => (legacy ? `;fsr-limit=2;fsr-remaining=${remaining};fsr-reset=45` : '')
    assert.equal(seen.ratelimit, draft ? `"default";r=1;t=45${comments(1)}` : undefined)
    const ofPrefix = (await request('/auth/x')).headers
    assert.equal(ofPrefix['ratelimit-policy'], draft ? '"/auth/";q=5;w=30' : undefined)

    await request('/')
    const refused = await request('/')
    assert.deepEqual([refused.status, refused.headers['retry-after']], [429, '45'])
    assert.equal(refused.headers.ratelimit, draft ? `"default";r=0;t=45${comments(0)}` : undefined)
  })
}

for (const headers of ['legacy', 'both'] as const) {
  test(`ratelimit-header-parser, which reads draft 7 of the fields, reads headers: ${headers}`, async (t) => {
    const { request } = await startApp(t, {
      database: null,
      clock: fakeClock(Date.UTC(2026, 0, 15, 12)),
      plugin: { headers, middleware: { defaultRate: '20/30s' } },
    })
    await request('/')
    const beforeMs = Date.now()
    const read = parseRateLimit((await request('/')).headers)
    assert.deepEqual([read?.limit, read?.used, read?.remaining], [20, 2, 18])
    const resetMs = Number(read?.reset)
    assert.ok(resetMs >= beforeMs + 30_000 && resetMs <= Date.now() + 30_000)
  })
}

test("the draft's policy is called by the rule's name, escaped; a prefix beyond ASCII is percent-encoded", async (t) => {
  const { app, request } = await startApp(t, {
    database: 'sqlite',
    plugin: { headers: 'draft', useDynamicRules: true, middleware: { rateLimits: { '/süß/': '5/m' } } },
  })
  await app.smartRateLimit.client.rateLimitRule.create({
    data: { name: 'a "b" \\ c', pathPattern: '^/rule', rate: '7/h' },
  })
  const { headers } = await request('/rule')
  assert.equal(headers['ratelimit-policy'], '"a \\"b\\" \\\\ c";q=7;w=3600')
  assert.match(String(headers.ratelimit), /^"a \\"b\\" \\\\ c";r=6;t=\d+$/)
  assert.equal((await request('/s%C3%BC%C3%9F/x')).headers['ratelimit-policy'], '"/s%C3%BC%C3%9F/";q=5;w=60')
})

test('a client of the deny list gets a limit of 0', async (t) => {
  const plugin: RateLimitOptions = { headers: 'both', middleware: { denyList: ['192.0.2.0/24'] } }
  const { request } = await startApp(t, { database: null, plugin })
  const { status, headers } = await request('/', { from: '192.0.2.1' })
  assert.deepEqual([status, headers['x-ratelimit-limit'], headers['x-ratelimit-remaining']], [403, '0', '0'])
  assert.deepEqual([headers.ratelimit, headers['ratelimit-policy'], headers['retry-after']], Array(3).fill(undefined))
})

test('a denial has no policy of a limit either that let the request through before', async (t) => {
  const { request } = await startApp(t, {
    database: null,
    plugin: { hook: 'preHandler', headers: 'draft', middleware: { denyList: ['192.0.2.0/24'] } },
    routes: (app) => void app.get('/', { onRequest: app.smartRateLimit.limit({ rate: '5/m' }) }, async () => 'ok'),
  })
  assert.equal((await request('/')).headers['ratelimit-policy'], '"route";q=5;w=60')
  const { status, headers } = await request('/', { from: '192.0.2.1' })
  assert.deepEqual([status, headers.ratelimit, headers['ratelimit-policy']], [403, undefined, undefined])
})

for (const [algorithm, wait, first] of [
  ['fixed_window', 60, 60],
  ['sliding_window', 75, 120],
  ['token_bucket', 15, 15],
  ['leaky_bucket', 15, 15],
] as const) {
  test(`the draft's time is until more is left: ${algorithm}`, async (t) => {
    for (const windows of ['', ', 100/h']) {
      const { request, clock } = await startApp(t, {
        database: null,
        plugin: { headers: 'draft', middleware: { algorithm, defaultRate: `4/m${windows}` } },
      })
      clock.advance(60_000 - (clock.now() % 60_000))
      const left = async () => {
        const { status, headers } = await request('/')
        const [, remaining, time] = /^"default(?::m)?";r=(\d+);t=(\d+)/.exec(String(headers.ratelimit)) ?? []
        return { status, remaining: Number(remaining), time: Number(time), retry: headers['retry-after'] }
      }
      assert.deepEqual(await left(), { status: 200, remaining: 3, time: first, retry: undefined })
      await left()
      await left()
      assert.deepEqual(await left(), { status: 200, remaining: 0, time: wait, retry: undefined })
      assert.deepEqual(await left(), { status: 429, remaining: 0, time: wait, retry: String(wait) })
      clock.advance(wait * 1_000 - 1_000)
      assert.equal((await left()).status, 429, 'a second too early')
      clock.advance(1_000)
      const { status, remaining } = await left()
      assert.deepEqual([status, remaining], [200, algorithm === 'fixed_window' ? 3 : 0])
    }
  })
}

test('the draft has no time where nothing is used', async (t) => {
  const { request } = await startApp(t, {
    database: null,
    plugin: { headers: 'draft', middleware: { defaultRate: '4/m', unit: 'tokens' } },
  })
  assert.equal((await request('/')).headers.ratelimit, '"default";r=4')
})

test('the fields list the ceiling, and the other headers tell of it while it has the smaller share left', async (t) => {
  const { request, clock } = await startApp(t, {
    database: null,
    plugin: { headers: 'both', middleware: { key: 'header:x-key', defaultRate: '3/m', ceiling: '4/m' } },
  })
  clock.advance(60_000 - (clock.now() % 60_000))
  const seen: unknown[] = []
  for (const key of ['a', 'b', 'b', 'b', 'b', 'c', 'c']) {
    const { status, headers } = await request('/', { headers: { 'x-key': key } })
    const [fields, told] = String(headers.ratelimit).split(';fsr-')
    assert.equal(told, `limit=${headers['x-ratelimit-limit']}`)
    seen.push([status, headers['x-ratelimit-limit'], headers['x-ratelimit-remaining'], fields])
    const isCeilingAlone = fields?.startsWith('"ceiling"')
    assert.equal(
      headers['ratelimit-policy'],
      isCeilingAlone ? '"ceiling";q=4;w=60' : '"default";q=3;w=60, "ceiling";q=4;w=60',
    )
  }
  assert.deepEqual(seen, [
    [200, '3', '2', '"default";r=2;t=60, "ceiling";r=3;t=60'],
    [200, '4', '2', '"default";r=2;t=60, "ceiling";r=2;t=60'],
    [200, '4', '1', '"default";r=1;t=60, "ceiling";r=1;t=60'],
    [200, '3', '0', '"default";r=0;t=60, "ceiling";r=0;t=60'],
    [429, '3', '0', '"default";r=0;t=60, "ceiling";r=0;t=60'],
    [429, '4', '0', '"ceiling";r=0;t=60'],
    [429, '4', '0', '"ceiling";r=0;t=60'],
  ])
})

test('the fields list the limits of all groups, and the ceiling', async (t) => {
  const database = await openDatabase(t, 'sqlite')
  await database.client.rateLimitRule.create({
    data: { name: 'team', group: 'team', pathPattern: '^/', rate: '5/m', key: 'all' },
  })
  const { request } = await startApp(t, {
    database,
    plugin: { headers: 'both', useDynamicRules: true, middleware: { defaultRate: '9/m', ceiling: '2/m' } },
    routes(scope) {
      scope.get('/', async (request) => scope.smartRateLimit.decisionOf(request))
      scope.get('/free', { config: { smartRateLimit: false } }, async (request) => scope.smartRateLimit.peek(request))
    },
  })
  const { headers, text } = await request('/')
  assert.equal(headers['ratelimit-policy'], '"default";q=9;w=60, "team";q=5;w=60, "ceiling";q=2;w=60')
  assert.match(String(headers.ratelimit), /^"default";r=8;t=\d+, "team";r=4;t=\d+, "ceiling";r=1;t=\d+;fsr-limit=2;/)
  assert.equal(headers['x-ratelimit-remaining'], '1')
  const decided = JSON.parse(text)
  assert.deepEqual([decided.policy, decided.remaining], ['ceiling', 1])
  assert.deepEqual(
    decided.limits.map(({ policy }: { policy: string }) => policy),
    ['default', 'team'],
  )
  const peeked = JSON.parse((await request('/free')).text)
  assert.deepEqual([peeked.policy, peeked.remaining], ['ceiling', 1])
})

test('a limit of 0 has no time in the draft, since no waiting helps', async (t) => {
  const plugin: RateLimitOptions = { headers: 'draft', middleware: { defaultRate: '0/m' } }
  const { request } = await startApp(t, { database: null, plugin })
  const { headers } = await request('/')
  assert.deepEqual([headers.ratelimit, headers['retry-after']], ['"default";r=0', undefined])
})

for (const algorithm of ['fixed_window', 'sliding_window', 'token_bucket'] as const) {
  test(`of several windows each that refuses has its own wait, and is named as violated: ${algorithm}`, async (t) => {
    const database = await openDatabase(t, 'sqlite')
    for (const backend of ['memory', 'database'] as const) {
      const { request, clock } = await startApp(t, {
        database,
        clock: fakeClock(Date.UTC(2026, 0, 15, 12)),
        plugin: {
          namespace: backend,
          headers: 'draft',
          middleware: { backend, algorithm, defaultRate: '2/m, 2/h, 100/d', ceiling: '3/s' },
        },
      })
      for (let times = 0; times < 2; times++) assert.equal((await request('/', PROBLEM)).status, 200)
      clock.advance(1_000)
      const refusals = [await request('/', PROBLEM), await request('/', PROBLEM)]
      for (const { status, headers, text } of refusals) {
        assert.equal(status, 429)
        const waits = Object.fromEntries(
          [...String(headers.ratelimit).matchAll(/"default:(\w+)";r=\d+;t=(\d+)/g)].map(([, name, t]) => [
            name,
            Number(t),
          ]),
        )
        assert.equal(waits.h, Number(headers['retry-after']), String(headers.ratelimit))
        assert.ok(Number(waits.m) <= 105 && Number(waits.m) > 0, String(headers.ratelimit))
        assert.deepEqual(JSON.parse(text)['violated-policies'], ['default:m', 'default:h'])
      }
      for (let times = 0; times < 2; times++) {
        const { text } = await request('/', PROBLEM)
        const violated = JSON.parse(text)['violated-policies']
        assert.deepEqual(violated, times === 0 ? ['default:m', 'default:h'] : ['default:m', 'default:h', 'ceiling'])
      }
    }
  })
}

test('a client that accepts application/problem+json is refused with a problem', async (t) => {
  const { request, clock } = await startApp(t, { database: null, plugin: { middleware: { defaultRate: '1/m' } } })
  clock.advance(60_000 - (clock.now() % 60_000) + 48_000)
  assert.equal((await request('/', PROBLEM)).status, 200)

  const { status, headers, text } = await request('/', PROBLEM)

  assert.equal(status, 429)
  assert.match(String(headers['content-type']), /^application\/problem\+json/)
  assert.deepEqual([headers['retry-after'], headers['x-ratelimit-remaining']], ['12', '0'])
  assert.deepEqual(JSON.parse(text), {
    type: 'https://iana.org/assignments/http-problem-types#quota-exceeded',
    title: 'Too Many Requests',
    status: 429,
    detail: 'Rate limit exceeded, retry in 12 seconds',
    code: 'FST_RATE_LIMIT_EXCEEDED',
    'violated-policies': ['default'],
  })
})

for (const accept of [
  undefined,
  '*/*',
  'application/json',
  'application/problem+json;q=0',
  'application/problem+json; q=0.0, */*',
  'application/problem+json; charset=x; q=0',
  'application/problem+jsonfoo',
]) {
  test(`a client that accepts ${accept ?? 'whatever comes'} is refused with the contract's JSON`, async (t) => {
    const { request } = await startApp(t, { database: null, plugin: { middleware: { defaultRate: '0/m' } } })
    const { headers, text } = await request('/', { headers: accept === undefined ? {} : { accept } })
    assert.match(String(headers['content-type']), /^application\/json/)
    assert.deepEqual(JSON.parse(text), {
      statusCode: 429,
      code: 'FST_RATE_LIMIT_EXCEEDED',
      error: 'Too Many Requests',
      message: 'Rate limit exceeded',
    })
  })
}

test("the host's own error handler is asked whatever the client accepts", async (t) => {
  const { request } = await startApp(t, {
    database: null,
    plugin: { middleware: { defaultRate: '0/m' } },
    before(app) {
      app.setErrorHandler(async (error, _request, reply) => reply.code(418).send({ own: Object(error).code }))
    },
  })
  const { status, text } = await request('/', PROBLEM)
  assert.deepEqual([status, JSON.parse(text)], [418, { own: 'FST_RATE_LIMIT_EXCEEDED' }])
})

test("a route's own error handler is asked too", async (t) => {
  const { request } = await startApp(t, {
    database: null,
    plugin: { middleware: { defaultRate: '0/m' } },
    routes(app) {
      app.get(
        '/',
        { errorHandler: async (_error, _request, reply) => reply.code(418).send({ mine: true }) },
        async () => 'ok',
      )
    },
  })
  const { status, text } = await request('/', PROBLEM)
  assert.deepEqual([status, JSON.parse(text)], [418, { mine: true }])
})

test('a route without an error handler is no other version of a route that has one', async (t) => {
  const { request } = await startApp(t, {
    database: null,
    plugin: { middleware: { defaultRate: '0/m' } },
    routes(app) {
      const errorHandler = async (_error: unknown, _request: unknown, reply: FastifyReply) => reply.code(418).send()
      app.get('/', { constraints: { version: '1.0.0' }, errorHandler }, async () => 'ok')
      app.get('/', { constraints: { version: '2.0.0' } }, async () => 'ok')
    },
  })
  const answer = (version: string) => request('/', { headers: { ...PROBLEM.headers, 'accept-version': version } })
  assert.equal((await answer('1.x')).status, 418)
  const { status, headers } = await answer('2.x')
  assert.equal(status, 429)
  assert.match(String(headers['content-type']), /^application\/problem\+json/)
})

test("with the check as a preHandler hook the headers are the stricter limit's too, whatever limits are called", async (t) => {
  const { request } = await startApp(t, {
    database: null,
    plugin: { hook: 'preHandler', headers: 'draft', middleware: { defaultRate: '100/h' } },
    routes(app) {
      const { limit } = app.smartRateLimit
      const onRequest = [limit({ rate: '9/h', name: '";r=1' }), limit({ rate: '5/h', name: 'b' })]
      app.get('/', { onRequest }, async () => 'ok')
    },
  })
  assert.match(String((await request('/')).headers.ratelimit), /^"b";r=4;t=\d+$/)
})

test("a 503 of onStoreError 'deny' is a problem too", async (t) => {
  const backend = {
    concurrency: 1,
    check: () => Promise.reject(new Error('no store')),
    reset: () => undefined,
    close: () => undefined,
  }
  const plugin: RateLimitOptions = {
    onStoreError: 'deny',
    headers: 'both',
    middleware: { backend, defaultRate: '9/m' },
  }
  const { request } = await startApp(t, { database: null, plugin })
  const { status, headers, text } = await request('/', PROBLEM)
  assert.equal(status, 503)
  // What is left nobody knows.
  assert.deepEqual(
    [headers.ratelimit, headers['ratelimit-policy'], headers['retry-after']],
    [undefined, undefined, '1'],
  )
  assert.deepEqual([headers['x-ratelimit-remaining'], headers['x-ratelimit-reset']], ['0', '1'])
  assert.match(String(headers['content-type']), /^application\/problem\+json/)
  assert.deepEqual(JSON.parse(text), {
    type: 'about:blank',
    title: 'Service Unavailable',
    status: 503,
    detail: 'Rate limit store unavailable, try again later',
    code: 'FST_RATE_LIMIT_STORE_UNAVAILABLE',
  })
})
