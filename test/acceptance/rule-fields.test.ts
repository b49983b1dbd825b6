/** What a request costs by its rule, when a rule is in force, and how it refuses. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { FastifyInstance } from 'fastify'
import { MINUTE_MS, SECOND_MS } from '../../src/ground/time/clock.js'
import type { RateLimitOptions } from '../../src/index.js'
import { openDatabase, startApp, WARN } from '../support/build-app.js'
import { fakeClock } from '../support/clock.js'
import { forAnyDatabase, type Provider } from '../support/databases.js'
import { long } from '../support/long.js'
import { openRedis, redisMissing } from '../support/redis.js'
import { refusalOf } from '../support/refusal.js'

const PROBLEM = { headers: { accept: 'application/problem+json' } }
const SEARCH = { name: 'search', pathPattern: '^/search', rate: '30/m' }
/** Whole minutes, on which fixed windows begin. */
const NOW_MS = fakeClock().now()

forAnyDatabase((provider) => {
  for (const backend of ['database', 'memory'] as const) {
    test(`an expensive search uses as much of the limit as its rule says, counters in ${backend}`, async (t) => {
      const { rules, request, statuses, app } = await start(t, provider, { middleware: { backend } })
      await rules.create({ data: { ...SEARCH, cost: 10 } })

      const { headers } = await request('/search?q=x')
      assert.deepEqual([headers['x-ratelimit-limit'], headers['x-ratelimit-remaining']], ['30', '20'])
      assert.deepEqual(await statuses(3, '/search'), [200, 200, 429])
      assert.equal((await request('/search')).headers['retry-after'], '60')
      assert.deepEqual(await statuses(2, '/'), [200, 200])
      assert.deepEqual(
        (await app.smartRateLimit.rules.active()).map(({ name, cost }) => [name, cost]),
        [['search', 10]],
      )
    })
  }

  test('the cost of the rule counts times that of the route, and what code asks for; an override has its own rate', async (t) => {
    const { rules, overrides, request, app, events } = await start(t, provider, { logEvents: true })
    await rules.create({ data: { ...SEARCH, rate: '100/m', cost: 10, algorithm: 'token_bucket' } })

    assert.equal((await request('/search/deep')).headers['x-ratelimit-remaining'], '70')
    assert.equal((await request('/search/check?cost=2')).headers['x-remaining'], '50')
    await overrides.create({ data: { client: 'ip:127.0.0.1', effect: '100/m' } })
    assert.equal((await request('/search/deep')).headers['x-ratelimit-remaining'], '97')
    await app.smartRateLimit.events.flush()
    assert.deepEqual(
      (await events()).map(({ policy, count }) => [policy, count]),
      [
        ['search', 30],
        ['override', 3],
      ],
    )
  })

  test('no request costs more than 2147483647: the product is refused, and overflows nothing', long(), async (t) => {
    for (const backend of ['database', 'memory'] as const) {
      for (const algorithm of ['fixed_window', 'sliding_window', 'token_bucket', 'leaky_bucket']) {
        const { rules, request } = await start(t, provider, { middleware: { backend } })
        await rules.create({ data: { ...SEARCH, rate: '2147483647/h', cost: 1_000_000, algorithm } })
        const { status, headers } = await request('/search/dearest')
        assert.deepEqual([status, headers['x-ratelimit-remaining']], [200, '0'], `${backend} ${algorithm}`)
        assert.equal((await request('/search/dearest')).status, 429)
      }
    }
  })

  test('peek answers for a request that costs what its rule says', async (t) => {
    const { rules, request, statuses } = await start(t, provider)
    await rules.create({ data: { ...SEARCH, rate: '25/m', cost: 10 } })

    assert.deepEqual(await statuses(1, '/search'), [200])
    assert.deepEqual(JSON.parse((await request('/search/peek')).text), [true, 15, 0])
    assert.deepEqual(await statuses(1, '/search'), [200])
    assert.deepEqual(JSON.parse((await request('/search/peek')).text), [false, 5, 60_000])
  })

  test('a cost that the rate never allows is refused with the field, also when the rate is lowered below it', async (t) => {
    const { rules } = await start(t, provider)
    const wrong = await refusalOf(rules.create({ data: { ...SEARCH, cost: 31 } }))
    assert.deepEqual(Object.keys(wrong.errors), ['cost'])
    assert.match(wrong.message, /cost: is 31, more than the rate ever allows: give at most 30/)
    await rules.create({ data: { ...SEARCH, cost: 30 } })
    const lowered = [
      () => rules.update({ where: { name: 'search' }, data: { rate: '29/m' } }),
      () => rules.updateMany({ data: { rate: '29/m' } }),
      () => rules.updateMany({ data: { cost: { increment: 1 } } }),
    ]
    for (const attempt of lowered) assert.deepEqual(Object.keys((await refusalOf(attempt())).errors), ['cost'])
    await rules.update({ where: { name: 'search' }, data: { rate: '0/m' } })
  })

  test('a sale day begins and ends at the very millisecond, without anything being read, in a rule of its own', async (t) => {
    const { rules, clock, limitOf, app, database, log } = await start(t, provider)
    await rules.create({ data: { name: 'usual', pathPattern: '^/shop', rate: '50/m' } })
    await rules.create({
      data: {
        name: 'sale',
        pathPattern: '^/shop',
        rate: '5/m',
        priority: 9,
        startsAt: new Date(NOW_MS + MINUTE_MS),
        endsAt: new Date(NOW_MS + 2 * MINUTE_MS).toISOString(),
      },
    })
    const active = async () => (await app.smartRateLimit.rules.active()).map(({ name }) => name)
    assert.equal(await limitOf('/shop'), '50')
    assert.deepEqual(await active(), ['usual'])
    const { table } = database.database.dialect
    await database.database.execute(`ALTER TABLE ${table('rate_limit_rule')} RENAME TO away`)

    for (const [afterMs, limit] of [
      [MINUTE_MS - 1, '50'],
      [1, '5'],
      [MINUTE_MS - 1, '5'],
      [1, '50'],
      [-1, '5'],
      [-MINUTE_MS, '50'],
    ] as const) {
      clock.advance(afterMs)
      assert.equal(await limitOf('/shop'), limit, `after ${afterMs}`)
    }
    clock.advance(1)
    assert.deepEqual(await active(), ['sale', 'usual'])
    assert.equal(log.filter(({ msg }) => msg.includes('cannot be read')).length, 1)
  })

  test('every process begins a rule on time by its own clock', async (t) => {
    const { rules, database, limitOf } = await start(t, provider)
    await rules.create({
      data: { name: 'sale', pathPattern: '^/', rate: '5/m', startsAt: new Date(NOW_MS + SECOND_MS) },
    })
    const late = await startApp(t, {
      database,
      clock: fakeClock(NOW_MS + SECOND_MS),
      plugin: { useDynamicRules: true },
    })
    assert.equal(await limitOf('/'), '1000')
    assert.equal((await late.request('/')).headers['x-ratelimit-limit'], '5')
  })

  test('a rule that would end before it starts is refused with the field, whichever of the two is written', async (t) => {
    const { rules, history } = await start(t, provider)
    const startsAt = new Date(NOW_MS)
    const { errors } = await refusalOf(rules.create({ data: { ...SEARCH, startsAt, endsAt: startsAt } }))
    assert.deepEqual(errors, { endsAt: 'is not after startsAt: give a later moment, or null for no end' })
    await rules.create({ data: { ...SEARCH, startsAt, endsAt: new Date(NOW_MS + 1) } })
    for (const data of [
      { endsAt: startsAt },
      { startsAt: new Date(NOW_MS + 1) },
      { startsAt: '2030-01-01T00:00:00Z' },
    ]) {
      const wrong = await refusalOf(rules.update({ where: { name: 'search' }, data }))
      assert.deepEqual(Object.keys(wrong.errors), ['endsAt'])
    }
    await rules.update({ where: { name: 'search' }, data: { startsAt: null, cost: 2, refusalMessage: 'no' } })
    const [change] = await history()
    assert.deepEqual([change?.before?.startsAt, change?.before?.cost, change?.after?.startsAt], [NOW_MS, 1, null])
  })

  test('reverting gives a rule its cost, its time and its answer of before', async (t) => {
    const { rules, history, app } = await start(t, provider)
    const before = { cost: 3, startsAt: new Date(NOW_MS), refusalStatus: 503, refusalMessage: 'wait' }
    await rules.create({ data: { ...SEARCH, ...before } })
    await rules.update({
      where: { name: 'search' },
      data: { cost: 1, startsAt: null, refusalStatus: 429, refusalMessage: '' },
    })
    const [change] = await history()
    await app.smartRateLimit.rules.revert(change?.id ?? 0)
    const { cost, startsAt, refusalStatus, refusalMessage } = await rules.findUniqueOrThrow({
      where: { name: 'search' },
    })
    assert.deepEqual({ cost, startsAt, refusalStatus, refusalMessage }, before)
  })

  test('a rule refuses with its own status and message; code, Retry-After and headers stay', async (t) => {
    const { rules, request, clock } = await start(t, provider)
    await rules.create({
      data: {
        ...SEARCH,
        rate: '1/m',
        refusalStatus: 503,
        refusalMessage: 'Busy: {seconds} s, in words {seconds} seconds $& {minutes}',
      },
    })
    await request('/search')
    clock.advance(48 * SECOND_MS)

    const { status, headers, text } = await request('/search')
    assert.equal(status, 503)
    assert.deepEqual([headers['retry-after'], headers['x-ratelimit-remaining']], ['12', '0'])
    const message = 'Busy: 12 s, in words 12 seconds $& {minutes}'
    const code = 'FST_RATE_LIMIT_EXCEEDED'
    assert.deepEqual(JSON.parse(text), { statusCode: 503, code, error: 'Service Unavailable', message })
    assert.deepEqual(JSON.parse((await request('/search', PROBLEM)).text), {
      type: 'https://iana.org/assignments/http-problem-types#quota-exceeded',
      title: 'Service Unavailable',
      status: 503,
      detail: message,
      code,
      'violated-policies': ['search'],
    })
    await rules.update({ where: { name: 'search' }, data: { rate: '0/m' } })
    const without = await request('/search')
    assert.equal(without.headers['retry-after'], undefined)
    assert.match(without.text, /Busy: 0 s, in words 0 seconds/)
    await rules.update({ where: { name: 'search' }, data: { refusalStatus: 499, refusalMessage: '' } })
    const nameless = await request('/search')
    assert.deepEqual([nameless.status, nameless.headers['content-type']], [499, headers['content-type']])
    const plain = { statusCode: 499, code, error: 'Client Error', message: 'Rate limit exceeded' }
    assert.deepEqual(JSON.parse(nameless.text), plain)
    const problem = await request('/search', PROBLEM)
    assert.deepEqual([problem.status, JSON.parse(problem.text).title], [499, 'Client Error'])
    await rules.update({ where: { name: 'search' }, data: { refusalStatus: 599 } })
    assert.equal(JSON.parse((await request('/search')).text).error, 'Server Error')
  })

  test('the own answer of a rule is for those over its limit, not for those who are denied', async (t) => {
    const { rules, overrides, request } = await start(t, provider)
    await rules.create({ data: { ...SEARCH, rate: '0/m', refusalStatus: 404, refusalMessage: 'gone' } })
    await overrides.create({ data: { client: 'ip:203.0.113.7', effect: 'deny' } })
    assert.equal((await request('/search')).status, 404)
    const { status, text } = await request('/search', { from: '203.0.113.7' })
    assert.deepEqual([status, JSON.parse(text).message], [403, 'Access denied'])
  })

  test('rows that raw SQL made wrong are left out, and logged once each', async (t) => {
    const { rules, run, clock, limitOf, log } = await start(t, provider)
    for (const name of ['cost', 'dear', 'over', 'status', 'slash', 'good']) {
      await rules.create({ data: { name, pathPattern: `^/${name}`, rate: '5/m' } })
    }
    for (const assignment of [
      `cost = 0 WHERE name = 'cost'`,
      `cost = 6 WHERE name = 'dear'`,
      `starts_at = ends_at, ends_at = starts_at WHERE name = 'good'`,
      `ends_at = '2026-01-01 00:00:00', starts_at = '2026-01-02 00:00:00' WHERE name = 'over'`,
      `refusal_status = 200 WHERE name = 'status'`,
      `name = '/slash' WHERE name = 'slash'`,
    ]) {
      await run(`UPDATE rate_limit_rule SET ${assignment}`)
    }
    for (let round = 0; round < 3; round++) {
      clock.advance(61_000)
      for (const path of ['/cost', '/dear', '/over', '/status', '/slash']) assert.equal(await limitOf(path), '1000')
      assert.equal(await limitOf('/good'), '5')
    }
    const warned = log.filter(({ level }) => level === WARN).map((line) => String(Reflect.get(line, 'rule')))
    assert.deepEqual(warned.sort(), ['/slash', 'cost', 'dear', 'over', 'status'])
  })
})

test('a rule with a cost counts on Redis, too', { skip: redisMissing }, async (t) => {
  for (const algorithm of ['fixed_window', 'sliding_window', 'token_bucket', 'leaky_bucket']) {
    const { url, namespace } = openRedis(t)
    const { rules, statuses, request } = await start(t, 'sqlite', {
      redis: url,
      namespace,
      middleware: { backend: 'redis' },
    })
    await rules.create({ data: { ...SEARCH, cost: 10, algorithm } })
    assert.deepEqual(await statuses(3, '/search'), [200, 200, 200], algorithm)
    assert.equal((await request('/search')).status, 429)
  }
})

async function start(t: TestContext, provider: Provider, plugin: RateLimitOptions = {}) {
  const database = await openDatabase(t, provider)
  const started = await startApp(t, {
    database,
    plugin: { useDynamicRules: true, ...plugin, middleware: { defaultRate: '1000/m', ...plugin.middleware } },
    routes: declareRoutes,
  })
  const { client } = started.app.smartRateLimit
  const { table } = database.database.dialect
  return {
    ...started,
    database,
    rules: client.rateLimitRule,
    overrides: client.rateLimitOverride,
    history: () => started.app.smartRateLimit.rules.history(),
    events: () => client.rateLimitEvent.findMany({ orderBy: { id: 'asc' } }),
    run: (sql: string) => database.database.execute(sql.replace(/\brate_limit_\w+/g, (name) => table(name))),
    limitOf: async (path: string) => (await started.request(path)).headers['x-ratelimit-limit'],
  }
}

function declareRoutes(app: FastifyInstance): void {
  const { check, peek } = app.smartRateLimit
  const isLeftAlone = { config: { smartRateLimit: false } } as const
  app.get('/*', async () => 'ok')
  app.get('/search/deep', { config: { smartRateLimit: { cost: 3 } } }, async () => 'ok')
  app.get('/search/dearest', { config: { smartRateLimit: { cost: 1_000_000 } } }, async () => 'ok')
  app.get('/search/check', isLeftAlone, async (request, reply) => {
    reply.header('x-remaining', (await check(request, { cost: 2 }))?.remaining)
  })
  app.get('/search/peek', isLeftAlone, async (request) => {
    const decision = await peek(request)
    return [decision?.allowed, decision?.remaining, decision?.retryAfterMs]
  })
}
