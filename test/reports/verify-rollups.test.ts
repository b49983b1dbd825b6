import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DAY_MS } from '../../src/ground/time/clock.js'
import { verifyRollups } from '../../src/log/rollups/catch-up.js'
import { compareReports } from '../support/compare-reports.js'
import { forEachDatabase } from '../support/databases.js'
import { insertEvents, type NewEvent } from '../support/events.js'
import { foldRollups } from '../support/rollups.js'

const NOW_MS = Date.UTC(2026, 0, 15, 12, 34, 56, 789)
function event(daysAgo: number, its: Partial<NewEvent> = {}): NewEvent {
  const atMs = NOW_MS - daysAgo * DAY_MS
  return { atMs, key: 'ip:192.0.2.1', rule: '', path: '/', method: 'GET', outcome: 'blocked', ...its }
}

/** Changes that no trigger notices: direct writes to the rollups. */
const DAMAGES: readonly (readonly [what: string, sql: (table: (name: string) => string) => string])[] = [
  ['a count', (table) => `UPDATE ${table('rate_limit_traffic_rollup')} SET total = total + 1 WHERE span = 1440`],
  ['what was blocked', (table) => `UPDATE ${table('rate_limit_traffic_rollup')} SET blocked = 0 WHERE span = 60`],
  ['a path', (table) => `UPDATE ${table('rate_limit_traffic_rollup')} SET path = '/never' WHERE path = '/b'`],
  ['missing traffic', (table) => `DELETE FROM ${table('rate_limit_traffic_rollup')}`],
  ['missing keys', (table) => `DELETE FROM ${table('rate_limit_blocked_rollup')} WHERE span = 1440`],
  ['a key', (table) => `UPDATE ${table('rate_limit_blocked_rollup')} SET key = 'nobody'`],
  [
    'a day without events',
    (table) => `UPDATE ${table('rate_limit_traffic_rollup')} SET bucket = bucket - 1 WHERE span = 1440`,
  ],
  ['missing events', (table) => `UPDATE ${table('rate_limit_watermark')} SET event_id = 1000`],
]

forEachDatabase((_provider, open) => {
  for (const [what, sql] of DAMAGES) {
    test(`wrong rollups are counted again: ${what}`, async (t) => {
      const { database, close } = await open()
      t.after(close)
      await insertEvents(database, [event(0), event(0, { path: '/b' }), event(1), event(40, { outcome: 'allowed' })])
      await foldRollups(database)
      await insertEvents(database, [event(0), event(1, { key: 'user:7' })])
      await database.log.execute(sql((name) => database.log.dialect.table(name)))

      const progress: number[] = []
      const hours = await verifyRollups(database.log, NOW_MS, { onProgress: (counted) => progress.push(counted) })
      assert.ok(hours >= 3)
      assert.deepEqual(
        progress,
        Array.from({ length: hours }, (_, place) => place + 1),
      )
      for (const days of [1, 3, 90]) await compareReports(database, NOW_MS, days)
    })
  }

  test('reports are exact while it is under way, also of what is dated later than the year 9999', async (t) => {
    const { database, close } = await open()
    t.after(close)
    const { table, fromMs } = database.log.dialect
    const paths = Array.from({ length: 400 }, (_, place) => event(place % 3, { path: `/${place}` }))
    await insertEvents(database, [...paths, event(0, { path: '/late' })])
    // The log itself dates nothing so late.
    const set = `UPDATE ${table('rate_limit_event')} SET "timestamp" = ${fromMs('$1')} WHERE path = '/late'`
    await database.log.execute(set, [5_000_000 * DAY_MS])
    await foldRollups(database)
    await database.log.execute(`DELETE FROM ${table('rate_limit_traffic_rollup')}`)

    const stop = new AbortController()
    const onProgress = () => stop.abort()
    assert.equal(await verifyRollups(database.log, NOW_MS, { onProgress, signal: stop.signal }), 1)
    await compareReports(database, NOW_MS, 2)
    await foldRollups(database)
    await compareReports(database, NOW_MS, 2)
    await database.log.execute(`DELETE FROM ${table('rate_limit_event')} WHERE path = '/late'`)
    await foldRollups(database)
    await compareReports(database, NOW_MS, 2)
  })

  test('the trend of what was deleted since is left alone, and so is that of what is there', async (t) => {
    const { database, close } = await open()
    t.after(close)
    const { dialect } = database.log
    await insertEvents(
      database,
      Array.from({ length: 600 }, (_, place) => event(0, { path: `/${place % 300}` })),
    )
    await foldRollups(database)
    await database.log.execute(`DELETE FROM ${dialect.table('rate_limit_event')} WHERE path = '/7'`)
    await verifyRollups(database.log, NOW_MS)
    const [trend] = await database.log.query<{ total: number }>(
      `SELECT total FROM ${dialect.table('rate_limit_trend')}`,
    )
    assert.equal(trend?.total, 600)
    const [rows] = await database.log.query<{ rows: number }>(
      `SELECT COUNT(*) AS rows FROM ${dialect.table('rate_limit_traffic_rollup')} WHERE span = 60`,
    )
    assert.equal(rows?.rows, 257)
  })
})
