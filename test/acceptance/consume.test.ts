/** `app.smartRateLimit.consume()`: the decision of the hook about requests that the app did not get. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { type ConsumeOptions, InvalidSettingError, type RateLimitOptions, type RefusalError } from '../../src/index.js'
import { openDatabase, startApp, type TestApp } from '../support/build-app.js'
import { forAnyDatabase, type TestDatabase } from '../support/databases.js'

const IP = '203.0.113.7'
const GET: ConsumeOptions = { method: 'GET', path: '/search', ip: IP }

/** An app whose users are what `authorization` says. */
function start(t: TestContext, database: TestDatabase | null, plugin: RateLimitOptions = {}): Promise<TestApp> {
  return startApp(t, {
    database,
    plugin: {
      user: ({ headers: { authorization } }) => (authorization === undefined ? null : JSON.parse(authorization)),
      ...(database !== null && { logEvents: true, useDynamicRules: true }),
      ...plugin,
    },
  })
}

async function addRules({ app }: TestApp, rules: readonly Readonly<Record<string, unknown>>[]): Promise<void> {
  const { client } = app.smartRateLimit
  for (const rule of rules) {
    await client.rateLimitRule.create({ data: { name: '', pathPattern: '^/', rate: '9/m', ...rule } })
  }
  await app.smartRateLimit.rules.reload()
}

async function events({ app }: TestApp, { client }: TestDatabase): Promise<unknown[]> {
  await app.smartRateLimit.events.flush()
  const logged = await client.rateLimitEvent.findMany({ orderBy: { id: 'asc' } })
  return logged.map(({ id: _id, timestamp: _timestamp, ipAddress: _ipAddress, ...event }) =>
    Object.values(event).map(String),
  )
}

forAnyDatabase((provider) => {
  test('it decides as the hook does, with the same headers, body and event, by lists, overrides, rules of all groups and prefixes', async (t) => {
    const plugin: RateLimitOptions = {
      headers: 'both',
      middleware: {
        defaultRate: '4/m',
        rateLimits: { '/auth/': '1/m' },
        denyList: ['192.0.2.0/24'],
        allowList: ['198.51.100.1'],
        skipPaths: ['/health'],
      },
    }
    const databases = [await openDatabase(t, provider), await openDatabase(t, provider)] as const
    const asked = await start(t, databases[0], plugin)
    const consumed = await start(t, databases[1], plugin)
    for (const each of [asked, consumed]) {
      const { rateLimitOverride } = each.app.smartRateLimit.client
      await rateLimitOverride.create({ data: { client: 'ip:203.0.113.9', effect: 'deny' } })
      await rateLimitOverride.create({ data: { client: 'user:fast', effect: '20/m' } })
      await addRules(each, [
        {
          name: 'login',
          pathPattern: '^/login$',
          method: 'POST',
          rate: '1/m',
          refusalMessage: 'Later: {seconds}',
          refusalStatus: 503,
        },
        {
          name: 'tenant',
          pathPattern: '^/t/',
          rate: '2/m',
          key: 'header:X-Tenant',
          condition: "request.host == 'a.example'",
        },
        { name: 'org', group: 'org', rate: '3/h', key: 'user.org', condition: "user.org == 'acme'" },
        { name: 'soft', pathPattern: '^/soft', rate: '1/m', block: false },
        { name: 'dear', pathPattern: '^/dear', rate: '5/m', cost: 2 },
      ])
    }
    const acme = { id: 'ann', org: 'acme' }
    const requests: ConsumeOptions[] = [
      ...Array.from({ length: 3 }, () => ({ ...GET, method: 'POST', path: '/log%69n?next=/' })),
      ...Array.from({ length: 5 }, () => ({ ...GET, user: acme })),
      ...Array.from({ length: 3 }, () => ({
        ...GET,
        path: '/t/1',
        headers: { Host: 'A.example:8080', 'x-tenant': 't' },
      })),
      { ...GET, path: '/t/1', headers: { host: 'b.example', 'x-tenant': 't' } },
      ...Array.from({ length: 2 }, () => ({ ...GET, path: '/soft?a=1' })),
      ...Array.from({ length: 3 }, () => ({ ...GET, path: '/dear', ip: '2001:db8::1' })),
      ...Array.from({ length: 2 }, () => ({ ...GET, path: '/auth/x' })),
      { ...GET, ip: '192.0.2.1' },
      { ...GET, ip: '203.0.113.9', headers: { accept: 'application/problem+json' } },
      { ...GET, ip: '198.51.100.1' },
      { ...GET, path: '/health/live' },
      { ...GET, user: { id: 'fast' } },
      ...Array.from({ length: 6 }, () => ({ ...GET, path: '/other', headers: { accept: 'application/problem+json' } })),
    ]
    for (const options of requests) {
      const { method, path, ip, user = null, headers } = options
      const sent = { ...headers, ...(user !== null && { authorization: JSON.stringify(user) }) }
      const answer = await asked.request(path, { method, from: ip, headers: { host: 'x', ...sent } })
      const decision = await consumed.app.smartRateLimit.consume(options)
      const what = JSON.stringify(options)
      const isRefused = answer.text.startsWith('{"statusCode"') || answer.text.startsWith('{"type"')
      const names = isRefused ? /^(?:x-)?ratelimit|^retry-after$|^cache-control$|^content-type$/ : /^(?:x-)?ratelimit/
      const headersSent = Object.entries(answer.headers).filter(([name]) => names.test(name))
      assert.equal(decision.allowed, !isRefused, what)
      assert.deepEqual(
        [decision.status, decision.body, decision.headers],
        [isRefused ? answer.status : null, isRefused ? answer.text : null, Object.fromEntries(headersSent)],
        what,
      )
      assert.deepEqual(decision.left_out, [])
    }
    const logged = await events(consumed, databases[1])
    const expected = await events(asked, databases[0])
    assert.deepEqual(logged, expected)
    assert.equal(logged.length, requests.length - 2)
    const ofSocket = await databases[1].client.rateLimitEvent.count({ where: { ipAddress: { not: null } } })
    assert.equal(ofSocket, 0, 'none came over a socket of the app')
  })

  test('rules that count what runs at a time, or responses, are left out, and named where they would have decided', async (t) => {
    const database = await openDatabase(t, provider)
    const started = await start(t, database)
    const { consume } = started.app.smartRateLimit
    await addRules(started, [
      { name: 'uploads', pathPattern: '^/up', rate: '1/m', algorithm: 'concurrency', priority: 9 },
      { name: 'failures', pathPattern: '^/up', rate: '1/m', counts: '4xx', group: 'failed', priority: 9 },
      { name: 'behind', pathPattern: '^/up', rate: '1/m', counts: '5xx', group: 'failed' },
      { name: 'before', pathPattern: '^/', rate: '2/m', group: 'total', priority: 5 },
      { name: 'never', pathPattern: '^/', rate: '1/m', counts: '5xx', group: 'total' },
      { name: 'staff', pathPattern: '^/', rate: '1/m', counts: '4xx', group: 'staff', condition: "user.id == 'ann'" },
      { name: 'all', pathPattern: '^/', rate: '2/m' },
    ])
    const first = await consume({ ...GET, path: '/up/1' })
    assert.deepEqual(first.left_out, ['uploads', 'failures'])
    assert.deepEqual(
      first.decision?.limits.map(({ rule }) => rule),
      ['all', 'before'],
    )
    assert.deepEqual((await consume({ ...GET, user: 'ann' })).left_out, ['staff'])
    const refused = await consume({ ...GET, path: '/up/1' })
    assert.deepEqual([refused.allowed, refused.status, refused.left_out], [false, 429, ['uploads', 'failures']])

    await started.app.smartRateLimit.client.rateLimitOverride.create({
      data: { client: `ip:${IP}`, effect: '1/m', algorithm: 'concurrency' },
    })
    await started.app.smartRateLimit.rules.reload()
    assert.deepEqual((await consume({ ...GET, path: '/up/1' })).left_out, ['override', 'uploads', 'failures'])
    await started.app.smartRateLimit.client.rateLimitOverride.updateMany({
      data: { effect: '5/m', algorithm: 'fixed_window' },
    })
    await started.app.smartRateLimit.rules.reload()
    assert.deepEqual((await consume({ ...GET, path: '/up/1' })).left_out, ['failures'], 'the override decides instead')
    await started.app.smartRateLimit.client.rateLimitOverride.updateMany({ data: { effect: 'deny' } })
    await started.app.smartRateLimit.rules.reload()
    assert.deepEqual((await consume({ ...GET, path: '/up/1' })).left_out, [])
    // The hook goes on to count them.
    assert.equal((await started.request('/up/1', { from: '203.0.113.8' })).headers['x-ratelimit-limit'], '1')
  })

  test('a user with a strange id, headers and a path of any length neither fail nor stop the log', async (t) => {
    const database = await openDatabase(t, provider)
    const started = await start(t, database)
    const { consume } = started.app.smartRateLimit
    await addRules(started, [
      { name: 'users', key: 'user', rate: '9/m' },
      { name: 'by-field', key: 'user.org', group: 'org', rate: '9/m' },
    ])
    const long = 'x'.repeat(20_000)
    for (const user of [{ id: 'a\0b', org: 'a\0b' }, '\u{1F600}', long, Number.NaN, 2n ** 70n, { id: {} }, [], null]) {
      assert.equal(
        (await consume({ ...GET, path: `/${long.slice(0, 3000)}%zz%C0`, user, headers: { 'x-a': [long, ''] } }))
          .allowed,
        true,
      )
    }
    assert.deepEqual(
      started.log.filter(({ level }) => level > 40),
      [],
    )
    assert.equal((await events(started, database)).length, 8)
  })
})

test('a path that another server may read as another one is not skipped', async (t) => {
  const { app } = await startApp(t, {
    database: null,
    plugin: { middleware: { defaultRate: '100/m', skipPaths: ['/static'] } },
  })
  const policyOf = async (path: string) => (await app.smartRateLimit.consume({ ...GET, path })).decision?.policy
  const skipped = [
    '/static',
    '/static/a..b.css?v=1',
    '/static/...',
    '/static/..a',
    '/static/%C3%A9%20b?next=/../%252e',
    '/static/a#b',
  ]
  for (const path of skipped) {
    assert.equal(await policyOf(path), undefined, path)
  }
  for (const path of [
    '/static/../login',
    '/static/a/%2e./',
    '/static/..',
    '/static/..?a',
    '/static/..%2Flogin',
    '/static/%5C..;/x',
    '/static/%252e%252e/login',
    '/static/%25252E./login',
    '/static/..%00/login',
    '/static/..%20/login',
    '/static/.\t./login',
    '/static/.%09./login',
    '/static/.%0a%2e/login',
    '/static/.\u0085./login',
    '/static/%c0%ae%c0%ae/login',
    '/static/.%e0%80%ae/login',
    '/static/%u002e%u002e/login',
    '/static/..\\login',
    '/static#/../../login',
    '/static/a.css#/%2e%2e/../login',
  ]) {
    assert.equal(await policyOf(path), 'default', path)
  }
})

test('a user whose fields fail is none, as where the option `user` fails', async (t) => {
  const { app } = await startApp(t, { database: null, plugin: { middleware: { defaultRate: '1/m', key: 'user' } } })
  const failing = { toHexString: () => assert.fail('the host fails') }
  await app.smartRateLimit.consume({ ...GET, user: { id: failing } })
  const { allowed, decision } = await app.smartRateLimit.consume({ ...GET, user: { id: failing } })
  assert.deepEqual([allowed, decision?.client], [false, 'ip:203.0.113.7'])
})

test('a route of the app says nothing about such a request, nor does its cost; `cost` is the cost of the request', async (t) => {
  const { app } = await startApp(t, {
    database: null,
    plugin: { middleware: { defaultRate: '10/m' } },
    routes: (scope) => {
      scope.get('/out', { config: { smartRateLimit: false } }, async () => 'ok')
      scope.get('/dear', { config: { smartRateLimit: { cost: 9 } } }, async () => 'ok')
    },
  })
  const { consume } = app.smartRateLimit
  assert.equal((await consume({ ...GET, path: '/out' })).decision?.count, 1)
  assert.equal((await consume({ ...GET, path: '/dear' })).decision?.count, 2)
  assert.equal((await consume({ ...GET, method: 'get', cost: 8 })).decision?.count, 10)
  const { allowed, headers } = await consume({ ...GET, cost: 11 })
  assert.deepEqual([allowed, headers['retry-after']], [false, undefined], 'it never goes through')
})

test('what refuses is told to the host, counts for a ban, and stops at the ceiling', async (t) => {
  const told: string[] = []
  const database = await openDatabase(t, 'sqlite')
  const started = await start(t, database, {
    onRefused: (request, { client }) => told.push(`${request.method} ${request.url} ${client}`),
    middleware: { ceiling: '5/m', defaultRate: '100/m' },
  })
  await addRules(started, [{ name: 'login', pathPattern: '^/login', rate: '1/m', banAfter: 2, banFor: '1h' }])
  const { consume } = started.app.smartRateLimit
  const statuses: (number | null)[] = []
  for (let count = 0; count < 4; count++) statuses.push((await consume({ ...GET, path: '/login' })).status)
  assert.deepEqual(statuses, [null, 429, 429, 403])
  assert.deepEqual(told[0], `GET /login ip:${IP}`)
  assert.equal(told.length, 3)
  for (let count = 0; count < 5; count++) await consume({ ...GET, ip: '203.0.113.8' })
  assert.equal((await consume({ ...GET, ip: '203.0.113.8' })).decision?.policy, 'ceiling')
})

test('a limit that only counts lets go on, and a store that fails answers as onStoreError says', async (t) => {
  const counting = await startApp(t, { database: null, plugin: { middleware: { defaultRate: '0/m', block: false } } })
  const { allowed, status, decision } = await counting.app.smartRateLimit.consume(GET)
  assert.deepEqual([allowed, status, decision?.allowed], [true, null, false])
  const fail = async () => {
    throw new Error('away')
  }
  const backend = { concurrency: 1, check: fail, reset: fail, close: async () => undefined }
  const denying = await startApp(t, { database: null, plugin: { onStoreError: 'deny', middleware: { backend } } })
  assert.equal((await denying.app.smartRateLimit.consume(GET)).status, 503)
  const off = await startApp(t, { database: null, plugin: { enabled: false } })
  assert.deepEqual(await off.app.smartRateLimit.consume(GET), {
    allowed: true,
    status: null,
    headers: {},
    body: null,
    decision: null,
    left_out: [],
  })
})

test('what cannot be a request is refused, by the name of the field, and counts nothing', async (t) => {
  const { app } = await startApp(t, { database: null })
  const wrong: [unknown, RegExp][] = [
    [undefined, /^The request is undefined: give an object with method, path and ip$/],
    [[], /^The request is \[\]/],
    [{}, /^Option "method" is missing: give a method such as GET$/],
    [{ ...GET, method: 'FETCH' }, /^Option "method" is "FETCH"/],
    [{ ...GET, path: undefined }, /^Option "path" is missing: give a path such as \/login$/],
    [{ ...GET, path: 'login' }, /^Option "path" is "login"/],
    [{ ...GET, path: '/a\0' }, /^Option "path" is /],
    [{ ...GET, ip: undefined }, /^Option "ip" is missing: give an address such as 203\.0\.113\.7$/],
    [{ ...GET, ip: 'localhost' }, /^Option "ip" is "localhost"/],
    [{ ...GET, ip: '' }, /^Option "ip" is ""/],
    [{ ...GET, user: true }, /^Option "user" is true/],
    [{ ...GET, headers: 'host: x' }, /^Option "headers" is "host: x"/],
    [{ ...GET, headers: new Headers({ host: 'x' }) }, /^Option "headers" is /],
    [
      { ...GET, headers: { authorization: 7 } },
      /^Option "headers" is wrong at "authorization": give a text, or a list of texts$/,
    ],
    [{ ...GET, headers: { 'a b': 'x' } }, /^Option "headers" is wrong at "a b"/],
    [{ ...GET, headers: { cookie: ['a=b', 'c\nd'] } }, /^Option "headers" is wrong at "cookie"/],
    [{ ...GET, cost: 0 }, /^Option "cost" is 0: give an integer, 1 to 2147483647$/],
    [{ ...GET, cost: 1.5 }, /^Option "cost" is 1\.5/],
    [{ ...GET, url: '/' }, /^Option "url" is not one of a request: give method, path, ip, user, headers, cost$/],
  ]
  for (const [options, message] of wrong) {
    const consumed: Promise<unknown> = Reflect.apply(app.smartRateLimit.consume, undefined, [options])
    await assert.rejects(
      consumed,
      (error: Error) => error instanceof InvalidSettingError && message.test(error.message),
    )
  }
  assert.equal((await app.smartRateLimit.consume(GET)).decision?.count, 1)
})

test('where the limit without a rule counts responses or what runs at a time, it says that it cannot', async (t) => {
  for (const [setting, middleware] of [
    ['counts', { counts: '4xx' }],
    ['algorithm', { algorithm: 'concurrency', defaultRate: '5/m' }],
  ] as const) {
    const { app } = await startApp(t, { database: null, plugin: { middleware } })
    await assert.rejects(app.smartRateLimit.consume(GET), new RegExp(`Setting "middleware.${setting}" counts`))
  }
})

test('a host that answers refusals itself has no say: no response is its own', async (t) => {
  const { app } = await startApp(t, {
    database: null,
    plugin: { middleware: { defaultRate: '0/m' } },
    before: (scope) =>
      void scope.setErrorHandler<RefusalError>((_error, _request, reply) => reply.code(418).send('teapot')),
  })
  const { status, body } = await app.smartRateLimit.consume(GET)
  assert.deepEqual([status, JSON.parse(body ?? '').code], [429, 'FST_RATE_LIMIT_EXCEEDED'])
})
