/** The rollups know of every row that is written or deleted, by whatever means. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { describe, test } from 'node:test'
import { promisify } from 'node:util'
import pg from 'pg'
import type { Database } from '../../src/database/database.js'
import { sqlitePath } from '../../src/database/database-url.js'
import { openSqliteFile } from '../../src/database/sqlite-driver.js'
import { DAY_MS, HOUR_MS } from '../../src/ground/time/clock.js'
import { verifyRollups } from '../../src/log/rollups/catch-up.js'
import { foldStep, markedHours, recountHour } from '../../src/log/rollups/fold.js'
import { RollupKeeper } from '../../src/log/rollups/keeper.js'
import { dashboardReport } from '../../src/reports/dashboard-report.js'
import { createReportRunner } from '../../src/reports/report.js'
import { atEnd } from '../support/at-end.js'
import { fakeClock } from '../support/clock.js'
import { compareReports } from '../support/compare-reports.js'
import { forEachDatabase, openTestDatabase, postgresqlMissing } from '../support/databases.js'
import { insertEvents, logEvents, type NewEvent } from '../support/events.js'
import { long } from '../support/long.js'
import { LOADER, moduleUrl } from '../support/modules.js'
import { readEvents } from '../support/recount.js'
import { foldRollups } from '../support/rollups.js'

const NOW_MS = Date.UTC(2026, 0, 15, 12, 34, 56, 789)

function blocked(atMs: number, its: Partial<NewEvent> = {}): NewEvent {
  return { atMs, key: 'ip:192.0.2.1', rule: '', path: '/', method: 'GET', outcome: 'blocked', ...its }
}

async function rowsOf(database: Database, table: string): Promise<number> {
  const [counted] = await database.query<{ rows: number }>(
    `SELECT COUNT(*) AS rows FROM ${database.dialect.table(table)}`,
  )
  return counted?.rows ?? 0
}

/** Makes a step of folding smaller, so that few events are several. */
function foldInSteps(database: Database, eventsPerFold: number): void {
  Object.assign(database, { dialect: { ...database.dialect, eventsPerFold } })
}

async function compareNowAndFolded(database: Database): Promise<void> {
  await compareReports(database, NOW_MS, 3)
  await foldRollups(database)
  await compareReports(database, NOW_MS, 3)
}

forEachDatabase((_provider, open) => {
  test('what is written through the client counts, and what a transaction takes back does not', async (t) => {
    const { client, database, close } = await open()
    atEnd(t, close)
    await logEvents(client, { key: 'user:1', allowed: 3, blocked: 2, atMs: NOW_MS - HOUR_MS })
    const { id } = await client.rateLimitEvent.create({
      data: {
        timestamp: new Date(NOW_MS),
        key: 'user:1',
        path: '/one',
        method: 'GET',
        allowed: true,
        count: 9,
        limit: 5,
      },
    })
    await client.rateLimitEvent.update({ where: { id }, data: { path: '/other' } })
    await client.rateLimitEvent.deleteMany({ where: { allowed: true, path: '/' } })
    await assert.rejects(
      client.$transaction(async (transaction) => {
        await transaction.rateLimitEvent.deleteMany()
        throw new Error('never mind')
      }),
      /never mind/,
    )
    await compareNowAndFolded(database)
    assert.equal(await rowsOf(database, 'rate_limit_event'), 3)
  })

  test('a server folds whole steps of events, and counts an hour again that had a mark for a round', async (t) => {
    const { database, close } = await open()
    atEnd(t, close)
    const warnings: object[] = []
    const clock = fakeClock(NOW_MS)
    const keeper = new RollupKeeper({ database, clock, log: { warn: (details) => warnings.push(details) } })
    // Fewer are no round's work.
    const size = 1_000
    foldInSteps(database, size)
    await insertEvents(
      database,
      Array.from({ length: 2 * size + 5 }, (_, place) =>
        blocked(NOW_MS - (place % 48) * HOUR_MS, { key: `user:${place}` }),
      ),
    )
    await keeper.round()
    const { table } = database.dialect
    const [left] = await database.query<{ events: number }>(
      `SELECT COUNT(*) AS events FROM ${table('rate_limit_event')}
       WHERE id > (SELECT event_id FROM ${table('rate_limit_watermark')})`,
    )
    assert.equal(left?.events, 5)

    await database.execute(`DELETE FROM ${table('rate_limit_event')} WHERE key = 'user:7'`)
    await keeper.round()
    assert.equal((await markedHours(database)).length, 1)
    await keeper.round()
    assert.deepEqual([await markedHours(database), warnings], [[], []])
    await compareNowAndFolded(database)
  })

  test('an hour and a day keep 256 paths apart, and count all others as one', async (t) => {
    const { database, close } = await open()
    atEnd(t, close)
    const strange = Array.from({ length: 3_000 }, (_, place) => blocked(NOW_MS, { path: `/${place}` }))
    await insertEvents(database, Array(50).fill(blocked(NOW_MS, { path: '/busy' })))
    await insertEvents(database, strange)
    await foldRollups(database)
    // Once more: those that were folded away must not come to have rows of their own.
    await insertEvents(database, strange.toReversed())
    await foldRollups(database)

    assert.equal(await rowsOf(database, 'rate_limit_traffic_rollup'), 2 * 257)
    const report = await createReportRunner(database, fakeClock(NOW_MS))(dashboardReport({ days: 1 }))
    assert.equal(report.window.total, 6_050)
    assert.deepEqual(report.by_path.shares[0], { name: '/busy', total: 50, blocked: 50, would_block: 0, denied: 0 })
    assert.equal(report.by_path.shares.length, 20)
    const listed = report.by_path.shares.reduce((sum, { total }) => sum + total, 0)
    assert.equal(report.by_path.other.total, 6_050 - listed)

    const filtered = await createReportRunner(
      database,
      fakeClock(NOW_MS),
    )(dashboardReport({ days: 1, filter: { path: '/busy' } }))
    assert.equal(filtered.window.total, 50)
    assert.equal(filtered.unknown_paths, 6_000 - 255 * 2, 'which may have had such a path, or not')

    await database.execute(`DELETE FROM ${database.dialect.table('rate_limit_event')} WHERE path <> '/busy'`)
    await foldRollups(database)
    const after = await createReportRunner(database, fakeClock(NOW_MS))(dashboardReport({ days: 1 }))
    assert.deepEqual(after.by_path.shares, [{ name: '/busy', total: 50, blocked: 50, would_block: 0, denied: 0 }])
    assert.equal(after.window.total, 50)
  })

  test('what is deleted of paths that found no room is taken from what has no path, folded or not', async (t) => {
    const { database, close } = await open()
    atEnd(t, close)
    // Of single requests the room goes to the paths that sort first: none is left for /9….
    await insertEvents(
      database,
      Array.from({ length: 300 }, (_, place) => blocked(NOW_MS, { path: `/${place}` })),
    )
    await foldRollups(database)
    await insertEvents(database, [blocked(NOW_MS, { path: '/99' }), blocked(NOW_MS, { path: '/new' })])
    await database.execute(`DELETE FROM ${database.dialect.table('rate_limit_event')} WHERE path >= '/9'`)
    const read = createReportRunner(database, fakeClock(NOW_MS))

    // Until the hour is counted again it is read from the log, which knows all paths.
    const ways = [
      [async () => undefined, 0],
      [() => foldRollups(database), 289 - 256],
    ] as const
    for (const [fold, unknown] of ways) {
      await fold()
      const { window, by_path } = await read(dashboardReport({ days: 1 }))
      assert.equal(window.total, 289)
      assert.equal(by_path.other.total + by_path.shares.reduce((sum, { total }) => sum + total, 0), 289)
      const filtered = await read(dashboardReport({ days: 1, filter: { path: '/9' } }))
      assert.deepEqual([filtered.window.total, filtered.window.blocked], [0, 0])
      assert.equal(filtered.unknown_paths, unknown)
      assert.ok(filtered.over_time.bars.every(({ total }) => total === 0))
    }
  })

  test('rollups of a log that was deleted are gone, and its trend is not', async (t) => {
    const { client, database, close } = await open(fakeClock(NOW_MS))
    atEnd(t, close)
    const old = NOW_MS - 40 * DAY_MS
    await insertEvents(database, [
      blocked(old),
      blocked(old + HOUR_MS),
      blocked(old, { outcome: 'allowed' }),
      blocked(NOW_MS),
    ])
    await foldRollups(database)
    assert.equal(await client.rateLimitEvent.cleanupOld({ olderThanDays: 30 }), 3)
    await foldRollups(database)

    assert.equal(await rowsOf(database, 'rate_limit_traffic_rollup'), 2)
    assert.equal(await rowsOf(database, 'rate_limit_blocked_rollup'), 2)
    const { over_time, window } = await createReportRunner(database, fakeClock(NOW_MS))(dashboardReport({ days: 90 }))
    const bars = over_time.bars.filter(({ total }) => total > 0)
    assert.equal(window.total, 1)
    assert.deepEqual(
      bars.map(({ total, blocked }) => ({ total, blocked })),
      [
        { total: 3, blocked: 2 },
        { total: 1, blocked: 1 },
      ],
    )
  })

  test('events that come while an hour is counted again are counted once', async (t) => {
    const { database, close } = await open()
    atEnd(t, close)
    foldInSteps(database, 7)
    const hourMs = Math.floor(NOW_MS / HOUR_MS) * HOUR_MS
    const atMinute = (minute: number) => blocked(hourMs + minute * 60_000, { path: `/${minute}` })
    await insertEvents(
      database,
      Array.from({ length: 30 }, (_, minute) => atMinute(minute)),
    )
    await foldRollups(database)
    await database.execute(`DELETE FROM ${database.dialect.table('rate_limit_event')} WHERE id = 3`)
    const [hour = 0] = await markedHours(database)
    await recountHour(database, hour, NOW_MS, (run) => run().then(() => Number.POSITIVE_INFINITY))
    await insertEvents(database, [atMinute(0), atMinute(25)])
    assert.equal(await foldStep(database, NOW_MS, 1), false)
    await compareNowAndFolded(database)
    assert.deepEqual(await markedHours(database), [])
  })

  test('the minutes of the last two hours are counted as hours are, and later ones go', async (t) => {
    const { database, close } = await open()
    atEnd(t, close)
    const minuteMs = (place: number) => NOW_MS - place * 60_000
    await insertEvents(
      database,
      Array.from({ length: 200 }, (_, place) => blocked(minuteMs(place), { path: `/${place % 3}` })),
    )
    await foldRollups(database, NOW_MS)
    const minutes = () =>
      database.query<{ bucket: number; total: number }>(
        `SELECT bucket, SUM(total) AS total FROM ${database.dialect.table('rate_limit_traffic_rollup')}
         WHERE span = 1 GROUP BY bucket ORDER BY bucket DESC`,
      )
    const expected = (nowMs: number, totalOf: (minute: number) => number) =>
      Array.from({ length: 121 }, (_, place) => Math.floor(nowMs / 60_000) - place)
        .map((bucket) => ({ bucket, total: totalOf(bucket) }))
        .filter(({ total }) => total > 0)
    assert.deepEqual(
      await minutes(),
      expected(NOW_MS, () => 1),
    )

    const lateMs = NOW_MS + HOUR_MS
    await database.execute(`DELETE FROM ${database.dialect.table('rate_limit_event')} WHERE path = '/1'`)
    await insertEvents(database, [blocked(minuteMs(3)), blocked(lateMs)])
    await foldRollups(database, lateMs)
    const events = await readEvents(database)
    const logged = (minute: number) => events.filter(({ atMs }) => Math.floor(atMs / 60_000) === minute).length
    assert.deepEqual(await minutes(), expected(lateMs, logged))
  })

  test('clients are counted by what decided about them, and by what came of it', async (t) => {
    const { database, close } = await open()
    atEnd(t, close)
    const outcomes = ['allowed', 'blocked', 'would_block', 'denied', 'denied', 'unavailable'] as const
    await insertEvents(
      database,
      outcomes.map((outcome) => blocked(NOW_MS, { outcome, rule: 'api' })),
    )
    await insertEvents(database, [blocked(NOW_MS), blocked(NOW_MS, { key: 'b', outcome: 'allowed' })])
    await database.execute(
      `INSERT INTO ${database.dialect.table('rate_limit_event')}
         ("timestamp", key, rule_name, path, method, allowed, count, "limit")
       VALUES (${database.dialect.fromMs(String(NOW_MS))}, 'rule:api:user:7', 'api', '/', 'GET', true, 2, 1)`,
    )
    await foldRollups(database)
    for (const span of [60, 1440]) {
      const rows = await database.query(
        `SELECT client, policy, over_limit, would_block, denied, unavailable
         FROM ${database.dialect.table('rate_limit_client_rollup')} WHERE span = ${span} ORDER BY client, policy`,
      )
      assert.deepEqual(rows, [
        { client: 'key:ip:192.0.2.1', policy: 'api', over_limit: 1, would_block: 1, denied: 2, unavailable: 1 },
        { client: 'key:ip:192.0.2.1', policy: 'default', over_limit: 1, would_block: 0, denied: 0, unavailable: 0 },
        { client: 'user:7', policy: 'api', over_limit: 0, would_block: 1, denied: 0, unavailable: 0 },
      ])
    }
    const report = await createReportRunner(database, fakeClock(NOW_MS))(dashboardReport({ days: 1 }))
    assert.deepEqual(report.outcomes, { allowed: 2, would_block: 2, blocked: 3, denied: 2 })
  })

  test('a log whose ids begin anew is exact', async (t) => {
    const { database, close } = await open()
    atEnd(t, close)
    await insertEvents(database, Array(50).fill(blocked(NOW_MS)))
    await foldRollups(database)
    await database.execute(`DELETE FROM ${database.dialect.table('rate_limit_event')} WHERE id > 7`)
    await database.execute(
      database.dialect.provider === 'sqlite'
        ? 'DELETE FROM sqlite_sequence'
        : `ALTER SEQUENCE "${database.schema}".rate_limit_event_id_seq RESTART WITH 8`,
    )
    await insertEvents(database, Array(5).fill(blocked(NOW_MS, { path: '/anew' })))
    await compareNowAndFolded(database)
    await insertEvents(database, Array(5).fill(blocked(NOW_MS - HOUR_MS, { path: '/anew' })))
    await compareNowAndFolded(database)
  })
})

test('on SQLite, whatever INSERT does about a conflict is noticed', async (t) => {
  const { database, close } = await openTestDatabase('sqlite')
  atEnd(t, close)
  foldInSteps(database, 60)
  const columns = 'id, "timestamp", key, path, method, allowed, count, "limit"'
  await database.execute(`INSERT INTO rate_limit_event (${columns}) VALUES (5, ${NOW_MS}, 'a', '/', 'GET', 0, 1, 1)`)
  const again = `VALUES (5, ${NOW_MS - HOUR_MS}, 'b', '/b', 'POST', 1, 3, 1)`
  await database.execute(`INSERT OR IGNORE INTO rate_limit_event (${columns}) ${again}`)
  await compareNowAndFolded(database)
  await database.execute(`REPLACE INTO rate_limit_event (${columns}) ${again}`)
  await compareNowAndFolded(database)
  await assert.rejects(database.execute(`INSERT INTO rate_limit_event (${columns}) ${again}`), /UNIQUE/)
  await database.execute(
    `INSERT INTO rate_limit_event (${columns}) ${again} ON CONFLICT (id) DO UPDATE SET allowed = 0, key = 'c'`,
  )
  await compareNowAndFolded(database)
  // Enough to be folded in the midst of it.
  for (const policy of ['REPLACE', 'IGNORE', 'ROLLBACK', 'FAIL']) {
    await database.execute(
      `INSERT OR ${policy} INTO rate_limit_event ("timestamp", key, path, method, allowed, count, "limit")
       WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300)
       SELECT ${NOW_MS} - i * i * 3000, 'user:' || i % 100, '/' || i % 10, 'GET', i % 2, 2, 1 + i % 2 FROM n`,
    )
    await compareNowAndFolded(database)
  }
})

test('on SQLite, rows that others take the place of are noticed, however they do', async (t) => {
  const columns = 'id, "timestamp", key, path, method, allowed, count, "limit"'
  const insert = (id: number, path: string, policy = 'INSERT') =>
    `${policy} INTO rate_limit_event (${columns}) VALUES (${id}, ${NOW_MS}, 'a', '${path}', 'GET', 0, 1, 1)`
  const ways: readonly (readonly [before: string, ...then: string[]])[] = [
    // A row that stayed, and whose id is used again later.
    [insert(5, '/b', 'INSERT OR IGNORE'), 'DELETE FROM rate_limit_event', insert(5, '/c')],
    [insert(5, '/b', 'INSERT OR IGNORE'), 'UPDATE rate_limit_event SET id = 7', insert(5, '/c')],
    [
      insert(5, '/b', 'INSERT OR IGNORE'),
      'DELETE FROM rate_limit_event',
      'DELETE FROM sqlite_sequence',
      `INSERT INTO rate_limit_event ("timestamp", key, path, method, allowed, count, "limit")
       WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9)
       SELECT ${NOW_MS}, 'b', '/', 'GET', 0, 1, 1 FROM n`,
    ],
    [insert(6, '/b'), 'UPDATE OR REPLACE rate_limit_event SET id = 5 WHERE id = 6'],
    [insert(6, '/b'), "UPDATE OR REPLACE rate_limit_event SET rowid = 5, path = '/c' WHERE id = 6"],
    [insert(6, '/b'), 'UPDATE OR IGNORE rate_limit_event SET id = 5', 'DELETE FROM rate_limit_event', insert(5, '/')],
    [insert(-5, '/b'), insert(-5, '/c', 'REPLACE'), insert(0, '/b'), insert(0, '/c', 'REPLACE')],
  ]
  for (const recursive of ['OFF', 'ON']) {
    for (const [before, ...then] of ways) {
      const { database, url, close } = await openTestDatabase('sqlite')
      atEnd(t, close)
      const host = openSqliteFile(sqlitePath(url))
      host.pragma(`recursive_triggers = ${recursive}`)
      for (const sql of [insert(5, '/'), before, ...then]) host.exec(sql)
      host.close()
      await compareNowAndFolded(database)
    }
  }
})

test('on SQLite, an emptied log whose ids begin anew counts them as new ones', async (t) => {
  const { database, close } = await openTestDatabase('sqlite')
  atEnd(t, close)
  await insertEvents(database, Array(50).fill(blocked(NOW_MS)))
  await foldRollups(database)
  await database.execute('DELETE FROM rate_limit_event')
  await database.execute('DELETE FROM sqlite_sequence')
  await foldRollups(database)
  await insertEvents(database, Array(5).fill(blocked(NOW_MS, { path: '/anew' })))
  assert.deepEqual(await markedHours(database), [])
  await compareNowAndFolded(database)
})

test('on SQLite, four processes that write at once lose nothing', async (t) => {
  const { database, url, close } = await openTestDatabase('sqlite')
  atEnd(t, close)
  const writer = `
    import { openSqliteFile } from ${JSON.stringify(moduleUrl('src/database/sqlite-driver'))}
    const database = openSqliteFile(process.argv[1], { timeout: 10_000 })
    for (let round = 0; round < 30; round++) {
      database.exec(\`INSERT INTO rate_limit_event ("timestamp", key, path, method, allowed, count, "limit")
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20)
        SELECT ${NOW_MS} - i * 3000000, 'user:' || i % 20, '/' || i % 20, 'GET', i % 2, 1, 1 FROM n;
        DELETE FROM rate_limit_event WHERE id IN (SELECT id FROM rate_limit_event ORDER BY random() LIMIT 2)\`)
    }`
  const args = [...LOADER, '--input-type=module', '-e', writer, sqlitePath(url)]
  const run = promisify(execFile)
  await Promise.all(Array.from({ length: 4 }, () => run(process.execPath, args)))
  assert.equal(await rowsOf(database, 'rate_limit_event'), 4 * 30 * 18)
  await compareNowAndFolded(database)
})

test('on SQLite, timestamps of every kind are counted where the log has them', async (t) => {
  const { database, close } = await openTestDatabase('sqlite')
  atEnd(t, close)
  for (const timestamp of [
    "'2026-01-15 12:00:00'",
    "'no time'",
    "x'00'",
    `${NOW_MS}.5`,
    '-1',
    '-0.5',
    '0.5',
    '1e300',
    '9223372036854775807',
    "'1969-12-31 23:30:00'",
  ]) {
    await database.execute(
      `INSERT INTO rate_limit_event ("timestamp", key, path, method, allowed, count, "limit")
       VALUES (${timestamp}, 'a', '/', 'GET', 0, 1, 1)`,
    )
    await compareNowAndFolded(database)
  }
  await database.execute(`UPDATE rate_limit_event SET "timestamp" = '2026-01-14T10:00:00Z' WHERE id % 2 = 0`)
  await compareNowAndFolded(database)
  await database.execute('DELETE FROM rate_limit_event')
  await compareNowAndFolded(database)
  assert.equal(await rowsOf(database, 'rate_limit_traffic_rollup'), 0)
})

describe('on PostgreSQL', { skip: postgresqlMissing }, () => {
  test('infinity, TRUNCATE and ON CONFLICT are noticed', async (t) => {
    const { database, close } = await openTestDatabase('postgresql')
    atEnd(t, close)
    const table = database.dialect.table('rate_limit_event')
    const insert = `INSERT INTO ${table} (id, "timestamp", key, path, method, allowed, count, "limit")`
    await database.execute(
      `${insert} VALUES (1, 'infinity', 'a', '/', 'GET', false, 1, 1), (2, '-infinity', 'a', '/', 'GET', false, 1, 1),
       (3, '1969-12-31T23:59:59Z', 'a', '/', 'GET', false, 1, 1), (4, '2026-01-15T10:00:00Z', 'b', '/', 'GET', true, 1, 1)`,
    )
    await compareNowAndFolded(database)
    await database.execute(
      `${insert} VALUES (4, '2026-01-15T11:00:00Z', 'c', '/', 'GET', false, 1, 1), (5, now(), 'c', '/', 'GET', false, 1, 1)
       ON CONFLICT (id) DO UPDATE SET allowed = excluded.allowed, "timestamp" = excluded."timestamp"`,
    )
    await compareNowAndFolded(database)
    await database.execute(`${insert} VALUES (6, '2026-01-15T11:00:00Z', 'c', '/', 'GET', false, 1, 1)`)
    await database.execute(`TRUNCATE ${table}`)
    await compareNowAndFolded(database)
    assert.equal(await rowsOf(database, 'rate_limit_traffic_rollup'), 0)
    assert.ok((await rowsOf(database, 'rate_limit_trend')) > 0)
  })

  test('four writers at once neither deadlock nor lose anything', long(), async (t) => {
    const { database, url, schema, close } = await openTestDatabase('postgresql')
    atEnd(t, close)
    const writers = await Promise.all(Array.from({ length: 4 }, () => connect(url, schema)))
    atEnd(t, () => Promise.all(writers.map((writer) => writer.end())))
    await Promise.all(writers.map((writer, place) => writeForAWhile(writer, place)))
    assert.equal(await rowsOf(database, 'rate_limit_event'), 4 * 30 * 20 - 4 * 8 * 5)
    await compareNowAndFolded(database)
  })

  test('a transaction of a host that keeps its snapshot writes events while others fold', async (t) => {
    const { database, url, schema, close } = await openTestDatabase('postgresql')
    atEnd(t, close)
    const host = await connect(url, schema)
    atEnd(t, () => host.end())
    await host.query('BEGIN ISOLATION LEVEL SERIALIZABLE')
    await host.query('SELECT count(*) FROM rate_limit_event')
    await insertEvents(database, Array(500).fill(blocked(NOW_MS)))
    await foldRollups(database)
    await host.query(insertMany(500, 'host'))
    await host.query('COMMIT')
    await compareNowAndFolded(database)
  })

  test('an event that becomes visible late is counted, and does not hold up others', async (t) => {
    const { database, url, schema, close } = await openTestDatabase('postgresql')
    atEnd(t, close)
    const host = await connect(url, schema)
    atEnd(t, () => host.end())
    await host.query('BEGIN')
    await host.query(insertMany(10, 'host'))
    await insertEvents(database, Array(20).fill(blocked(NOW_MS)))
    assert.equal(await foldStep(database, NOW_MS, 1), false)
    await verifyRollups(database, NOW_MS)
    await compareReports(database, NOW_MS, 3)
    await host.query('COMMIT')
    await compareNowAndFolded(database)
    assert.deepEqual(await markedHours(database), [])
  })

  test('a transaction that keeps an older snapshot deletes and adds events that were folded since', async (t) => {
    const { database, url, schema, close } = await openTestDatabase('postgresql')
    atEnd(t, close)
    const host = await connect(url, schema)
    atEnd(t, () => host.end())
    await insertEvents(database, Array(20).fill(blocked(NOW_MS)))
    await host.query('BEGIN ISOLATION LEVEL REPEATABLE READ')
    await host.query('SELECT count(*) FROM rate_limit_event')
    await database.execute(`DELETE FROM ${database.dialect.table('rate_limit_event')} WHERE id = 5`)
    await foldRollups(database)
    await host.query('DELETE FROM rate_limit_event WHERE id = 3')
    await host.query(
      `INSERT INTO rate_limit_event (id, "timestamp", key, path, method, allowed, count, "limit")
       VALUES (5, to_timestamp(${NOW_MS - 5 * HOUR_MS} / 1000.0), 'a', '/', 'GET', false, 1, 1)`,
    )
    await host.query('COMMIT')
    await compareNowAndFolded(database)
  })

  test('TRUNCATE is refused to a transaction that keeps its snapshot, and so cannot take all there is', async (t) => {
    const { database, url, schema, close } = await openTestDatabase('postgresql')
    atEnd(t, close)
    const host = await connect(url, schema)
    atEnd(t, () => host.end())
    await host.query('BEGIN ISOLATION LEVEL REPEATABLE READ')
    await host.query('SELECT count(*) FROM rate_limit_event')
    await insertEvents(database, [blocked(NOW_MS)])
    await assert.rejects(host.query('TRUNCATE rate_limit_event'), /READ COMMITTED/)
    await host.query('ROLLBACK')
    await compareNowAndFolded(database)
    await host.query('BEGIN ISOLATION LEVEL READ UNCOMMITTED')
    await host.query('TRUNCATE rate_limit_event')
    await host.query('COMMIT')
    await compareNowAndFolded(database)
    assert.equal(await rowsOf(database, 'rate_limit_traffic_rollup'), 0)
  })
})

async function connect(url: string, schema: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  await client.query(`SET search_path TO "${schema}"`)
  return client
}

function insertMany(rows: number, key: string): string {
  return `INSERT INTO rate_limit_event ("timestamp", key, path, method, allowed, count, "limit")
    SELECT to_timestamp(${NOW_MS} / 1000.0) - (random() * 50) * interval '1 hour', '${key}:' || (random() * 20)::int,
      '/' || (random() * 20)::int, 'GET', random() < 0.5, 1, 1 FROM generate_series(1, ${rows})`
}

/** Inserts and deletes in statements of its own and in transactions of several, which meet the others' in any order. */
async function writeForAWhile(writer: pg.Client, place: number): Promise<void> {
  for (let round = 0; round < 30; round++) {
    const inTransaction = round % 3 === 0
    if (inTransaction) await writer.query('BEGIN')
    await writer.query(insertMany(10, `writer-${(place + round) % 4}`))
    await writer.query(insertMany(10, `writer-${place}`))
    if (round % 4 === 0) {
      await writer.query(
        `DELETE FROM rate_limit_event WHERE id IN (
           SELECT id FROM rate_limit_event WHERE key LIKE 'writer-${place}:%' ORDER BY id LIMIT 5 FOR UPDATE SKIP LOCKED)`,
      )
    }
    if (inTransaction) await writer.query('COMMIT')
  }
}
