/** The event log: one complete event per checked request, which never delays a request. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { RateLimitOptions } from '../../src/index.js'
import { type AppOptions, ERROR, openDatabase, startApp } from '../support/build-app.js'
import { forEachDatabase, type Provider } from '../support/databases.js'

const ALICE = '203.0.113.7'
const DENIED = '203.0.113.8'

forEachDatabase((provider) => {
  test('a refused request of user 42 is one event with all its fields', async (t) => {
    const { request, events, clock } = await startLogging(t, provider, {
      user: () => ({ id: 42 }),
      middleware: { defaultRate: '1/m' },
    })
    await request('/pages/1?token=secret', { from: ALICE })
    clock.advance(1_234)
    await request('/p%61ges/1?token=secret', { from: ALICE, method: 'DELETE' })

    const [, event] = await events()
    assert.ok(event)
    assert.deepEqual(JSON.parse(JSON.stringify(event)), {
      id: 2,
      timestamp: '2026-01-15T12:00:01.234Z',
      key: `ip:${ALICE}`,
      ruleName: '',
      path: '/p%61ges/1',
      method: 'DELETE',
      allowed: false,
      count: 2,
      limit: 1,
      ipAddress: '127.0.0.1',
      userId: 42,
      clientIp: ALICE,
      client: `ip:${ALICE}`,
      policy: 'default',
      outcome: 'over_limit',
      rules: '',
      weight: 1,
    })
  })

  test('default 2/m, 5 requests: 5 events with counts 1 to 5, 3 of them refused', async (t) => {
    const { statuses, events } = await startLogging(t, provider, { middleware: { defaultRate: '2/m' } })

    assert.deepEqual(await statuses(5, '/'), [200, 200, 429, 429, 429])
    assert.deepEqual(
      (await events()).map(({ count, allowed }) => [count, allowed]),
      [
        [1, true],
        [2, true],
        [3, false],
        [4, false],
        [5, false],
      ],
    )
  })

  test('with logEvents off nothing is logged', async (t) => {
    const { statuses, events } = await startLogging(t, provider, { logEvents: false })
    await statuses(3, '/')

    assert.deepEqual(await events(), [])
  })

  test("logEvents: 'blocked' logs only refusals, and what block: false would have refused", async (t) => {
    const { statuses, events, app } = await startLogging(t, provider, {
      logEvents: 'blocked',
      useDynamicRules: true,
      middleware: { defaultRate: '1/m' },
    })
    await app.smartRateLimit.client.rateLimitRule.create({
      data: { name: 'watch', pathPattern: '^/watched', rate: '1/m', block: false },
    })
    await statuses(3, '/')
    await statuses(2, '/watched')

    assert.deepEqual(
      (await events()).map(({ ruleName, allowed, count }) => [ruleName, allowed, count]),
      [
        ['', false, 2],
        ['', false, 3],
        ['watch', true, 2],
      ],
    )
    const { analytics } = app.smartRateLimit
    assert.equal((await analytics.getTrafficSummary()).only_blocked, true)
    assert.equal((await analytics.getOffenderDetail({ key: 'ip:127.0.0.1' })).only_blocked, true)
  })

  test('an event of a rateLimits prefix carries the key of the client, so that offenders add up', async (t) => {
    const { request, events } = await startLogging(t, provider, { middleware: { rateLimits: { '/auth/': '5/m' } } })
    await request('/auth/login', { from: ALICE })
    await request('/other', { from: ALICE })

    assert.deepEqual(
      (await events()).map(({ key, limit, count }) => [key, limit, count]),
      [
        [`ip:${ALICE}`, 5, 1],
        [`ip:${ALICE}`, 100, 1],
      ],
    )
  })

  test('a deny-listed client is logged with count 1 and limit 0', async (t) => {
    const { request, events } = await startLogging(t, provider, { middleware: { denyList: [ALICE] } })
    await request('/', { from: ALICE })

    assert.deepEqual(
      (await events()).map(({ key, allowed, count, limit, clientIp }) => ({ key, allowed, count, limit, clientIp })),
      [{ key: `ip:${ALICE}`, allowed: false, count: 1, limit: 0, clientIp: ALICE }],
    )
  })

  test('an event says who was counted, by which policy, and what came of it', async (t) => {
    const { statuses, request, events, app } = await startLogging(t, provider, {
      useDynamicRules: true,
      middleware: { defaultRate: '1/m', rateLimits: { '/auth/': '5/m' }, denyList: [DENIED] },
    })
    const { rateLimitRule: rules, rateLimitOverride: overrides } = app.smartRateLimit.client
    await rules.create({
      data: { name: 'keyed', pathPattern: '^/keyed', rate: '1/m', key: 'header:X-Key', block: false },
    })
    await overrides.create({ data: { client: 'ip:203.0.113.9', effect: 'deny' } })
    await overrides.create({ data: { client: 'ip:203.0.113.10', effect: '5/m' } })
    await statuses(2, '/', { from: ALICE })
    await request('/auth/login', { from: ALICE })
    await request('/', { from: DENIED })
    await request('/', { from: '203.0.113.9' })
    await request('/', { from: '203.0.113.10' })
    for (const _ of [1, 2]) await request('/keyed', { from: ALICE, headers: { 'x-key': 'a' } })

    assert.deepEqual(
      (await events()).map(({ client, policy, outcome, allowed }) => [client, policy, outcome, allowed]),
      [
        [`ip:${ALICE}`, 'default', 'allowed', true],
        [`ip:${ALICE}`, 'default', 'over_limit', false],
        [`ip:${ALICE}`, '/auth/', 'allowed', true],
        [`ip:${DENIED}`, 'deny-list', 'denied', false],
        ['ip:203.0.113.9', 'override', 'denied', false],
        ['ip:203.0.113.10', 'override', 'allowed', true],
        ['header:x-key:a', 'keyed', 'allowed', true],
        ['header:x-key:a', 'keyed', 'over_limit', true],
      ],
    )
  })

  test('404s, HEAD and failed handlers are logged like anything else', async (t) => {
    const { request, events } = await startLogging(t, provider, {}, (app) => {
      app.get('/', async () => 'ok')
      app.get('/broken', async () => {
        throw new Error('broken')
      })
    })
    await request('/', { method: 'HEAD' })
    await request('/nowhere', { method: 'PUT' })
    assert.equal((await request('/broken')).status, 500)

    assert.deepEqual(
      (await events()).map(({ method, path, allowed }) => [method, path, allowed]),
      [
        ['HEAD', '/', true],
        ['PUT', '/nowhere', true],
        ['GET', '/broken', true],
      ],
    )
  })

  test('what was just served can be read at once, by a report and after a flush', async (t) => {
    const { request, app } = await startLogging(t, provider, {})
    const { analytics, events } = app.smartRateLimit

    for (let total = 1; total <= 5; total++) {
      await request('/')
      assert.equal((await analytics.getTrafficSummary()).total, total)
    }
    await request('/')
    await events.flush()
    assert.deepEqual(events.stats(), { written: 6, dropped: 0, buffered: 0, spooled: 0, lastError: null })
  })

  test('closing the app writes the last events', async (t) => {
    const { statuses, app, client } = await startLogging(t, provider, { middleware: { defaultRate: '1000/m' } })
    const served = statuses(20, '/')
    await Promise.all([statuses(30, '/a'), statuses(30, '/b'), served])
    await app.close()

    assert.equal(await client.rateLimitEvent.count(), 80)
  })

  test('when the event table goes away requests go on, one line is logged, and no event is lost', async (t) => {
    const { statuses, app, log, clock, database, client } = await startLogging(t, provider, {})
    const table = database.log.dialect.table('rate_limit_event')
    const { events } = app.smartRateLimit
    await statuses(1, '/')
    await events.flush()
    await database.log.execute(`ALTER TABLE ${table} RENAME TO away`)

    for (const _ of Array(3)) {
      assert.deepEqual(await statuses(2, '/'), [200, 200])
      await events.flush()
    }
    const { written, buffered, dropped } = events.stats()
    assert.deepEqual({ written, buffered, dropped }, { written: 1, buffered: 6, dropped: 0 })
    assert.match(events.stats().lastError ?? '', /ratelimit migrate/)
    assert.equal(log.filter(({ level }) => level >= ERROR).length, 1)
    clock.advance(60_000)
    await statuses(1, '/')
    await events.flush()
    assert.equal(log.filter(({ level }) => level >= ERROR).length, 1)

    const back = provider === 'sqlite' ? '"away"' : table.replace('"rate_limit_event"', '"away"')
    await database.log.execute(`ALTER TABLE ${back} RENAME TO rate_limit_event`)
    assert.deepEqual(await statuses(1, '/'), [200])
    await events.flush()
    assert.equal(await client.rateLimitEvent.count(), 9)
    assert.equal(events.stats().written, 9)
  })

  test('user ids that are no integers are not in user_id, but still in the key', async (t) => {
    const ids: unknown[] = [7, 'u-7', 7.5, '8', 9n]
    let next = 0
    const { statuses, events } = await startLogging(t, provider, {
      user: () => ({ id: ids[next++] }) as never,
      middleware: { key: 'user' },
    })
    await statuses(5, '/')

    assert.deepEqual(
      (await events()).map(({ key, userId }) => [key, userId]),
      [
        ['user:7', 7],
        ['user:u-7', null],
        ['user:7.5', null],
        ['user:8', null],
        ['user:9', 9],
      ],
    )
  })
})

async function startLogging(
  t: TestContext,
  provider: Provider,
  plugin: RateLimitOptions,
  routes?: AppOptions['routes'],
) {
  const database = await openDatabase(t, provider)
  const started = await startApp(t, {
    database,
    plugin: { logEvents: true, ...plugin },
    ...(routes === undefined ? {} : { routes }),
  })
  return {
    ...started,
    client: database.client,
    database: database.log,
    async events() {
      await started.app.smartRateLimit.events.flush()
      return database.client.rateLimitEvent.findMany({ orderBy: { id: 'asc' } })
    },
  }
}
