/** The partitioned log behaves as the one table, and whole partitions leave at once. */
import assert from 'node:assert/strict'
import { describe, type TestContext, test } from 'node:test'
import pg from 'pg'
import { Database } from '../../src/database/database.js'
import { addPartitions, partitionEvents, readPartitions } from '../../src/database/partitions.js'
import { DAY_MS, HOUR_MS } from '../../src/ground/time/clock.js'
import { verifyRollups } from '../../src/log/rollups/catch-up.js'
import { cleanupOldEvents } from '../../src/log/rollups/retention.js'
import { atEnd } from '../support/at-end.js'
import { openDatabase } from '../support/build-app.js'
import { fakeClock } from '../support/clock.js'
import { compareReports } from '../support/compare-reports.js'
import { openTestDatabase, postgresqlMissing } from '../support/databases.js'
import { insertEvents, type NewEvent } from '../support/events.js'
import { eventually } from '../support/eventually.js'
import { long } from '../support/long.js'
import { readEvents } from '../support/recount.js'
import { foldRollups } from '../support/rollups.js'

const NOW_MS = Date.UTC(2026, 0, 15, 12, 34, 56, 789)

/** Events of some days, of five clients, one an hour. */
function eventsOf(fromDays: number, toDays: number): NewEvent[] {
  const hours = Array.from({ length: (fromDays - toDays) * 24 }, (_, hour) => hour)
  return hours.map((hour) => ({
    atMs: NOW_MS - fromDays * DAY_MS + hour * HOUR_MS,
    key: `ip:192.0.2.${hour % 5}`,
    rule: hour % 3 === 0 ? 'a' : '',
    path: '/a',
    method: 'GET',
    outcome: hour % 2 === 0 ? 'allowed' : 'blocked',
    rules: hour % 7 === 0 ? '+a:-b' : '',
    weight: 1 + (hour % 3),
  }))
}

async function start(t: TestContext) {
  const clock = fakeClock(NOW_MS)
  const opened = await openDatabase(t, 'postgresql', clock)
  const { database } = opened
  const events = database.dialect.table('rate_limit_event')
  const sequence = database.dialect.table('rate_limit_event_id_seq')
  return {
    ...opened,
    clock,
    events,
    /** Lets the next events have ids from the range after the present one. */
    async skipRange() {
      const [{ last } = { last: 0 }] = await database.query<{ last: number }>(
        `SELECT last_value AS last FROM ${sequence}`,
      )
      const range = (await readPartitions(database)).find(({ to }) => to > last)
      await database.query(`SELECT setval('${sequence}', ${range?.to})`)
    },
  }
}

describe('on PostgreSQL', { skip: postgresqlMissing }, () => {
  test('the table that is there becomes the first partition, and the log goes on as before', long(), async (t) => {
    const { database, schema, client } = await start(t)
    await insertEvents(database, eventsOf(3, 1))
    await foldRollups(database, NOW_MS)
    await insertEvents(database, eventsOf(1, 0))
    const before = await readEvents(database)
    assert.equal(await partitionEvents(database), true)
    assert.equal(await partitionEvents(database), false)
    assert.deepEqual(await readEvents(database), before)
    await compareReports(database, NOW_MS, 5, { rule: 'a' })
    const { id } = await client.rateLimitEvent.create({
      data: { key: 'ip:192.0.2.1', path: '/', method: 'GET', allowed: false, count: 2, limit: 1 },
    })
    assert.equal(id, 73)
    await client.rateLimitEvent.update({ where: { id: 3 }, data: { key: 'ip:192.0.2.9' } })
    await client.rateLimitEvent.delete({ where: { id: 4 } })
    await foldRollups(database, NOW_MS)
    await compareReports(database, NOW_MS, 5, { rule: 'a' })
    await database.execute(`TRUNCATE ${database.dialect.table('rate_limit_event')}`)
    await compareReports(database, NOW_MS, 5)
    const [named] = await database.query<{ name: string }>(
      `SELECT pg_get_serial_sequence('${schema}.rate_limit_event', 'id') AS name`,
    )
    assert.equal(named?.name, `${schema}.rate_limit_event_id_seq`)
  })

  test('pruning drops what is wholly older, deletes the other old rows, and keeps all sums', long(), async (t) => {
    const { database, clock, skipRange } = await start(t)
    await partitionEvents(database)
    for (const [from, to] of [
      [33, 32],
      [32, 29],
      [29, 28],
    ] as const) {
      await insertEvents(database, eventsOf(from, to))
      await skipRange()
      await addPartitions(database)
    }
    const events = await readEvents(database)
    const old = await database.query<{ count: number }>(
      `SELECT COUNT(*) AS count FROM ${database.dialect.table('rate_limit_event')} WHERE "timestamp" < ${database.dialect.fromMs('$1')}`,
      [NOW_MS - 30 * DAY_MS],
    )
    const names = async () => (await readPartitions(database)).map(({ name }) => name)
    const [first, second] = await names()
    assert.equal(await cleanupOldEvents(database, clock, { dryRun: true }), old[0]?.count)
    assert.equal(await cleanupOldEvents(database, clock), old[0]?.count)
    const left = await names()
    assert.ok(first !== undefined && !left.includes(first))
    assert.ok(second !== undefined && left.includes(second))
    assert.deepEqual(
      await readEvents(database),
      events.filter(({ atMs }) => atMs >= NOW_MS - 30 * DAY_MS),
    )
    await compareReports(database, NOW_MS, 60, { rule: 'a' })
    await verifyRollups(database, NOW_MS)
    await compareReports(database, NOW_MS, 60)
    assert.equal(await cleanupOldEvents(database, clock), 0)
  })

  test('an id without a range is in the log all the same, and later ranges begin behind it', long(), async (t) => {
    const { database, clock, events } = await start(t)
    await partitionEvents(database)
    const last = Math.max(...(await readPartitions(database)).map(({ to }) => to))
    await database.query(`SELECT setval('${database.dialect.table('rate_limit_event_id_seq')}', ${last + 5})`)
    await insertEvents(database, eventsOf(40, 39))
    await addPartitions(database)
    const later = (await readPartitions(database)).filter(({ from }) => from >= last)
    assert.ok(later.length >= 3)
    assert.ok(later.every(({ from }) => from > last + 30))
    const stored = await database.query<{ table: string }>(
      `SELECT DISTINCT tableoid::regclass::text AS table FROM ${events}`,
    )
    assert.match(stored.map(({ table }) => table).join(), /rate_limit_event_others$/)
    await compareReports(database, NOW_MS, 60)
    assert.equal(await cleanupOldEvents(database, clock), 24)
  })

  test('of several processes that partition the log at once one does, and no id is refused afterwards', async (t) => {
    const { database, url, schema, events } = await start(t)
    await insertEvents(database, eventsOf(2, 1))
    const settled = await Promise.allSettled(Array.from({ length: 3 }, () => partitionEvents(database)))
    const failed = settled.flatMap((each) => (each.status === 'rejected' ? [String(each.reason)] : []))
    assert.ok(
      failed.every((message) => message.includes('run this again')),
      failed.join(),
    )
    await partitionEvents(database)
    const direct = new pg.Client({ connectionString: url })
    await direct.connect()
    atEnd(t, () => direct.end())
    const { rows } =
      await direct.query(`SELECT conrelid::regclass FROM pg_constraint WHERE conname = 'rate_limit_event_ids'
      AND connamespace = '${schema}'::regnamespace`)
    assert.deepEqual(rows, [])
    await direct.query(`SELECT setval('${database.dialect.table('rate_limit_event_id_seq')}', 5000000000)`)
    await insertEvents(database, eventsOf(1, 0))
    const { rows: counted } = await direct.query(`SELECT COUNT(*) AS count FROM ${events}`)
    assert.equal(Number(counted[0].count), 48)
  })

  test('a change to partitions that was killed refuses no ids once the log was pruned', async (t) => {
    const { database, clock, events } = await start(t)
    await database.execute(`ALTER TABLE ${events} ADD CONSTRAINT rate_limit_event_ids CHECK (id < 10) NOT VALID`)
    await assert.rejects(insertEvents(database, eventsOf(2, 1)), /rate_limit_event_ids/)
    await cleanupOldEvents(database, clock)
    await insertEvents(database, eventsOf(2, 1))
    const [stored] = await database.query<{ rows: number }>(`SELECT COUNT(*) AS rows FROM ${events}`)
    assert.equal(stored?.rows, 24)
  })

  test('an id far ahead that a statement gave keeps no range from being made or kept', async (t) => {
    const { database, clock, events, skipRange } = await start(t)
    await partitionEvents(database)
    await database.execute(
      `INSERT INTO ${events} (id, key, path, method, allowed, count, "limit", "timestamp")
       VALUES (9000000000000, 'a', '/', 'GET', true, 1, 2, ${database.dialect.fromMs(String(NOW_MS))})`,
    )
    await insertEvents(database, eventsOf(40, 39))
    await skipRange()
    await insertEvents(database, eventsOf(1, 0))
    assert.equal(await cleanupOldEvents(database, clock), 24)
    assert.equal(await cleanupOldEvents(database, clock), 0)
    const [present, ...ahead] = await readPartitions(database)
    assert.ok(present !== undefined && present.from > 0 && present.to - present.from < 1_000_000)
    assert.ok(ahead.length >= 3)
    await compareReports(database, NOW_MS, 60)
  })

  test('a role that does not own the log prunes it row by row', long(), async (t) => {
    const { database, url, schema, clock, skipRange } = await start(t)
    await insertEvents(database, eventsOf(40, 39))
    await partitionEvents(database)
    await skipRange()
    await insertEvents(database, eventsOf(1, 0))
    const role = `${schema}_pruner`
    const direct = new pg.Client({ connectionString: url })
    await direct.connect()
    atEnd(t, () => direct.end())
    await direct.query(`CREATE ROLE ${role} LOGIN; GRANT USAGE ON SCHEMA ${schema} TO ${role};
      GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA ${schema} TO ${role};
      GRANT USAGE, SELECT, UPDATE ON ALL SEQUENCES IN SCHEMA ${schema} TO ${role}`)
    atEnd(t, () => direct.query(`DROP OWNED BY ${role}; DROP ROLE ${role}`))
    const address = new URL(url)
    address.username = role
    const theirs = new Database(address.href, schema, { mayUseThreads: false })
    atEnd(t, () => theirs.close())
    const before = await readPartitions(database)
    assert.equal(await cleanupOldEvents(theirs, clock), 24)
    assert.deepEqual(await readPartitions(database), before)
    await compareReports(database, NOW_MS, 60)
  })

  test('every partition has its primary key as replica identity, as a publication needs it', async (t) => {
    const { database, schema } = await start(t)
    await partitionEvents(database)
    const partitions = await database.query<{ name: string; fit: boolean }>(
      `SELECT relname AS name, relreplident = 'd' AND EXISTS (
         SELECT 1 FROM pg_index WHERE indrelid = pg_class.oid AND indisprimary) AS fit
       FROM pg_class WHERE relnamespace = '${schema}'::regnamespace AND relkind IN ('r', 'p')
         AND (relispartition OR relname = 'rate_limit_event')`,
    )
    assert.ok(partitions.length > 3, `${partitions.length} tables`)
    assert.deepEqual(
      partitions.filter(({ fit }) => !fit),
      [],
    )
  })

  test('a filter by time reads the index of each partition, and none as a whole', async (t) => {
    const { database, events, skipRange } = await start(t)
    await partitionEvents(database)
    await insertEvents(database, eventsOf(30, 20))
    await skipRange()
    await insertEvents(database, eventsOf(20, 0))
    await database.execute(`ANALYZE ${events}`)
    const plan = await database.query<{ 'QUERY PLAN': string }>(
      `EXPLAIN (COSTS OFF) SELECT COUNT(*) FROM ${events} WHERE "timestamp" >= to_timestamp(${(NOW_MS - HOUR_MS) / 1000})`,
    )
    const text = plan.map((row) => row['QUERY PLAN']).join('\n')
    assert.match(text, /Index (?:Only )?Scan/)
    assert.doesNotMatch(text, /Seq Scan on rate_limit_event_first/)
  })

  test('a role that may only use the log can, and a transaction that uses it delays the change', async (t) => {
    const { database, url, schema, events } = await start(t)
    const role = `${schema}_app`
    const direct = new pg.Client({ connectionString: url })
    await direct.connect()
    atEnd(t, () => direct.end())
    await direct.query(`CREATE ROLE ${role}; GRANT USAGE ON SCHEMA ${schema} TO ${role}`)
    atEnd(t, () => direct.query(`DROP OWNED BY ${role}; DROP ROLE ${role}`))
    await direct.query(`GRANT SELECT, INSERT ON ALL TABLES IN SCHEMA ${schema} TO ${role} WITH GRANT OPTION;
      GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA ${schema} TO ${role}`)
    await direct.query(`BEGIN; SELECT * FROM ${events}`)
    const changed = partitionEvents(database)
    await eventually('the change waits for the transaction', async () => {
      const { rowCount } = await direct.query(
        `SELECT FROM pg_locks WHERE NOT granted AND relation = '${events}'::regclass`,
      )
      return rowCount === 1
    })
    await insertEvents(database, eventsOf(1, 0))
    await direct.query('COMMIT')
    assert.equal(await changed, true)
    await direct.query(`SET ROLE ${role}`)
    await direct.query(
      `INSERT INTO ${events} (key, path, method, allowed, count, "limit") VALUES ('a', '/', 'GET', true, 1, 2)`,
    )
    const { rows } = await direct.query(`SELECT COUNT(*) AS count FROM ${events}`)
    assert.equal(Number(rows[0].count), 25)
    await direct.query('RESET ROLE')
  })
})

test('a log in a SQLite file stays one table', async (t) => {
  const { database, close } = await openTestDatabase('sqlite')
  t.after(close)
  await assert.rejects(partitionEvents(database), /can be partitioned on PostgreSQL only/)
})
