/** Rates for a rule, from what clients really did. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { InvalidSettingError } from '../../../src/ground/errors.js'
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../../src/ground/time/clock.js'
import type { RateLimitEvent } from '../../../src/log/event.js'
import { analyticsFor } from '../../../src/plugin/analytics.js'
import { hoursToRead } from '../../../src/reports/preview/suggested-rates.js'
import { createReportRunner } from '../../../src/reports/report.js'
import { windowFor } from '../../../src/reports/report-window.js'
import { atEnd } from '../../support/at-end.js'
import { fakeClock } from '../../support/clock.js'
import { forEachDatabase } from '../../support/databases.js'
import { logRows } from '../../support/events.js'
import { foldRollups } from '../../support/rollups.js'

const NOW_MS = Date.UTC(2030, 0, 15, 12, 34, 56, 789)
const HOUR = Math.floor(NOW_MS / HOUR_MS) * HOUR_MS - 2 * HOUR_MS
const LOGIN = { path: '/login', method: 'POST' } as const

function sent(client: string, times: number, its: Partial<RateLimitEvent> = {}): Partial<RateLimitEvent>[] {
  return Array.from({ length: times }, () => ({ timestampMs: HOUR, client, key: client, ...LOGIN, ...its }))
}

forEachDatabase((_provider, open) => {
  test("rates are percentiles of clients' busiest windows, with the clients and requests that each refuses", async (t) => {
    const { database, analytics } = await start(t)
    await logRows(database, [
      // 98 clients with 2 requests in one minute, and 1 in another one of the same hour.
      ...Array.from({ length: 98 }, (_, number) => [
        ...sent(`user:${number}`, 2),
        ...sent(`user:${number}`, 1, { timestampMs: HOUR + 5 * MINUTE_MS }),
      ]).flat(),
      ...sent('ip:203.0.113.1', 5),
      // The scraper was over its limit at times, which was a request, too.
      ...sent('ip:203.0.113.2', 20),
      ...sent('ip:203.0.113.2', 30, { timestampMs: HOUR + MINUTE_MS, allowed: false, count: 9, outcome: 'over_limit' }),
      ...sent('ip:203.0.113.2', 3, { timestampMs: HOUR + HOUR_MS }),
    ])
    for (const isFolded of [false, true]) {
      if (isFolded) await foldRollups(database, NOW_MS)
      const suggested = await analytics.suggestRates({ path: '/login', method: 'POST', days: 1 })
      assert.deepEqual(suggested, {
        days: 1,
        requests: 98 * 3 + 5 + 53,
        clients: 100,
        sampled: null,
        per_minute: [
          { percentile: 50, rate: '2/m', refused_clients: 2, refused_requests: 3 + 18 + 28 + 1 },
          { percentile: 95, rate: '2/m', refused_clients: 2, refused_requests: 3 + 18 + 28 + 1 },
          { percentile: 99, rate: '5/m', refused_clients: 1, refused_requests: 15 + 25 },
        ],
        per_hour: [
          { percentile: 50, rate: '3/h', refused_clients: 2, refused_requests: 2 + 47 },
          { percentile: 95, rate: '3/h', refused_clients: 2, refused_requests: 2 + 47 },
          { percentile: 99, rate: '5/h', refused_clients: 1, refused_requests: 45 },
        ],
      })
    }
  })

  test('only requests of the path, method and rule count, in the window, without denials and unknown clients', async (t) => {
    const { database, analytics } = await start(t)
    await logRows(database, [
      ...sent('ip:203.0.113.1', 3),
      ...sent('ip:203.0.113.1', 4, { path: '/login/again', ruleName: 'login', policy: 'login' }),
      ...sent('ip:203.0.113.1', 7, { path: '/log' }),
      ...sent('ip:203.0.113.1', 7, { method: 'GET' }),
      ...sent('ip:203.0.113.1', 7, { timestampMs: NOW_MS - 2 * DAY_MS }),
      ...sent('ip:203.0.113.1', 7, { allowed: false, limit: 0, outcome: 'denied', policy: 'override' }),
      ...sent('', 7, { key: 'somebody' }),
    ])
    const requests = async (filter: object) => (await analytics.suggestRates({ days: 1, ...filter })).requests
    assert.equal(await requests(LOGIN), 7)
    assert.equal(await requests({ ...LOGIN, rule: 'login' }), 4)
    assert.equal(await requests({ ...LOGIN, rule: '' }), 3)
    assert.equal(await requests({ path: '/LOGIN' }), 0)
    assert.equal(await requests({}), 21)
    assert.equal(await requests({ days: 7 }), 28)
    assert.equal(await requests({ path: "' OR 1=1 --%_" }), 0)
  })

  test('an empty log suggests no rate', async (t) => {
    const { analytics } = await start(t)
    assert.deepEqual(await analytics.suggestRates(), {
      days: 7,
      requests: 0,
      clients: 0,
      sampled: null,
      per_minute: [],
      per_hour: [],
    })
    await assert.rejects(analytics.suggestRates({ days: 0 }), InvalidSettingError)
  })

  test('of a window with too many events whole hours are read, at distances that meet every hour of the day', async (t) => {
    const { database, read } = await start(t)
    const hours = 5 * 24
    const rows = Array.from({ length: hours }, (_, before) =>
      sent(`ip:203.0.113.${before}`, 2, { timestampMs: HOUR - before * HOUR_MS }),
    )
    await logRows(database, rows.flat())
    await foldRollups(database, NOW_MS)
    const choose = (maxEvents: number) =>
      read((snapshot) => hoursToRead(snapshot, windowFor({ days: 7 }, snapshot.nowMs), maxEvents))

    const whole = await choose(2 * hours)
    assert.deepEqual(whole, { periods: [windowFor({ days: 7 }, NOW_MS)], sampled: null })
    const sampled = await choose(100)
    const starts = sampled.periods.map(({ startMs }) => (HOUR - startMs) / HOUR_MS)
    assert.deepEqual(sampled.sampled, { hours_read: 24, hours })
    // The newest hour may not be over. Every third hour would never meet most hours of the day.
    assert.deepEqual(
      starts,
      Array.from({ length: 24 }, (_, place) => 1 + 5 * place),
    )
    assert.deepEqual(new Set(starts.map((start) => start % 24)).size, 24)
    assert.ok(sampled.periods.every(({ startMs, endMs }) => endMs - startMs === HOUR_MS))
    const least = await choose(1)
    assert.deepEqual(least.periods, [{ startMs: HOUR - HOUR_MS, endMs: HOUR }])
  })

  async function start(t: TestContext) {
    const opened = await open(fakeClock(NOW_MS))
    atEnd(t, opened.close)
    const { database } = opened
    return {
      ...opened,
      analytics: analyticsFor(database, fakeClock(NOW_MS)),
      read: createReportRunner(database, fakeClock(NOW_MS)),
    }
  }
})
