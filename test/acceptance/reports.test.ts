/** Reports: the same numbers by every caller and on every database. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { DAY_MS, HOUR_MS } from '../../src/ground/time/clock.js'
import { createAnalytics, type RateLimitOptions } from '../../src/index.js'
import { atEnd } from '../support/at-end.js'
import { openDatabase, startApp } from '../support/build-app.js'
import { fakeClock } from '../support/clock.js'
import { forAnyDatabase, type Provider } from '../support/databases.js'
import { insertEvents } from '../support/events.js'
import { eventually } from '../support/eventually.js'
import { long } from '../support/long.js'

const BAD = '203.0.113.66'
const MEH = '203.0.113.7'

forAnyDatabase((provider) => {
  test('default 2/m, 5 requests of one address: total 5, blocked 3, allowed 2, block rate 0.6', async (t) => {
    const { statuses, analytics } = await startReporting(t, provider)
    assert.deepEqual(await statuses(5, '/', { from: BAD }), [200, 200, 429, 429, 429])

    const expected = { days: 1, total: 5, allowed: 2, blocked: 3, block_rate: 0.6, denied: 0 }
    assert.deepEqual(await analytics.getTrafficSummary(), expected)
    assert.deepEqual(await analytics.getTrafficSummary({ days: 30 }), { ...expected, days: 30 })
  })

  test('a server that logs folds events into the rollups by itself', long(), async (t) => {
    const database = await openDatabase(t, provider)
    const { dialect } = database.log
    await startApp(t, { database, plugin: { logEvents: true } })
    const event = {
      atMs: Date.now(),
      key: `ip:${BAD}`,
      rule: '',
      path: '/',
      method: 'GET',
      outcome: 'blocked',
    } as const
    await insertEvents(database.database, Array(dialect.eventsPerFold).fill(event))

    const counted = `SELECT SUM(blocked) AS blocked FROM ${dialect.table('rate_limit_blocked_rollup')} WHERE span = 60`
    await eventually('the events are folded', async () => {
      const [rows] = await database.log.query<{ blocked: number | null }>(counted)
      return rows?.blocked === dialect.eventsPerFold
    })
  })

  test('with logging off the reports are empty', async (t) => {
    const { statuses, analytics } = await startReporting(t, provider, { logEvents: false })
    await statuses(3, '/')

    assert.equal((await analytics.getTrafficSummary()).total, 0)
    assert.deepEqual(await analytics.getTopOffenders(), [])
    assert.equal(await analytics.offendersCsv(), 'key,blocked_count\r\n')
  })

  test('5 refusals of one client and 2 of another: the top offenders are exactly those, the worse first', async (t) => {
    const { statuses, analytics } = await startReporting(t, provider)
    await statuses(7, '/', { from: BAD })
    await statuses(4, '/', { from: MEH })
    await statuses(2, '/', { from: '203.0.113.8' })

    const worst = { key: `ip:${BAD}`, blocked_count: 5 }
    assert.deepEqual(await analytics.getTopOffenders({ days: 1 }), [worst, { key: `ip:${MEH}`, blocked_count: 2 }])
    assert.deepEqual(await analytics.getTopOffenders({ limit: 1 }), [worst])
    assert.equal(await analytics.offendersCsv(), `key,blocked_count\r\nip:${BAD},5\r\nip:${MEH},2\r\n`)
    assert.deepEqual(await analytics.findAlertableOffenders({ threshold: 5 }), [worst])
    assert.deepEqual(await analytics.findAlertableOffenders({ threshold: 6 }), [])
  })

  test('offenders with equally many refusals are listed by the bytes of their keys', async (t) => {
    const { statuses, analytics } = await startReporting(t, provider, {
      middleware: { defaultRate: '0/m', key: 'header:x-name' },
    })
    for (const name of ['b', 'B', 'a', '_', 'aa']) await statuses(1, '/', { headers: { 'x-name': name } })

    assert.deepEqual(
      (await analytics.getTopOffenders()).map(({ key }) => key),
      ['header:B', 'header:_', 'header:a', 'header:aa', 'header:b'],
    )
  })

  test('a rule that allowed one request and refused one has 2 hits, 1 blocked; requests without a rule are left out', async (t) => {
    const { statuses, analytics, app } = await startReporting(t, provider, { useDynamicRules: true })
    await app.smartRateLimit.client.rateLimitRule.createMany({
      data: [
        { name: 'api', pathPattern: '^/api/', rate: '1/m' },
        { name: 'busy', pathPattern: '^/busy', rate: '9/m' },
      ],
    })
    await statuses(2, '/api/x')
    await statuses(3, '/busy')
    await statuses(3, '/other')

    assert.deepEqual(await analytics.getRuleHitCounts(), [
      { rule_name: 'busy', hits: 3, blocked: 0 },
      { rule_name: 'api', hits: 2, blocked: 1 },
    ])
  })

  test('the detail of a client with 3 allowed and 5 refused requests shows where, when and how', async (t) => {
    const { statuses, analytics, clock } = await startReporting(t, provider, { middleware: { defaultRate: '3/d' } })
    await statuses(3, '/welcome', { from: BAD })
    clock.advance(HOUR_MS)
    await statuses(4, '/login', { from: BAD, method: 'POST' })
    clock.advance(HOUR_MS)
    await statuses(1, '/other?x=1', { from: BAD })

    const { recent_events, ...detail } = await analytics.getOffenderDetail({ key: `ip:${BAD}` })
    assert.deepEqual(detail, {
      key: `ip:${BAD}`,
      days: 7,
      total: 8,
      allowed: 3,
      blocked: 5,
      block_rate: 0.625,
      first_seen: '2026-01-15T12:00:00.000Z',
      last_seen: '2026-01-15T14:00:00.000Z',
      by_path: [
        { path: '/login', blocked_count: 4 },
        { path: '/other', blocked_count: 1 },
      ],
    })
    assert.equal(recent_events.length, 8)
    assert.deepEqual(recent_events[0], {
      timestamp: '2026-01-15T14:00:00.000Z',
      path: '/other',
      method: 'GET',
      allowed: false,
      count: 8,
      limit: 3,
      rule_name: '',
    })
    assert.equal((await analytics.getOffenderDetail({ key: `ip:${BAD}`, recent: 2 })).recent_events.length, 2)
  })

  test('a window of 1 day forgets what is older than 24 hours, to the millisecond', async (t) => {
    const { statuses, analytics, clock } = await startReporting(t, provider)
    await statuses(1, '/')
    clock.advance(DAY_MS - 1)
    assert.equal((await analytics.getTrafficSummary()).total, 1)
    clock.advance(2)
    assert.equal((await analytics.getTrafficSummary()).total, 0)
    assert.equal((await analytics.getTrafficSummary({ days: 2 })).total, 1)
  })

  test('cleanupOld deletes what is older than 30 days, in batches, and answers how many', async (t) => {
    const { statuses, app, clock } = await startReporting(t, provider)
    const { client, events } = app.smartRateLimit
    await statuses(5, '/')
    await events.flush()
    clock.advance(30 * DAY_MS)
    assert.equal(await client.rateLimitEvent.cleanupOld(), 0)
    clock.advance(1)
    await statuses(2, '/')
    await events.flush()

    assert.equal(await client.rateLimitEvent.cleanupOld({ batchSize: 2 }), 5)
    assert.equal(await client.rateLimitEvent.count(), 2)
    assert.equal(await client.rateLimitEvent.cleanupOld({ olderThanDays: 0 }), 0)
  })

  test('createAnalytics reads the same report in a process of its own', async (t) => {
    const { statuses, clock, database, app } = await startReporting(t, provider)
    await statuses(4, '/', { from: BAD })
    await app.smartRateLimit.events.flush()
    const analytics = createAnalytics({
      database: database.url,
      events: database.events,
      schema: database.schema,
      clock,
    })
    atEnd(t, () => analytics.close())

    assert.deepEqual(await analytics.getTopOffenders(), [{ key: `ip:${BAD}`, blocked_count: 2 }])
  })

  test('without a threshold alerting is off; with one, 2 offenders are found and no channel is configured', async (t) => {
    const { statuses, analytics } = await startReporting(t, provider)
    for (const from of [BAD, MEH]) await statuses(5, '/', { from })

    assert.deepEqual(await analytics.sendOffenderAlerts(), { enabled: false, offenders: [], channels: {} })
    assert.deepEqual(await analytics.sendOffenderAlerts({ threshold: 3 }), {
      enabled: true,
      threshold: 3,
      days: 1,
      offenders: [
        { key: `ip:${BAD}`, blocked_count: 3 },
        { key: `ip:${MEH}`, blocked_count: 3 },
      ],
      channels: {},
    })
  })
})

async function startReporting(t: TestContext, provider: Provider, plugin: RateLimitOptions = {}) {
  const clock = fakeClock()
  const database = await openDatabase(t, provider, clock)
  const started = await startApp(t, {
    database,
    clock,
    plugin: { logEvents: true, middleware: { defaultRate: '2/m' }, ...plugin },
  })
  return { ...started, database, analytics: started.app.smartRateLimit.analytics }
}
