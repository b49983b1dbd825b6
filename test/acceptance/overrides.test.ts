/** An operator reacts to single clients: refuses them, lets them through, or holds them to a rate of their own. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { isDeepStrictEqual } from 'node:util'
import type { FastifyRequest } from 'fastify'
import { CooperativeYield } from '../../src/ground/time/cooperative-yield.js'
import type { RateLimitOptions } from '../../src/index.js'
import { ERROR, openDatabase, startApp, WARN } from '../support/build-app.js'
import { fakeClock } from '../support/clock.js'
import { forAnyDatabase, type Provider, postgresqlMissing, type TestDatabase } from '../support/databases.js'
import { eventually } from '../support/eventually.js'
import { long } from '../support/long.js'

const ALICE = '203.0.113.7'
const BOB = '203.0.113.8'
const ACCESS_DENIED = {
  statusCode: 403,
  code: 'FST_RATE_LIMIT_DENIED',
  error: 'Forbidden',
  message: 'Access denied',
}

test('a row that REPLACE put in the place of another is obeyed alone, however long ago that was made', async (t) => {
  const { database, overrides, clock, statuses } = await startWithOverrides(t, 'sqlite')
  await overrides.create({ data: { client: `ip:${ALICE}`, effect: 'deny' } })
  await overrides.create({ data: { client: `ip:${ALICE}`, effect: 'deny', pathPattern: '^/admin/' } })
  await overrides.createMany({
    data: Array.from({ length: 300 }, (_, place) => ({ client: `user:${place}`, effect: 'deny' })),
  })
  assert.deepEqual(await statuses(1, '/', { from: ALICE }), [403])
  await database.database.execute(`REPLACE INTO rate_limit_override (client, effect) VALUES ($1, 'allow')`, [
    `ip:${ALICE}`,
  ])
  clock.advance(2_000)
  assert.deepEqual(await statuses(1, '/', { from: ALICE }), [200])
  assert.deepEqual(await statuses(1, '/admin/', { from: ALICE }), [403])
})

test('a transaction is obeyed whole where others that began later ended before it', {
  skip: postgresqlMissing,
}, async (t) => {
  const { client, database, clock, statuses } = await startWithOverrides(t, 'postgresql')
  const rows = Array.from({ length: 300 }, (_, place) => ({
    client: `ip:10.0.${place >> 8}.${place & 255}`,
    effect: 'deny',
  }))
  await client.$transaction(async (transaction) => {
    await transaction.rateLimitOverride.createMany({ data: rows })
    await insertRaw(database, { client: `ip:${ALICE}`, effect: 'deny' })
    clock.advance(2_000)
    assert.deepEqual(await statuses(1, '/', { from: ALICE }), [403])
  })
  for (const from of ['10.0.0.0', '10.0.0.150', '10.0.1.43']) {
    assert.deepEqual(await statuses(1, '/', { from }), [403], from)
  }
})

forAnyDatabase((provider) => {
  test('a refused client gets 403 without Retry-After from the next request on, and is logged by its key', async (t) => {
    const { overrides, request, events } = await startWithOverrides(t, provider, { headers: 'both' })
    assert.equal((await request('/', { from: ALICE })).status, 200)

    await overrides.create({ data: { client: `ip:${ALICE}`, effect: 'deny', note: 'scraper' } })
    const { status, headers, text } = await request('/', { from: ALICE })

    assert.equal(status, 403)
    assert.deepEqual(JSON.parse(text), ACCESS_DENIED)
    const problem = await request('/', { from: ALICE, headers: { accept: 'application/problem+json' } })
    assert.deepEqual(JSON.parse(problem.text), {
      type: 'about:blank',
      title: 'Forbidden',
      status: 403,
      detail: 'Access denied',
      code: 'FST_RATE_LIMIT_DENIED',
    })
    assert.equal(headers['retry-after'], undefined)
    assert.equal(headers['x-ratelimit-limit'], '0')
    assert.equal(headers['ratelimit-policy'], undefined)
    assert.equal((await request('/', { from: BOB })).status, 200)
    const [, event] = await events()
    assert.deepEqual(
      [event?.key, event?.ruleName, event?.allowed, event?.count, event?.limit, event?.clientIp],
      [`ip:${ALICE}`, '', false, 1, 0, ALICE],
    )
  })

  test('a client that is let through is not counted, not logged, and sees no headers; nor does a rule hold', async (t) => {
    const { overrides, client, request, statuses, events } = await startWithOverrides(t, provider, {
      middleware: { defaultRate: '1/h' },
    })
    await client.rateLimitRule.create({ data: { name: 'all', pathPattern: '.', rate: '0/h' } })
    const { id } = await overrides.create({ data: { client: `ip:${ALICE}`, effect: 'allow' } })

    assert.deepEqual(await statuses(3, '/', { from: ALICE }), [200, 200, 200])
    assert.equal((await request('/', { from: ALICE })).headers['x-ratelimit-limit'], undefined)
    assert.deepEqual(await events(), [])
    assert.deepEqual(await statuses(1, '/', { from: BOB }), [429])
    await overrides.delete({ where: { id } })
    assert.deepEqual(await statuses(1, '/', { from: ALICE }), [429])
  })

  test('a rate of its own goes before rules and has a counter of its own, one for each client of a network', async (t) => {
    const { overrides, client, request, statuses, events } = await startWithOverrides(t, provider, {
      headers: 'draft',
      middleware: { defaultRate: '1/h' },
    })
    assert.deepEqual(await statuses(2, '/', { from: ALICE }), [200, 429])
    await client.rateLimitRule.create({ data: { name: 'all', pathPattern: '.', rate: '0/h' } })
    await overrides.create({ data: { client: 'ip:203.0.113.0/24', effect: '2/h' } })

    assert.deepEqual(await statuses(3, '/', { from: ALICE }), [200, 200, 429])
    assert.deepEqual(await statuses(3, '/', { from: BOB }), [200, 200, 429])
    assert.equal((await request('/', { from: BOB })).headers['ratelimit-policy'], '"override";q=2;w=3600')
    const keys = new Set((await events()).map(({ key, ruleName }) => `${key} of ${ruleName}`))
    assert.deepEqual([...keys].sort(), [`ip:${ALICE} of `, `ip:${BOB} of `])
  })

  test('update, upsert, updateMany, deleteMany and createMany are obeyed by the very next request', async (t) => {
    const { overrides, limitOf } = await startWithOverrides(t, provider)
    const data = { client: `ip:${ALICE}`, effect: '2/h' }
    const where = { client_pathPattern: { client: `ip:${ALICE}`, pathPattern: '' } }

    await overrides.createMany({ data: [data] })
    assert.equal(await limitOf(), '2')
    await overrides.update({ where, data: { effect: '3/h' } })
    assert.equal(await limitOf(), '3')
    await overrides.upsert({ where, create: data, update: { effect: '4/h', algorithm: 'token_bucket' } })
    assert.equal(await limitOf(), '4')
    await overrides.updateMany({ data: { client: 'ip:203.0.113.0/24' } })
    assert.equal(await limitOf(), '4')
    await overrides.updateMany({ data: { client: `ip:${BOB}` } })
    assert.equal(await limitOf(), '1000')
    await overrides.deleteMany()
    assert.equal(await limitOf(BOB), '1000')
  })

  test('an override inside a transaction holds after its commit, and never after a rollback', async (t) => {
    const { overrides, client, limitOf } = await startWithOverrides(t, provider, { middleware: { backend: 'memory' } })
    await client.$transaction(async (transaction) => {
      await transaction.rateLimitOverride.create({ data: { client: `ip:${ALICE}`, effect: '2/h' } })
      assert.equal(await limitOf(), '1000')
    })
    assert.equal(await limitOf(), '2')
    await assert.rejects(
      client.$transaction(async (transaction) => {
        await transaction.rateLimitOverride.updateMany({ data: { effect: '3/h' } })
        throw new Error('changed my mind')
      }),
      /changed my mind/,
    )
    assert.equal(await limitOf(), '2')
    assert.equal(await overrides.count(), 1)
  })

  test('the deny list and refusals go before the allow list and passes, these before rates', async (t) => {
    const { overrides, statuses, limitOf } = await startWithOverrides(t, provider, {
      middleware: { allowList: ['203.0.113.0/24'], denyList: ['198.51.100.0/24'] },
    })
    assert.equal(await limitOf(ALICE), undefined)
    await overrides.createMany({
      data: [
        { client: `ip:${ALICE}`, effect: 'deny' },
        { client: `ip:${BOB}`, effect: '1/h' },
        { client: 'ip:198.51.100.1', effect: 'allow' },
        { client: 'ip:192.0.2.0/24', effect: 'allow' },
        { client: 'ip:192.0.2.1', effect: '0/h' },
        { client: 'ip:192.0.2.0/25', effect: 'deny', pathPattern: '^/admin' },
      ],
    })

    assert.deepEqual(await statuses(1, '/', { from: ALICE }), [403])
    assert.deepEqual(await statuses(2, '/', { from: BOB }), [200, 200])
    assert.deepEqual(await statuses(1, '/', { from: '198.51.100.1' }), [403])
    assert.deepEqual(await statuses(1, '/', { from: '192.0.2.1' }), [200])
    assert.deepEqual(await statuses(1, '/admin/x', { from: '192.0.2.1' }), [403])
  })

  test('it ends at the very millisecond, without anything being read again', async (t) => {
    const { overrides, database, clock, statuses } = await startWithOverrides(t, provider)
    const expiresAt = new Date(clock.now() + 1_500)
    await overrides.create({ data: { client: `ip:${ALICE}`, effect: 'deny', expiresAt } })
    assert.deepEqual(await statuses(1, '/', { from: ALICE }), [403])
    await database.database.execute(`ALTER TABLE ${database.database.dialect.table('rate_limit_override')} RENAME TO o`)

    clock.advance(1_499)
    assert.deepEqual(await statuses(1, '/', { from: ALICE }), [403])
    clock.advance(1)
    assert.deepEqual(await statuses(1, '/', { from: ALICE }), [200])
  })

  test('a path pattern sees the path as the router does', async (t) => {
    const { overrides, statuses } = await startWithOverrides(t, provider)
    await overrides.createMany({
      data: [
        { client: `ip:${ALICE}`, effect: 'deny', pathPattern: '^/early$' },
        { client: `ip:${ALICE}`, effect: '1/h', pathPattern: '^/reports/' },
      ],
    })

    for (const path of ['/early', '/%65arly', '/early?x=1']) {
      assert.deepEqual(await statuses(1, path, { from: ALICE }), [403], path)
    }
    assert.deepEqual(await statuses(1, '/Early', { from: ALICE }), [200])
    assert.deepEqual(await statuses(2, '/reports/1', { from: ALICE }), [200, 429])
    assert.deepEqual(await statuses(2, '/other', { from: ALICE }), [200, 200])
  })

  test('a user is known wherever it comes from, and anonymous requests are not', async (t) => {
    const { overrides, statuses, events } = await startWithOverrides(t, provider, { user: userOfHeader })
    await overrides.createMany({
      data: [
        { client: 'user:7', effect: 'deny' },
        { client: 'user:8', effect: '1/h' },
      ],
    })
    const as = (id: string, from = ALICE) => ({ from, headers: { authorization: id } })

    assert.deepEqual(await statuses(1, '/', as('7')), [403])
    assert.deepEqual(await statuses(1, '/', as('7', BOB)), [403])
    assert.deepEqual(await statuses(1, '/', as('8')), [200])
    assert.deepEqual(await statuses(1, '/', as('8', BOB)), [429])
    assert.deepEqual(await statuses(1, '/', as('9')), [200])
    assert.deepEqual(await statuses(1, '/', { from: ALICE }), [200])
    assert.deepEqual(
      (await events()).map(({ key, userId }) => [key, userId]),
      [
        ['user:7', 7],
        ['user:7', 7],
        ['user:8', 8],
        ['user:8', 8],
        [`ip:${ALICE}`, 9],
        [`ip:${ALICE}`, null],
      ],
    )
  })

  test('an override by user without a source of users is warned about once', async (t) => {
    const { overrides, statuses, log } = await startWithOverrides(t, provider)
    await overrides.create({ data: { client: 'user:7', effect: 'deny' } })
    assert.deepEqual(await statuses(3, '/'), [200, 200, 200])
    assert.deepEqual(
      log.map(({ level, msg }) => [level, /no request has a user/.test(msg)]),
      [[WARN, true]],
    )
  })

  test('one IPv6 address is refused, not the network it is counted with; an IPv4-mapped client is the IPv4 one', async (t) => {
    const { overrides, statuses, events } = await startWithOverrides(t, provider)
    await overrides.createMany({
      data: [
        { client: 'ip:2001:DB8:1:2:0:0:0:5', effect: 'deny' },
        { client: 'ip:::ffff:203.0.113.7', effect: 'deny' },
      ],
    })

    assert.deepEqual(await statuses(1, '/', { from: '2001:db8:1:2::5' }), [403])
    assert.deepEqual(await statuses(1, '/', { from: '2001:db8:1:2::6' }), [200])
    assert.deepEqual(await statuses(1, '/', { from: ALICE }), [403])
    assert.deepEqual(await statuses(1, '/', { from: `::ffff:${ALICE}` }), [403])
    assert.deepEqual(
      (await events()).map(({ key }) => key),
      ['ip:2001:db8:1:2::/64', 'ip:2001:db8:1:2::/64', `ip:${ALICE}`, `ip:${ALICE}`],
    )
  })

  test('a network of length 0 holds every address of its family', async (t) => {
    const { overrides, statuses } = await startWithOverrides(t, provider)
    await overrides.create({ data: { client: 'ip:0.0.0.0/0', effect: 'deny' } })
    assert.deepEqual(await statuses(1, '/', { from: ALICE }), [403])
    assert.deepEqual(await statuses(1, '/', { from: '2001:db8::1' }), [200])
    await overrides.create({ data: { client: 'ip:::/0', effect: 'deny' } })
    assert.deepEqual(await statuses(1, '/', { from: '2001:db8::1' }), [403])
  })

  test('rows that raw SQL made wrong are skipped with one warning each, and take no other override down', async (t) => {
    const { overrides, database, clock, log, statuses } = await startWithOverrides(t, provider)
    await overrides.create({ data: { client: `ip:${ALICE}`, effect: 'deny' } })
    await insertRaw(database, { client: 'ip:10.1.2.3/8', effect: 'deny' })
    await insertRaw(database, { client: '203.0.113.8', effect: 'deny' })
    await insertRaw(database, { client: 'ip:203.0.113.9', effect: 'soon' })
    await insertRaw(database, { client: 'ip:203.0.113.10', effect: 'deny', pathPattern: '(?!x)' })
    await insertRaw(database, { client: 'ip:203.0.113.11', effect: 'deny' })

    for (let round = 0; round < 3; round++) {
      clock.advance(61_000)
      assert.deepEqual(await statuses(1, '/', { from: ALICE }), [403])
      assert.deepEqual(await statuses(1, '/', { from: BOB }), [200])
      assert.deepEqual(await statuses(1, '/', { from: '203.0.113.11' }), [403])
    }
    const warned = log.filter(({ level }) => level === WARN).map((line) => String(Reflect.get(line, 'override')))
    assert.deepEqual(warned.sort(), ['203.0.113.8', 'ip:10.1.2.3/8', 'ip:203.0.113.10', 'ip:203.0.113.9'])
    assert.equal(log.length, 4)
  })

  test('an edit by raw SQL is obeyed within two seconds, and so is a row that another process removes', async (t) => {
    const { database, clock, statuses } = await startWithOverrides(t, provider)
    assert.deepEqual(await statuses(1, '/', { from: ALICE }), [200])
    await insertRaw(database, { client: `ip:${ALICE}`, effect: 'deny' })
    clock.advance(2_000)
    assert.deepEqual(await statuses(1, '/', { from: ALICE }), [403])
    await database.database.execute(`DELETE FROM ${database.database.dialect.table('rate_limit_override')}`)
    clock.advance(2_000)
    assert.deepEqual(await statuses(1, '/', { from: ALICE }), [200])
  })

  test('more changes at once than are followed one by one are all seen', long(), async (t) => {
    const { app, overrides, statuses } = await startWithOverrides(t, provider)
    assert.deepEqual(await statuses(1, '/', { from: ALICE }), [200])
    const rows = Array.from({ length: 3_000 }, (_, place) => ({
      client: `ip:10.0.${place >> 8}.${place & 255}`,
      effect: 'deny',
    }))
    await overrides.createMany({ data: rows })
    await app.smartRateLimit.rules.reload()

    for (const from of ['10.0.0.0', '10.0.5.5', '10.0.11.183']) {
      assert.deepEqual(await statuses(1, '/', { from }), [403], from)
    }
    assert.deepEqual(await statuses(1, '/', { from: '10.0.11.184' }), [200])
    await overrides.deleteMany()
    await app.smartRateLimit.rules.reload()
    assert.deepEqual(await statuses(1, '/', { from: '10.0.5.5' }), [200])
  })

  test('a request sees all of an import or nothing of it, rules and overrides, however long it takes to be read', async (t) => {
    const { app, statuses, limitOf } = await startWithOverrides(t, provider)
    const seen = async () => [
      ...(await statuses(1, '/', { from: ALICE })),
      ...(await statuses(1, '/', { from: BOB })),
      await limitOf('192.0.2.1'),
    ]
    const before = [200, 200, '1000']
    const after = [403, 403, '7']
    assert.deepEqual(await seen(), before)

    const paused = pauseAlways(t)
    let isRead = false
    const imported = app.smartRateLimit.rules
      .import({
        version: 1,
        rules: [{ name: 'all', pathPattern: '^/', rate: '7/h' }],
        overrides: [ALICE, BOB].map((ip) => ({ client: `ip:${ip}`, effect: 'deny' })),
      })
      .finally(() => {
        isRead = true
      })
    let pausesBefore = 0
    let isInForce = false
    for (;;) {
      await eventually('it is read, or pauses', () => isRead || paused.length > 0)
      if (isRead) break
      const found = await seen()
      isInForce ||= isDeepStrictEqual(found, after)
      if (!isInForce) pausesBefore++
      assert.deepEqual(found, isInForce ? after : before)
      for (const goOn of paused.splice(0)) goOn()
    }
    await imported
    assert.ok(pausesBefore > 2, `${pausesBefore} pauses`)
    assert.deepEqual(await seen(), after)
  })

  test('when the table goes away the last good overrides hold, and one line says so', async (t) => {
    const { overrides, client, database, clock, log, statuses, limitOf } = await startWithOverrides(t, provider)
    await client.rateLimitRule.create({ data: { name: 'all', pathPattern: '.', rate: '9/h' } })
    await overrides.create({ data: { client: `ip:${ALICE}`, effect: 'deny' } })
    assert.deepEqual(await statuses(1, '/', { from: ALICE }), [403])
    const { table } = database.database.dialect
    await database.database.execute(`ALTER TABLE ${table('rate_limit_override')} RENAME TO away`)

    for (let round = 0; round < 3; round++) {
      clock.advance(61_000)
      assert.deepEqual(await statuses(1, '/', { from: ALICE }), [403])
    }
    assert.equal(await limitOf(BOB), '9')
    assert.deepEqual(
      log.map(({ level, msg }) => [level, msg]),
      [[ERROR, 'Rate limit rules and overrides cannot be read: the last good ones stay in force']],
    )
  })

  test('without useDynamicRules there are none', async (t) => {
    const { overrides, statuses } = await startWithOverrides(t, provider, { useDynamicRules: false })
    await overrides.create({ data: { client: 'ip:0.0.0.0/0', effect: 'deny' } })
    assert.deepEqual(await statuses(1, '/', { from: ALICE }), [200])
  })

  test('check and peek follow overrides, and reset forgets their counters too', async (t) => {
    const { app, overrides, statuses } = await startWithOverrides(t, provider)
    await overrides.createMany({
      data: [
        { client: `ip:${ALICE}`, effect: '2/h' },
        { client: `ip:${BOB}`, effect: 'allow' },
        { client: 'ip:192.0.2.0/24', effect: 'deny' },
      ],
    })
    const peek = async (ip: string) => app.smartRateLimit.peek(await requestFrom(ip))

    assert.deepEqual(await statuses(3, '/', { from: ALICE }), [200, 200, 429])
    assert.deepEqual((await peek(ALICE))?.allowed, false)
    await app.smartRateLimit.reset(`ip:${ALICE}`)
    assert.deepEqual((await peek(ALICE))?.remaining, 2)
    assert.equal(await peek(BOB), null)
    assert.deepEqual([(await peek('192.0.2.1'))?.allowed, (await peek('192.0.2.1'))?.retryAfterMs], [false, null])

    async function requestFrom(ip: string): Promise<FastifyRequest> {
      const asked: FastifyRequest[] = []
      seen.push = (...requests) => asked.push(...requests)
      await app.inject({ url: '/peeked', headers: { 'x-forwarded-for': ip }, remoteAddress: '127.0.0.1' })
      const [request] = asked
      assert.ok(request)
      return request
    }
  })
})

/** Where the route `/peeked`, which the hook leaves alone, puts its requests. */
const seen: { push(...requests: FastifyRequest[]): unknown } = { push: () => undefined }

async function startWithOverrides(t: TestContext, provider: Provider, plugin: RateLimitOptions = {}) {
  const clock = fakeClock()
  const database = await openDatabase(t, provider, clock)
  const app = await startApp(t, {
    database,
    clock,
    plugin: {
      logEvents: true,
      useDynamicRules: true,
      ...plugin,
      middleware: { defaultRate: '1000/h', ...plugin.middleware },
    },
    routes(scope) {
      scope.get('/*', async () => 'ok')
      scope.get('/peeked', { config: { smartRateLimit: false } }, async (request) => {
        seen.push(request)
        return 'ok'
      })
    },
  })
  return {
    ...app,
    database,
    client: database.client,
    overrides: database.client.rateLimitOverride,
    async limitOf(from = ALICE) {
      return (await app.request('/', { from })).headers['x-ratelimit-limit']
    },
    async events() {
      await app.app.smartRateLimit.events.flush()
      return database.client.rateLimitEvent.findMany({ orderBy: { id: 'asc' } })
    },
  }
}

/** Makes work that is done in slices pause at every opportunity, until what it waits for is called. */
function pauseAlways(t: TestContext): (() => void)[] {
  const paused: (() => void)[] = []
  t.mock.method(CooperativeYield.prototype, 'over', () => true)
  t.mock.method(CooperativeYield.prototype, 'pause', () => new Promise<void>((goOn) => paused.push(goOn)))
  return paused
}

function userOfHeader({ headers }: FastifyRequest): { id: number } | null {
  return headers.authorization === undefined ? null : { id: Number(headers.authorization) }
}

async function insertRaw(
  { database }: TestDatabase,
  { client, effect, pathPattern = '' }: { client: string; effect: string; pathPattern?: string },
): Promise<void> {
  await database.execute(
    `INSERT INTO ${database.dialect.table('rate_limit_override')} (client, effect, path_pattern) VALUES ($1, $2, $3)`,
    [client, effect, pathPattern],
  )
}
