/** Apps with a schedule. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DAY_MS, MINUTE_MS } from '../../../src/ground/time/clock.js'
import { JobLeases } from '../../../src/operations/schedule/job-leases.js'
import { openDatabase, startApp } from '../../support/build-app.js'
import { fakeClock } from '../../support/clock.js'
import { logEvents } from '../../support/events.js'
import { eventually } from '../../support/eventually.js'
import { startWebhookReceiver } from '../../support/webhook-receiver.js'

/** Stands so shortly before a full minute that the timers of a server, which are real, fire at once. */
const SHORTLY_MS = 50

function almostFullMinute() {
  return fakeClock(Math.floor(Date.now() / MINUTE_MS) * MINUTE_MS + MINUTE_MS - SHORTLY_MS)
}

test('apps that share a schedule send one alert, prune once, and report it in their health', async (t) => {
  const clock = almostFullMinute()
  const database = await openDatabase(t, 'sqlite', clock)
  const receiver = await startWebhookReceiver(t)
  await logEvents(database.client, { key: 'ip:203.0.113.7', blocked: 60, atMs: clock.now() })
  await logEvents(database.client, { key: 'ip:203.0.113.7', blocked: 5, atMs: clock.now() - 8 * DAY_MS })
  const plugin = {
    clock,
    alertWebhook: receiver.url,
    schedule: { alerts: '* * * * *', pruneEvents: '* * * * *', olderThanDays: 7, cleanup: '* * * * *' },
  }
  const apps = [await startApp(t, { database, plugin }), await startApp(t, { database, plugin })]

  clock.advance(SHORTLY_MS)
  const leases = new JobLeases(database.database)
  await eventually('all jobs have run', async () => {
    const records = await leases.records()
    return records.length === 3 && records.every(({ finishedMs }) => finishedMs !== null)
  })
  assert.equal(receiver.posts.length, 1)
  assert.equal(await database.client.rateLimitEvent.count(), 60)
  for (const { app, log } of apps) {
    const { checks } = await app.smartRateLimit.health()
    assert.deepEqual([checks.schedule.status, log], ['ok', []])
    assert.match(checks.schedule.detail, /^alerts ended \d s ago; cleanup ended \d s ago; pruneEvents ended \d s ago$/)
  }
})

test('a scheduled alert whose channel fails makes the health report fail, but not the readiness', async (t) => {
  const clock = almostFullMinute()
  const database = await openDatabase(t, 'sqlite', clock)
  const receiver = await startWebhookReceiver(t, 404)
  await logEvents(database.client, { key: 'ip:203.0.113.7', blocked: 60, atMs: clock.now() })
  const plugin = {
    clock,
    alertWebhook: receiver.url,
    schedule: { alerts: '* * * * *' },
    namespace: 'shop',
  }
  const { app } = await startApp(t, { database, plugin })
  clock.advance(SHORTLY_MS)
  await eventually('the job has failed', async () => !(await app.smartRateLimit.health()).ok)

  const { ready, checks } = await app.smartRateLimit.health()
  assert.equal(ready, true)
  assert.deepEqual(checks.schedule, {
    status: 'failing',
    detail: 'alerts@shop failed: webhook failed (status 404)',
  })
})

test('with enabled: false nothing is scheduled', async (t) => {
  const clock = almostFullMinute()
  const database = await openDatabase(t, 'sqlite', clock)
  const { app } = await startApp(t, {
    database,
    plugin: { clock, enabled: false, schedule: { cleanup: '* * * * *' } },
  })
  // A witness that the moment has come.
  await startApp(t, { database, plugin: { clock, namespace: 'witness', schedule: { cleanup: '* * * * *' } } })
  clock.advance(SHORTLY_MS)
  const leases = new JobLeases(database.database)
  await eventually('the other app has run its job', async () => (await leases.records()).length > 0)
  assert.deepEqual(
    (await leases.records()).map(({ name }) => name),
    ['cleanup@witness'],
  )
  const { ok, checks } = await app.smartRateLimit.health()
  assert.equal(ok, true)
  assert.ok(Object.values(checks).every(({ status }) => status === 'off'))
})
