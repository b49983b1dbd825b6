/** Hours are counted once, by any process, whatever happens between two steps, and before their events are deleted. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import pg from 'pg'
import { Database } from '../../../src/database/database.js'
import { DAY_MS, HOUR_MS } from '../../../src/ground/time/clock.js'
import { eventValues, insertEventsSql } from '../../../src/log/event.js'
import { foldAll } from '../../../src/log/rollups/catch-up.js'
import { eventSums } from '../../../src/log/rollups/counting.js'
import { markedHours, recountHour } from '../../../src/log/rollups/fold.js'
import { atEnd } from '../../support/at-end.js'
import { forEachDatabase } from '../../support/databases.js'
import { EVENT } from '../../support/events.js'
import { long } from '../../support/long.js'

const HOUR = Math.floor(Date.now() / HOUR_MS) - 48
const START_MS = HOUR * HOUR_MS
const NOW_MS = START_MS + 5 * HOUR_MS

forEachDatabase((provider, open) => {
  test('two processes that count an hour again count it once', long(), async (t) => {
    const { database, url, schema, steps, touch, counted } = await start(t)
    const other = new Database(url, schema)
    atEnd(t, () => other.close())
    await steps(3)
    await foldAll(database, NOW_MS)
    for (let times = 0; times < 3; times++) {
      await touch()
      await Promise.all([recountHour(database, HOUR, NOW_MS), recountHour(other, HOUR, NOW_MS)])
      await countMarked(database)
      await counted()
    }
  })

  test('an hour whose events change between two steps is counted anew, and not stuck', long(), async (t) => {
    const { database, steps, touch, counted, table } = await start(t)
    await steps(3)
    await foldAll(database, NOW_MS)
    for (const change of [touch, () => database.execute(`DELETE FROM ${table} WHERE id % 7 = 3`)]) {
      await touch()
      let taken = 0
      await recountHour(database, HOUR, NOW_MS, async (step) => {
        const next = await step()
        if (++taken === 1) await change()
        return next
      })
      await countMarked(database)
      await counted()
    }
  })

  test('ids with gaps are folded, those that are wider than a step too', async (t) => {
    const { database, add, counted, table } = await start(t)
    Object.assign(database, { dialect: { ...database.dialect, eventsPerFold: 100 } })
    await add(450)
    await database.execute(`DELETE FROM ${table} WHERE id BETWEEN 30 AND 290 OR id % 3 = 0 AND id > 290`)
    await foldAll(database, NOW_MS)
    await counted()
    await add(50)
    await foldAll(database, NOW_MS)
    await counted()
  })

  test('events are added up without sorting them, also in a log that was never analyzed', {
    skip: provider !== 'postgresql' && 'SQLite always sorts',
  }, async (t) => {
    const { database, add, url, table } = await start(t)
    const { dialect } = database
    await database.execute(`ALTER TABLE ${table} SET (autovacuum_enabled = off)`)
    await add(20_000)
    const connection = new pg.Client({ connectionString: url })
    await connection.connect()
    atEnd(t, () => connection.end())
    await connection.query('BEGIN')
    const sums = eventSums(dialect, 'id > 100 AND id <= 10100')
    const [settings, statement] = dialect.readOnce(sums, [`SELECT COUNT(*) FROM ${sums.name}`], [])
    await connection.query(settings?.sql ?? '')
    const { rows } = await connection.query<{ 'QUERY PLAN': string }>(`EXPLAIN ${statement?.sql}`)
    assert.doesNotMatch(rows.map((line) => line['QUERY PLAN']).join('\n'), /Sort|JIT/)
  })

  test('events that are deleted for their age are in the trend', async (t) => {
    const { database, client, add } = await start(t)
    await add(900)
    await database.execute(
      `UPDATE ${database.dialect.table('rate_limit_event')} SET "timestamp" = ${database.dialect.fromMs('$1')}`,
      [Date.now() - 40 * DAY_MS],
    )
    assert.equal(await client.rateLimitEvent.cleanupOld(), 900)
    const [{ total } = { total: 0 }] = await database.query<{ total: number }>(
      `SELECT SUM(total) AS total FROM ${database.dialect.table('rate_limit_trend')}`,
    )
    assert.equal(Number(total), 900)
    // Their sums are gone with them, in the same call.
    const [{ rows } = { rows: -1 }] = await database.query<{ rows: number }>(
      `SELECT COUNT(*) AS rows FROM ${database.dialect.table('rate_limit_traffic_rollup')}`,
    )
    const marked = (await markedHours(database)).filter((hour) => hour < HOUR)
    assert.deepEqual([Number(rows), marked], [0, []])
  })

  async function start(t: TestContext) {
    const { client, database, url, schema, close } = await open()
    atEnd(t, close)
    const { dialect } = database
    const table = dialect.table('rate_limit_event')
    let added = 0
    async function add(count: number): Promise<void> {
      for (let left = count; left > 0; left -= 1_000) {
        const rows = Array.from({ length: Math.min(left, 1_000) }, () =>
          eventValues({ ...EVENT, timestampMs: START_MS + (added++ % 3_500) * 1_000 }),
        )
        await database.execute(insertEventsSql(dialect), [JSON.stringify(rows)])
      }
    }
    return {
      client,
      database,
      url,
      schema,
      table,
      add,
      /** Adds more events than one step counts, for so many steps. */
      steps: (count: number) => add(dialect.eventsPerFold * count),
      touch: () => database.execute(`UPDATE ${table} SET count = count + 1 WHERE id = (SELECT MIN(id) FROM ${table})`),
      async counted() {
        const sum = async (from: string) =>
          Number((await database.query<{ total: number }>(`SELECT ${from}`)).at(0)?.total)
        const rollup = dialect.table('rate_limit_traffic_rollup')
        const logged = await sum(`COUNT(*) AS total FROM ${table}`)
        assert.equal(await sum(`SUM(total) AS total FROM ${rollup} WHERE span = 60`), logged)
        assert.equal(await sum(`SUM(total) AS total FROM ${rollup} WHERE span = 1440`), logged)
      },
    }
  }
})

async function countMarked(database: Database): Promise<void> {
  for (let round = 0; round < 5; round++) {
    for (const hour of await markedHours(database)) await recountHour(database, hour, NOW_MS)
  }
  assert.deepEqual(await markedHours(database), [])
}
