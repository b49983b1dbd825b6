/** A rate has several windows, or a calendar month, wherever a rate can stand. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { HOUR_MS, SECOND_MS } from '../../src/ground/time/clock.js'
import type { RateLimitOptions } from '../../src/index.js'
import { okRoutes, openDatabase, startApp } from '../support/build-app.js'
import { fakeClock } from '../support/clock.js'
import { forEachDatabase } from '../support/databases.js'
import { openRedis, redisMissing } from '../support/redis.js'

/** Noon, on the second. */
const NOON_MS = Date.UTC(2026, 10, 22, 12)

forEachDatabase((provider) => {
  test('a burst limit and an hourly one hold together, and headers and events tell of the one that refuses', async (t) => {
    const database = await openDatabase(t, provider)
    const plugin: RateLimitOptions = { useDynamicRules: true, logEvents: true, headers: 'both' }
    const { app, clock, request } = await startApp(t, { database, clock: fakeClock(NOON_MS), plugin })
    await app.smartRateLimit.client.rateLimitRule.create({
      data: { name: 'api', pathPattern: '^/api/', rate: '2/s, 3/h', algorithm: 'sliding_window' },
    })
    const first = await request('/api/x')
    assert.deepEqual([first.status, first.headers['x-ratelimit-limit']], [200, '2'], 'the smaller share is left of 2/s')
    assert.equal(first.headers['ratelimit-policy'], '"api:s";q=2;w=1, "api:h";q=3;w=3600')
    assert.equal(first.headers.ratelimit, '"api:s";r=1;t=2, "api:h";r=2;t=7200;fsr-limit=2;fsr-remaining=1;fsr-reset=2')
    await request('/api/x')
    const burst = await request('/api/x')
    assert.deepEqual([burst.status, burst.headers['x-ratelimit-limit'], burst.headers['retry-after']], [429, '2', '2'])
    clock.advance(5 * SECOND_MS)
    assert.equal((await request('/api/x')).status, 200, 'the refused request cost the hour nothing')
    const hourly = await request('/api/x')
    assert.deepEqual([hourly.status, hourly.headers['x-ratelimit-limit']], [429, '3'])
    assert.ok(Number(hourly.headers['retry-after']) > 3_000)
    assert.match(String(hourly.headers.ratelimit), /^"api:s";r=1;t=2, "api:h";r=0;t=\d+;fsr-limit=3;/)

    await app.smartRateLimit.events.flush()
    const events = await database.client.rateLimitEvent.findMany({ orderBy: { id: 'asc' } })
    assert.deepEqual(
      events.map(({ allowed, count, limit }) => [allowed, count, limit]),
      [
        [true, 1, 2],
        [true, 2, 2],
        [false, 3, 2],
        [true, 3, 3],
        [false, 4, 3],
      ],
    )
  })

  test('peek answers for all windows, whichever has the smallest share left', async (t) => {
    const { app, clock, request } = await startApp(t, {
      database: provider,
      clock: fakeClock(NOON_MS),
      plugin: { useDynamicRules: true },
      routes(app) {
        okRoutes(app)
        app.get('/api/peek', { config: { smartRateLimit: false } }, async (asked) => app.smartRateLimit.peek(asked))
      },
    })
    await app.smartRateLimit.client.rateLimitRule.create({
      data: { name: 'api', pathPattern: '^/api/', rate: '9/s, 20/h', cost: 5 },
    })
    for (let times = 0; times < 3; times++) {
      clock.advance(SECOND_MS)
      assert.equal((await request('/api/x')).status, 200)
    }
    const { allowed, limit, retryAfterMs } = JSON.parse((await request('/api/peek')).text)
    assert.deepEqual([allowed, limit, retryAfterMs], [false, 9, SECOND_MS])
    assert.equal((await request('/api/x')).status, 429)
  })

  test('a rule, an override, the default, a prefix and a route have several windows', async (t) => {
    const rate = '5/s, 2/h'
    const { app, request, statuses } = await startApp(t, {
      database: provider,
      clock: fakeClock(NOON_MS),
      plugin: { useDynamicRules: true, middleware: { defaultRate: rate, rateLimits: { '/auth/': rate } } },
      routes(app) {
        okRoutes(app)
        app.get('/own', { onRequest: app.smartRateLimit.limit({ rate }) }, async () => 'own')
      },
    })
    const { client } = app.smartRateLimit
    await client.rateLimitRule.create({ data: { name: 'api', pathPattern: '^/api/', rate } })
    await client.rateLimitOverride.create({ data: { client: 'ip:192.0.2.9', effect: '5/s, 1/h' } })
    assert.deepEqual(await statuses(3, '/own', { from: '192.0.2.1' }), [200, 200, 429], 'both limits count there')
    for (const path of ['/', '/auth/x', '/api/x']) assert.deepEqual(await statuses(3, path), [200, 200, 429], path)
    assert.equal((await request('/', { from: '192.0.2.9' })).status, 200)
    assert.equal((await request('/', { from: '192.0.2.9' })).status, 429)
  })

  test('a window is added to a rule and removed: the periods that stay keep what was used', async (t) => {
    const database = await openDatabase(t, provider)
    const { app, statuses } = await startApp(t, {
      database,
      clock: fakeClock(NOON_MS),
      plugin: { useDynamicRules: true },
    })
    const rules = app.smartRateLimit.client.rateLimitRule
    await rules.create({ data: { name: 'api', pathPattern: '^/api/', rate: '4/h' } })
    assert.deepEqual(await statuses(2, '/api/x'), [200, 200])
    await rules.update({ where: { name: 'api' }, data: { rate: '9/m, 4/h' } })
    assert.deepEqual(await statuses(1, '/api/x'), [200])
    await rules.update({ where: { name: 'api' }, data: { rate: '4/h' } })
    assert.deepEqual(await statuses(2, '/api/x'), [200, 429])
    const [row] = await database.client.rateLimitCounter.findMany()
    assert.deepEqual([row?.count, row?.windows], [5, null])
  })

  test('a month ends with the calendar, and its window in the headers is as long as it is', async (t) => {
    const database = await openDatabase(t, provider)
    const { clock, request, statuses } = await startApp(t, {
      database,
      clock: fakeClock(Date.UTC(2028, 1, 29, 23)),
      plugin: { headers: 'both', middleware: { defaultRate: '2/month' } },
    })
    const { headers } = await request('/')
    assert.equal(headers['ratelimit-policy'], `"default";q=2;w=${29 * 24 * 3600}`)
    assert.match(String(headers.ratelimit), /^"default";r=1;t=3600;/)
    assert.deepEqual(await statuses(2, '/'), [200, 429])
    const [row] = await database.client.rateLimitCounter.findMany()
    assert.deepEqual(
      [row?.windowStart.toISOString(), row?.windowEnd.toISOString()],
      ['2028-02-01T00:00:00.000Z', '2028-03-01T00:00:00.000Z'],
    )
    clock.advance(HOUR_MS)
    const march = await request('/')
    assert.deepEqual([march.status, march.headers['ratelimit-policy']], [200, `"default";q=2;w=${31 * 24 * 3600}`])
  })

  test('a month with another algorithm is refused when it is saved, also by an update of the other field', async (t) => {
    const database = await openDatabase(t, provider)
    const { client } = database
    const message = /The window "5\/month" is a calendar month, which goes with the algorithm fixed_window only/
    const data = { name: 'api', pathPattern: '^/', rate: '5/month' }
    await assert.rejects(client.rateLimitRule.create({ data: { ...data, algorithm: 'token_bucket' } }), message)
    await client.rateLimitRule.create({ data })
    const algorithm = 'sliding_window'
    await assert.rejects(client.rateLimitRule.update({ where: { name: 'api' }, data: { algorithm } }), message)
    await assert.rejects(client.rateLimitRule.updateMany({ data: { algorithm } }), message)
    await assert.rejects(
      client.rateLimitOverride.create({ data: { client: 'user:7', effect: '5/month', algorithm } }),
      message,
    )
    await client.rateLimitRule.update({ where: { name: 'api' }, data: { algorithm, rate: '5/30d' } })
  })

  test('a row that raw SQL made wrong is left out, and the reason is logged', async (t) => {
    const database = await openDatabase(t, provider)
    await database.client.rateLimitRule.create({ data: { name: 'api', pathPattern: '^/', rate: '0/month' } })
    await database.client.$executeRawUnsafe(
      `UPDATE ${provider === 'sqlite' ? '' : `"${database.schema}".`}"rate_limit_rule" SET algorithm = 'token_bucket'`,
    )
    const { log, request } = await startApp(t, { database, plugin: { useDynamicRules: true } })
    assert.equal((await request('/')).status, 200)
    assert.match(JSON.stringify(log), /calendar month, which goes with the algorithm fixed_window only/)
  })
})

describe('on Redis', { skip: redisMissing }, () => {
  test('a burst limit and an hourly one hold together, in one key', async (t) => {
    const { url, namespace, keys } = openRedis(t)
    const { clock, statuses } = await startApp(t, {
      database: null,
      clock: fakeClock(Date.now()),
      plugin: {
        redis: url,
        namespace,
        middleware: { backend: 'redis', defaultRate: '2/s, 3/h', algorithm: 'token_bucket' },
      },
    })
    assert.deepEqual(await statuses(3, '/'), [200, 200, 429])
    clock.advance(5 * SECOND_MS)
    assert.deepEqual(await statuses(2, '/'), [200, 429])
    assert.equal((await keys()).filter((key) => key.startsWith(`fsr:${namespace}:t:`)).length, 1)
  })
})

test('a rate with a month that the algorithm cannot count is refused at start, by the setting that has it', async (t) => {
  const algorithm = 'token_bucket'
  for (const [middleware, setting] of [
    [{ algorithm, defaultRate: '5/month' }, 'middleware.defaultRate'],
    [{ algorithm, rateLimits: { '/a/': '5/s, 5/mo' } }, 'middleware.rateLimits["/a/"]'],
  ] as const) {
    await assert.rejects(startApp(t, { database: null, plugin: { middleware } }), (error: Error) => {
      assert.ok(error.message.includes(`Setting "${setting}"`), error.message)
      assert.match(error.message, /calendar month/)
      return true
    })
  }
})

test('a function answers several windows; in another order they are the same counter', async (t) => {
  const { request } = await startApp(t, {
    database: null,
    clock: fakeClock(NOON_MS),
    plugin: {
      middleware: {
        defaultRate: ({ headers }) => (headers['x-turned'] === undefined ? '5/s, 2/h' : '2/h, 5/s'),
      },
    },
  })
  assert.equal((await request('/')).status, 200)
  assert.equal((await request('/', { headers: { 'x-turned': '1' } })).status, 200)
  assert.equal((await request('/')).status, 429)
})

test('a ceiling has several windows', async (t) => {
  const { statuses } = await startApp(t, {
    database: null,
    clock: fakeClock(NOON_MS),
    plugin: { middleware: { ceiling: '5/s, 2/month' } },
  })
  assert.deepEqual(await statuses(3, '/'), [200, 200, 429])
})

test('a refusal names the windows that refuse, also where another one has the same limit and the same end', async (t) => {
  for (const early of [2, 0]) {
    const { clock, request, statuses } = await startApp(t, {
      database: null,
      plugin: { middleware: { defaultRate: '2/m, 2/h' } },
    })
    clock.advance(3_600_000 - (clock.now() % 3_600_000))
    await statuses(early, '/')
    clock.advance(3_600_000 - 30_000)
    // The hour is used up before its last minute, or both within it.
    await statuses(2 - early, '/')
    const { status, text, headers } = await request('/', { headers: { accept: 'application/problem+json' } })
    assert.deepEqual([status, headers['retry-after']], [429, '30'])
    assert.deepEqual(JSON.parse(text)['violated-policies'], early === 2 ? ['default:h'] : ['default:m', 'default:h'])
  }
})
