/** A server whose clock is a month ahead logs events of next month: no report of this one has them. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../src/ground/time/clock.js'
import type { RateLimitEvent } from '../../src/log/event.js'
import { cleanupOldEvents } from '../../src/log/rollups/retention.js'
import { lastEventProbe } from '../../src/operations/health/probes.js'
import { analyticsFor } from '../../src/plugin/analytics.js'
import { dashboardReport } from '../../src/reports/dashboard-report.js'
import { findClients } from '../../src/reports/find-clients.js'
import { countedClients } from '../../src/reports/offender-detail.js'
import { createReportRunner } from '../../src/reports/report.js'
import { fakeClock } from '../support/clock.js'
import { forEachDatabase, type TestDatabase } from '../support/databases.js'
import { logRows } from '../support/events.js'
import { foldRollups } from '../support/rollups.js'

const clock = fakeClock()
const NOW_MS = clock.now()
const KEY = 'ip:203.0.113.7'

function refused(atMs: number, path: string): Partial<RateLimitEvent> {
  return { timestampMs: atMs, path, allowed: false, outcome: 'over_limit', count: 6 }
}

forEachDatabase((_provider, open) => {
  const openLog = async (t: TestContext, events: readonly Partial<RateLimitEvent>[]): Promise<TestDatabase> => {
    const opened = await open()
    t.after(opened.close)
    await logRows(opened.database, events)
    return opened
  }

  for (const isFolded of [false, true]) {
    test(`reports leave out what is dated far ahead, and have what faster clocks recorded: ${isFolded ? 'folded' : 'not folded'}`, async (t) => {
      const { database } = await openLog(t, [
        refused(NOW_MS - 30 * MINUTE_MS, '/now'),
        refused(NOW_MS + 30 * MINUTE_MS, '/now'),
        { timestampMs: NOW_MS, key: 'user:7', client: 'user:7', count: 5 },
        ...Array.from({ length: 40 }, () => refused(NOW_MS + 30 * DAY_MS, '/ahead')),
        { timestampMs: NOW_MS + 30 * DAY_MS, key: 'user:7', client: 'user:7', count: 1 },
        { timestampMs: NOW_MS + 30 * DAY_MS, key: 'user:8', client: 'user:8', count: 5 },
      ])
      if (isFolded) await foldRollups(database, NOW_MS)
      const analytics = analyticsFor(database, clock)
      const read = createReportRunner(database, clock)
      for (const days of [1 / 24, 1, 7]) {
        assert.equal((await analytics.getTrafficSummary({ days })).total, 3)
        assert.deepEqual(await analytics.getTopOffenders({ days }), [{ key: KEY, blocked_count: 2 }])
        assert.equal((await analytics.findAlertableOffenders({ threshold: 3, days })).length, 0)
        const byRequests = await analytics.getTopClients({ days, by: 'requests' })
        assert.deepEqual(
          byRequests.map(({ client, requests }) => [client, requests]),
          [
            [KEY, 2],
            ['user:7', 1],
          ],
        )
        const [offender, client] = await Promise.all([
          analytics.getOffenderDetail({ key: KEY, days, recent: 5 }),
          analytics.getClient({ client: KEY, days, recent: 5 }),
        ])
        for (const { recent_events, last_seen } of [offender, client]) {
          assert.deepEqual(
            recent_events.map(({ path }) => path),
            ['/now', '/now'],
          )
          assert.equal(last_seen, new Date(NOW_MS + 30 * MINUTE_MS).toISOString())
        }
        assert.deepEqual([offender.total, client.requests], [2, 2])
        assert.deepEqual(
          client.by_path.map(({ path }) => path),
          ['/now'],
        )
        assert.deepEqual(await read(findClients({ text: '8', days })), [
          { client: 'user:8', is_exact: true, requests: 0, over_limit: 0, would_be: 0, denied: 0 },
        ])
        assert.deepEqual((await read(countedClients([KEY], { days })))[0]?.length, 2)
        assert.equal((await analytics.suggestRates({ days })).requests, 3)
        const { near_limit, top_clients, over_time } = await read(dashboardReport({ days }))
        assert.deepEqual(
          near_limit?.clients.map(({ client, count }) => [client, count]),
          [['user:7', 5]],
        )
        assert.deepEqual(
          top_clients.map(({ paths }) => paths),
          [['/now']],
        )
        assert.ok(over_time.bars.every(({ start_ms }) => start_ms <= NOW_MS))
      }
    })
  }

  test('the last event is not one that is dated far ahead', async (t) => {
    const { database } = await openLog(t, [refused(NOW_MS, '/now'), refused(NOW_MS + 30 * DAY_MS, '/ahead')])
    assert.match(String(await lastEventProbe(database, fakeClock(NOW_MS + HOUR_MS))()), / 3600 s old/)
  })

  test('what is dated far ahead is deleted with the events before and behind it', async (t) => {
    const ages = [40, -30, 20, -30, 0]
    const { database } = await openLog(
      t,
      ages.map((days, place) => ({ timestampMs: NOW_MS - days * DAY_MS, path: `/${place}` })),
    )
    const kept = async () => {
      const table = database.dialect.table('rate_limit_event')
      return (await database.query<{ path: string }>(`SELECT path FROM ${table} ORDER BY id`)).map(({ path }) => path)
    }
    assert.equal(await cleanupOldEvents(database, clock, { dryRun: true }), 2)
    assert.equal(await cleanupOldEvents(database, clock), 2)
    assert.deepEqual(await kept(), ['/2', '/3', '/4'])
    // For a clock that is years behind all events are far ahead.
    assert.equal(await cleanupOldEvents(database, fakeClock(NOW_MS - 3_000 * DAY_MS)), 0)
    assert.equal((await kept()).length, 3)
  })
})
