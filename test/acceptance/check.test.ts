/** Checks over HTTP: JSON, one request or many, and who may ask. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import Fastify from 'fastify'
import { apiPlugin, checkPlugin } from '../../src/api.js'
import { rateLimitPlugin } from '../../src/index.js'
import { hashToken } from '../../src/staff/api/token-text.js'
import type { paths } from '../generated/check-types.js'
import { createApiClient } from '../support/api-client.js'
import { openDatabase, startApp } from '../support/build-app.js'
import { CHECK, startWithChecks } from '../support/check-app.js'
import { countStatements } from '../support/count-statements.js'
import { forAnyDatabase } from '../support/databases.js'

const GET = { method: 'GET', path: '/search', ip: '203.0.113.7' }

forAnyDatabase((provider) => {
  test('a request is decided by the rules, with the headers to send; the answer is 200 whatever was decided', async (t) => {
    const { app, post } = await startWithChecks(t, provider)
    const { client, rules } = app.smartRateLimit
    await client.rateLimitRule.create({
      data: {
        name: 'tenants',
        pathPattern: '^/search',
        rate: '2/m',
        key: 'header:X-Tenant',
        condition: "user.plan == 'free'",
      },
    })
    await rules.reload()
    const asked = { ...GET, user: { id: 7, plan: 'free' }, headers: { 'X-Tenant': 'acme' }, cost: 2 }
    const first = await post(asked)
    assert.equal(first.status, 200)
    assert.deepEqual(first.json, {
      allowed: true,
      status: null,
      headers: {
        'x-ratelimit-limit': '2',
        'x-ratelimit-remaining': '0',
        'x-ratelimit-reset': first.json.headers['x-ratelimit-reset'],
      },
      body: null,
      decision: first.json.decision,
      left_out: [],
    })
    assert.equal(first.json.decision.key, 'rule:tenants:acme')
    const second = await post(asked)
    assert.deepEqual([second.status, second.json.allowed, second.json.status], [200, false, 429])
    assert.equal(JSON.parse(second.json.body).code, 'FST_RATE_LIMIT_EXCEEDED')
    assert.ok(Number(second.json.headers['retry-after']) > 0)
    assert.equal(second.headers['x-ratelimit-limit'], undefined, 'the address of checks is under no rule')
    assert.equal(second.headers['cache-control'], 'no-store')
  })

  test('a batch is answered and logged in its order, with problems in the place of what is no request', async (t) => {
    const { app, database, post } = await startWithChecks(t, provider, {
      plugin: { middleware: { defaultRate: '3/m', denyList: ['192.0.2.1'] } },
    })
    await post(GET)
    const batch = [
      GET,
      { ...GET, ip: 'nobody' },
      { ...GET, path: '/b' },
      { ...GET, ip: '192.0.2.1' },
      'x',
      { ...GET, url: '/' },
      { ...GET, path: '/c' },
    ]
    const { status, json } = await post(batch)
    assert.equal(status, 200)
    assert.deepEqual(
      json.map((each: { status: unknown; allowed: unknown }) => [each.status, each.allowed]),
      [
        [null, true],
        [400, undefined],
        [null, true],
        [403, false],
        [400, undefined],
        [400, undefined],
        [429, false],
      ],
    )
    assert.deepEqual(json[1], {
      type: 'about:blank',
      title: 'Bad Request',
      status: 400,
      detail: 'ip is "nobody": give an address such as 203.0.113.7.',
      code: 'FST_RATE_LIMIT_INVALID_INPUT',
      errors: [{ in: 'body', field: 'ip', detail: 'is "nobody": give an address such as 203.0.113.7' }],
    })
    assert.match(json[4].detail, /^body The request is "x": give an object/)
    assert.match(json[5].detail, /^url is not one of a request: give method, path, ip, user, headers, cost\.$/)
    await app.smartRateLimit.events.flush()
    const logged = await database.client.rateLimitEvent.findMany({ orderBy: { id: 'asc' } })
    assert.deepEqual(
      logged.map(({ path, allowed }) => [path, allowed]),
      [
        ['/search', true],
        ['/search', true],
        ['/b', true],
        ['/search', false],
        ['/c', false],
      ],
    )
  })

  test('a header or a field with a hostile name concerns its own request, and no other of the batch', async (t) => {
    const { post, database, app } = await startWithChecks(t, provider)
    const hostile = [
      JSON.stringify(GET),
      '{"__proto__":{"method":"GET","path":"/","ip":"203.0.113.7"}}',
      JSON.stringify({ ...GET, constructor: { prototype: {} } }),
      `{"method":"GET","path":"/b","ip":"203.0.113.7","headers":{"__proto__":"x","constructor":"y"},"user":{"__proto__":{"id":7}}}`,
    ]
    const { status, json } = await post(`[${hostile.join(',')}]`)
    assert.equal(status, 200)
    assert.deepEqual(
      json.map((each: { status: unknown }) => each.status),
      [null, 400, 400, null],
    )
    await app.smartRateLimit.events.flush()
    const logged = await database.client.rateLimitEvent.findMany({ orderBy: { id: 'asc' } })
    assert.deepEqual(
      logged.map(({ path, userId }) => [path, userId]),
      [
        ['/search', null],
        ['/b', null],
      ],
    )
    assert.equal(Reflect.get({}, 'method'), undefined)
  })

  test('a hundred requests take a few statements', async (t) => {
    const { post } = await startWithChecks(t, provider, { plugin: { logEvents: false, useDynamicRules: false } })
    await post(GET)
    const counted = countStatements()
    t.after(() => counted.stop())
    const { json } = await post(Array.from({ length: 100 }, (_, place) => ({ ...GET, ip: `203.0.113.${place}` })))
    assert.equal(json.length, 100)
    assert.ok(json.every(({ allowed }: { allowed: boolean }) => allowed))
    const statements = counted.of('fixed_window').length + counted.of('rate_limit_counter').length
    assert.ok(statements >= 1 && statements <= 4, `${statements} statements`)
  })
})

test('what is no request, or too many of them, is a 400 that names it, and counts nothing', async (t) => {
  const { post, request, bearer } = await startWithChecks(t, 'sqlite')
  const many = await post(Array.from({ length: 101 }, () => GET))
  assert.deepEqual([many.status, many.json.detail], [400, 'body has 101 requests: send at most 100 at a time.'])
  assert.deepEqual((await post([])).json, [])
  for (const [body, detail] of [
    [{}, /^method is missing/],
    [{ ...GET, path: undefined }, /^path is missing/],
    [{ ...GET, ip: null }, /^ip is null/],
    [{ ...GET, unknown: 1 }, /^unknown is not one of a request/],
    ['null', /^body The request is null/],
    ['{', /^The body is not valid JSON/],
    ['', /^The body is empty/],
    ['{"method":"GET","path":"/","ip":"203.0.113.7","__proto__":{}}', /^__proto__ is not one of a request/],
  ] as const) {
    const { status, json } = await post(body)
    assert.equal(status, 400, String(detail))
    assert.match(json.detail, detail)
  }
  const text = await request(CHECK, {
    method: 'POST',
    headers: { ...bearer(), 'content-type': 'text/plain' },
    body: 'x',
  })
  assert.equal(text.status, 415)
  const long = await post({ ...GET, user: 'x'.repeat(300_000) })
  assert.equal(long.status, 413)
  assert.deepEqual(
    [(await request(CHECK, { headers: bearer() })).status, (await request(`${CHECK}/x`, { headers: bearer() })).status],
    [405, 404],
  )
  assert.equal((await post(GET)).json.decision.count, 1)
})

test('a checker may check and nothing else, other roles may not check, and guesses of tokens are limited', async (t) => {
  const { app, post, request, bearer, database, tokens, clock } = await startWithChecks(t, 'sqlite')
  for (const role of ['viewer', 'operator', 'admin'] as const) {
    const { status, json } = await post(GET, bearer(role))
    assert.deepEqual(
      [status, json.detail],
      [403, `The role ${role} may not check requests: this needs the role checker.`],
    )
  }
  assert.equal((await post(GET, {})).status, 401)
  const api = Fastify()
  t.after(() => api.close())
  await api.register(rateLimitPlugin, { clock, database: database.client })
  await api.register(apiPlugin, { prefix: '/api' })
  for (const [method, url] of [
    ['GET', '/api/rules'],
    ['GET', '/api/openapi.json'],
    ['POST', '/api/explain'],
    ['GET', '/api/nothing'],
  ] as const) {
    const answer = await api.inject({ method, url, headers: bearer() })
    assert.deepEqual(
      [answer.statusCode, answer.json().detail],
      [403, 'The role checker may only check requests: this needs another.'],
    )
  }
  const wrong = { authorization: `Bearer ${tokens.get('checker')?.slice(0, -1)}x` }
  const statuses: number[] = []
  for (let count = 0; count < 12; count++) statuses.push((await post(GET, wrong)).status)
  assert.deepEqual(statuses.slice(-3), [401, 429, 429])
  assert.equal((await post(GET)).status, 200, 'who has a token is not held to it')
  assert.equal((await request(`${CHECK}/forward`, { headers: wrong })).status, 429)
  await app.smartRateLimit.events.flush()
  assert.equal(await database.client.rateLimitEvent.count(), 1)
})

test('a revoked token opens nothing a second later; while the database is away, known ones go on', async (t) => {
  const { post, database, tokens, clock, bearer } = await startWithChecks(t, 'sqlite', {
    plugin: { middleware: { backend: 'memory' }, logEvents: false },
  })
  const execute = (sql: string) => database.database.execute(sql, [])
  const hash = hashToken(tokens.get('checker') ?? '')
  assert.equal((await post(GET)).status, 200)
  await execute('ALTER TABLE rate_limit_token RENAME TO away')
  clock.advance(60_000)
  assert.deepEqual([(await post(GET)).status, (await post(GET, bearer('viewer'))).status], [200, 503])
  clock.advance(600_000)
  assert.equal((await post(GET)).status, 503)
  await execute('ALTER TABLE away RENAME TO rate_limit_token')
  assert.equal((await post(GET)).status, 200)
  await execute(`DELETE FROM rate_limit_token WHERE token_hash = '${hash}'`)
  clock.advance(1_000)
  assert.equal((await post(GET)).status, 401)
})

test('a token that expires while the database is away opens nothing any more', async (t) => {
  const { post, database, clock } = await startWithChecks(t, 'sqlite', {
    plugin: { middleware: { backend: 'memory' }, logEvents: false },
  })
  const execute = (sql: string) => database.database.execute(sql, [])
  await execute(`UPDATE rate_limit_token SET expires_at = ${clock.now() + 90_000}`)
  assert.equal((await post(GET)).status, 200)
  await execute('ALTER TABLE rate_limit_token RENAME TO away')
  clock.advance(60_000)
  assert.equal((await post(GET)).status, 200)
  clock.advance(30_000)
  assert.equal((await post(GET)).status, 503)
})

test('authorize lets in whom it answers the role for; everything else, and a throw, is a no', async (t) => {
  let answer: unknown
  const { post, log } = await startWithChecks(t, 'sqlite', {
    check: {
      tokens: false,
      authorize: () => {
        if (answer instanceof Error) throw answer
        return Object(answer) === answer ? Object(answer) : answer
      },
    },
  })
  for (const [given, status] of [
    ['checker', 200],
    [{ role: 'checker', actor: 'nginx' }, 200],
    [null, 401],
    [false, 401],
    [true, 403],
    ['admin', 403],
    [{ role: 'viewer' }, 403],
    [new Error('down'), 401],
  ] as const) {
    answer = given
    assert.equal((await post(GET, {})).status, status, JSON.stringify(given))
  }
  assert.match(log.map(({ msg }) => msg).join('\n'), /authorize of checkPlugin failed: the request is refused/)
})

test('checks that nobody may use, an unknown option, and limits that they cannot count are told at start', async (t) => {
  const database = await openDatabase(t, 'sqlite')
  const { log } = await startApp(t, {
    database,
    routes: async (app) => void (await app.register(checkPlugin, { prefix: '/c', tokens: false })),
  })
  assert.match(log.map(({ msg }) => msg).join(), /checkPlugin accepts no tokens and has no "authorize"/)
  for (const [options, middleware, message] of [
    [{ prefix: '' }, {}, /^checkPlugin has no prefix/],
    [{ prefix: '/c', token: true }, {}, /^Option "token" of checkPlugin does not exist/],
    [{ prefix: '/c', tokens: 'yes' }, {}, /^Option "tokens" of checkPlugin is yes/],
    [{ prefix: '/c', authorize: 'me' }, {}, /^Option "authorize" of checkPlugin is not a function/],
    [{ prefix: '/c' }, { counts: '4xx' }, /^Setting "middleware.counts" counts what ends elsewhere/],
  ] as const) {
    const app = Fastify()
    await app.register(rateLimitPlugin, { database: database.client, middleware })
    await assert.rejects(async () => void (await app.register(checkPlugin, Object(options))), { message })
    await app.close().catch(() => undefined)
  }
})

test('the document says what is answered', async (t) => {
  const { request, bearer, origin, tokens } = await startWithChecks(t, 'sqlite', {
    plugin: { middleware: { defaultRate: '1/m, 5/h' } },
  })
  const { text } = await request(`${CHECK}/openapi.json`, { headers: bearer() })
  const document = JSON.parse(text)
  const client = createApiClient<paths>(`${origin}${CHECK}`, tokens.get('checker') ?? '', document)
  const one = await client.POST('/', { body: GET })
  assert.ok(one.data !== undefined && 'left_out' in one.data)
  const many = await client.POST('/', { body: [GET, { ...GET, cost: 0 }] })
  assert.ok(Array.isArray(many.data) && many.data.length === 2)
  const wrong = await client.POST('/', { body: { ...GET, ip: 'x' } })
  assert.equal(wrong.error?.code, 'FST_RATE_LIMIT_INVALID_INPUT')
})
