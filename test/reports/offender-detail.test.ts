import assert from 'node:assert/strict'
import { test } from 'node:test'
import { InvalidSettingError } from '../../src/ground/errors.js'
import { DAY_MS, HOUR_MS } from '../../src/ground/time/clock.js'
import { analyticsFor } from '../../src/plugin/analytics.js'
import { fakeClock } from '../support/clock.js'
import { forEachDatabase } from '../support/databases.js'
import { logEvents } from '../support/events.js'

const KEY = 'ip:203.0.113.7'

forEachDatabase((_provider, open) => {
  test('the detail of a key has its traffic, its paths and its latest events', async (t) => {
    const clock = fakeClock(Date.UTC(2026, 0, 15, 12, 0, 0, 123))
    const { client, database, close } = await open(clock)
    t.after(close)
    const nowMs = clock.now()
    await logEvents(client, { key: KEY, allowed: 1, blocked: 2, path: '/login', method: 'POST', atMs: nowMs - HOUR_MS })
    await logEvents(client, { key: KEY, blocked: 1, path: '/api', ruleName: 'api', atMs: nowMs })
    await logEvents(client, { key: KEY, allowed: 2, path: '/allowed-only', atMs: nowMs - 2 * HOUR_MS })
    await logEvents(client, { key: KEY, blocked: 5, path: '/bygone', atMs: nowMs - 8 * DAY_MS })
    await logEvents(client, { key: 'ip:203.0.113.8', blocked: 5, atMs: nowMs })

    const detail = await analyticsFor(database, clock).getOffenderDetail({ key: KEY, recent: 3 })
    assert.deepEqual(detail, {
      key: KEY,
      days: 7,
      total: 6,
      allowed: 3,
      blocked: 3,
      block_rate: 0.5,
      first_seen: '2026-01-15T10:00:00.123Z',
      last_seen: '2026-01-15T12:00:00.123Z',
      by_path: [
        { path: '/login', blocked_count: 2 },
        { path: '/api', blocked_count: 1 },
      ],
      recent_events: [
        {
          timestamp: '2026-01-15T12:00:00.123Z',
          path: '/api',
          method: 'GET',
          allowed: false,
          count: 1,
          limit: 0,
          rule_name: 'api',
        },
        {
          timestamp: '2026-01-15T11:00:00.123Z',
          path: '/login',
          method: 'POST',
          allowed: false,
          count: 3,
          limit: 1,
          rule_name: '',
        },
        {
          timestamp: '2026-01-15T11:00:00.123Z',
          path: '/login',
          method: 'POST',
          allowed: false,
          count: 2,
          limit: 1,
          rule_name: '',
        },
      ],
    })
  })

  test('a key that is not in the log has zeros, nulls and empty lists', async (t) => {
    const { database, close } = await open()
    t.after(close)

    assert.deepEqual(
      await analyticsFor(database, fakeClock(), undefined).getOffenderDetail({ key: 'nobody', days: 30 }),
      {
        key: 'nobody',
        days: 30,
        total: 0,
        allowed: 0,
        blocked: 0,
        block_rate: 0,
        first_seen: null,
        last_seen: null,
        by_path: [],
        recent_events: [],
      },
    )
  })

  test('a key is looked up as the log has stored it', async (t) => {
    const clock = fakeClock()
    const { client, database, close } = await open(clock)
    t.after(close)
    const stored = `header:${'x'.repeat(248)}`
    await logEvents(client, { key: stored, blocked: 1, atMs: clock.now() })
    const analytics = analyticsFor(database, clock)

    assert.equal((await analytics.getOffenderDetail({ key: `${stored}xxx` })).blocked, 1)
    assert.equal((await analytics.getOffenderDetail({ key: stored.replace('x', '\0x') })).blocked, 1)
    assert.equal((await analytics.getOffenderDetail({ key: '\ud800' })).total, 0)
    assert.equal((await analytics.getOffenderDetail({ key: "'; DROP TABLE rate_limit_event; --" })).total, 0)
  })

  test('the 20 paths with the most refusals are listed, ties by name', async (t) => {
    const clock = fakeClock()
    const { client, database, close } = await open(clock)
    t.after(close)
    for (let page = 10; page < 35; page++) {
      await logEvents(client, { key: KEY, blocked: page === 34 ? 2 : 1, path: `/${page}`, atMs: clock.now() })
    }

    const { by_path } = await analyticsFor(database, clock).getOffenderDetail({ key: KEY })
    assert.deepEqual(
      by_path.map(({ path }) => path),
      ['/34', ...Array.from({ length: 19 }, (_, page) => `/${page + 10}`)],
    )
  })

  test('50 recent events are listed unless asked otherwise', async (t) => {
    const clock = fakeClock()
    const { client, database, close } = await open(clock)
    t.after(close)
    await logEvents(client, { key: KEY, allowed: 60, atMs: clock.now() })
    const analytics = analyticsFor(database, clock)

    assert.equal((await analytics.getOffenderDetail({ key: KEY })).recent_events.length, 50)
    assert.equal((await analytics.getOffenderDetail({ key: KEY, recent: 55 })).recent_events.length, 55)
    await assert.rejects(analytics.getOffenderDetail({ key: KEY, recent: 0 }), InvalidSettingError)
  })
})
