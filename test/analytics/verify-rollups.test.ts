import assert from 'node:assert/strict'
import { test } from 'node:test'
import { verifyRollups } from '../../src/analytics/verify-rollups.js'
import { createRateLimitClient } from '../../src/client.js'
import { DAY_MS } from '../../src/clock.js'
import { databaseOf } from '../../src/db/database.js'
import { compareReports } from '../support/compare-reports.js'
import { forEachDatabase, openTestDatabase, postgresqlMissing } from '../support/databases.js'
import { insertEvents, type NewEvent } from '../support/insert-events.js'
import { foldRollups } from '../support/rollups.js'

const NOW_MS = Date.UTC(2026, 0, 15, 12, 34, 56, 789)
const NOTHING_WRONG = { wrong_rows: 0, wrong_days: [] }

function event(daysAgo: number, its: Partial<NewEvent> = {}): NewEvent {
  const atMs = NOW_MS - daysAgo * DAY_MS
  return { atMs, key: 'ip:192.0.2.1', rule: '', path: '/', method: 'GET', outcome: 'blocked', ...its }
}

/** What the triggers do not see: somebody writes to the rollups themselves. */
const DAMAGES: readonly (readonly [what: string, sql: (table: (name: string) => string) => string])[] = [
  ['a count', (table) => `UPDATE ${table('rate_limit_traffic_rollup')} SET total = total + 1 WHERE span = 24`],
  ['what was blocked', (table) => `UPDATE ${table('rate_limit_traffic_rollup')} SET blocked = 0 WHERE span = 1`],
  ['a path', (table) => `UPDATE ${table('rate_limit_traffic_rollup')} SET path = '/never' WHERE path = '/b'`],
  ['missing traffic', (table) => `DELETE FROM ${table('rate_limit_traffic_rollup')}`],
  ['missing keys', (table) => `DELETE FROM ${table('rate_limit_blocked_rollup')} WHERE span = 24`],
  ['a key', (table) => `UPDATE ${table('rate_limit_blocked_rollup')} SET key = 'nobody'`],
  ['a lost delta', (table) => `DELETE FROM ${table('rate_limit_rollup_delta')}`],
  ['a missing trend', (table) => `DELETE FROM ${table('rate_limit_trend')}`],
]

forEachDatabase((_provider, open) => {
  test('rollups that were not meddled with agree, folded or not', async (t) => {
    const { database, close } = await open()
    t.after(close)
    assert.deepEqual(await verifyRollups(database), { days: 0, ...NOTHING_WRONG })
    const paths = Array.from({ length: 400 }, (_, place) => event(place % 3, { path: `/${place}` }))
    await insertEvents(database, paths)
    await foldRollups(database)
    await insertEvents(database, [event(0, { outcome: 'would_block' }), event(2), event(-3), event(20_000)])
    await database.execute(`DELETE FROM ${database.dialect.table('rate_limit_event')} WHERE id % 5 = 0`)
    assert.deepEqual(await verifyRollups(database), { days: 5, ...NOTHING_WRONG })
    await foldRollups(database)
    assert.deepEqual(await verifyRollups(database), { days: 5, ...NOTHING_WRONG })
  })

  for (const [what, sql] of DAMAGES) {
    test(`wrong rollups are found and repaired: ${what}`, async (t) => {
      const { database, close } = await open()
      t.after(close)
      await insertEvents(database, [event(0), event(0, { path: '/b' }), event(1), event(40, { outcome: 'allowed' })])
      await foldRollups(database)
      await insertEvents(database, [event(0), event(1, { key: 'user:7' })])
      await database.execute(sql((name) => database.dialect.table(name)))

      const found = await verifyRollups(database, { dryRun: true })
      assert.ok(found.wrong_rows > 0)
      assert.deepEqual(await verifyRollups(database, { dryRun: true }), found, 'a dry run repairs nothing')
      // A repair folds the deltas of all days, so that rows of the following ones are another number.
      assert.deepEqual((await verifyRollups(database)).wrong_days, found.wrong_days)
      assert.deepEqual(await verifyRollups(database), { days: 3, ...NOTHING_WRONG })
      for (const days of [1, 3, 90]) await compareReports(database, NOW_MS, days)
    })
  }

  test('what is dated later than the year 9999 is one day', async (t) => {
    const { database, close } = await open()
    t.after(close)
    await insertEvents(database, [event(0), event(0, { path: '/4' }), event(0, { path: '/5' })])
    const { table, fromMs } = database.dialect
    for (const millions of [4, 5]) {
      // The log itself dates nothing so late.
      const set = `UPDATE ${table('rate_limit_event')} SET "timestamp" = ${fromMs('$1')} WHERE path = $2`
      await database.execute(set, [millions * 1_000_000 * DAY_MS, `/${millions}`])
    }
    await foldRollups(database)
    await database.execute(`DELETE FROM ${database.dialect.table('rate_limit_traffic_rollup')}`)
    assert.deepEqual((await verifyRollups(database)).wrong_days, ['2026-01-15', '+010000-01-01'])
    assert.deepEqual(await verifyRollups(database), { days: 2, ...NOTHING_WRONG })
  })

  test('a repair leaves alone the trend of what was deleted since, and the paths that found no room', async (t) => {
    const { database, close } = await open()
    t.after(close)
    const { dialect } = database
    await insertEvents(
      database,
      Array.from({ length: 600 }, (_, place) => event(0, { path: `/${place % 300}` })),
    )
    await foldRollups(database)
    await database.execute(`DELETE FROM ${dialect.table('rate_limit_event')} WHERE path = '/7'`)
    await database.execute(`UPDATE ${dialect.table('rate_limit_traffic_rollup')} SET total = 9 WHERE path = '/1'`)
    const { wrong_days } = await verifyRollups(database)
    assert.deepEqual(wrong_days, ['2026-01-15'])
    assert.deepEqual(await verifyRollups(database), { days: 1, ...NOTHING_WRONG })
    const [trend] = await database.query<{ total: number }>(`SELECT total FROM ${dialect.table('rate_limit_trend')}`)
    assert.equal(trend?.total, 600)
    const [rows] = await database.query<{ rows: number }>(
      `SELECT COUNT(*) AS rows FROM ${dialect.table('rate_limit_traffic_rollup')} WHERE span = 1`,
    )
    assert.equal(rows?.rows, 257)
  })
})

test('a repair is whole where transactions keep their snapshots by default', { skip: postgresqlMissing }, async (t) => {
  const { url, schema, close } = await openTestDatabase('postgresql')
  const isolated = new URL(url)
  isolated.searchParams.set('options', '-c default_transaction_isolation=repeatable\\ read')
  // The driver takes a `+` for itself.
  const client = createRateLimitClient({ database: isolated.href.replaceAll('+', '%20'), schema })
  t.after(async () => {
    await client.$disconnect()
    await close()
  })
  const database = databaseOf(client)
  await insertEvents(database, [event(0), event(0, { path: '/b' })])
  await database.execute(`UPDATE ${database.dialect.table('rate_limit_rollup_delta')} SET total = 9`)
  assert.deepEqual((await verifyRollups(database)).wrong_days, ['2026-01-15'])
  assert.deepEqual(await verifyRollups(database), { days: 1, ...NOTHING_WRONG })
  await compareReports(database, NOW_MS, 1)
})
