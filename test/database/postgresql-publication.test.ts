/** Under a publication, as change data capture makes one, PostgreSQL refuses changes of tables without an identity. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import pg from 'pg'
import { databaseFor } from '../../src/database/database.js'
import { DAY_MS } from '../../src/ground/time/clock.js'
import { migrate } from '../../src/index.js'
import { verifyRollups } from '../../src/log/rollups/catch-up.js'
import { atEnd } from '../support/at-end.js'
import { openDatabase, startApp } from '../support/build-app.js'
import { fakeClock } from '../support/clock.js'
import { postgresqlMissing } from '../support/databases.js'
import { long } from '../support/long.js'
import { createDatabase } from '../support/postgresql-databases.js'

describe('on PostgreSQL', { skip: postgresqlMissing }, () => {
  test('every table is logged, and has a replica identity', async (t) => {
    const { schema, database } = await openDatabase(t, 'postgresql')
    const tables = await database.query<{ name: string; fit: boolean }>(
      `SELECT relname AS name, relpersistence = 'p' AND (relreplident = 'f' OR relreplident = 'd'
         AND EXISTS (SELECT 1 FROM pg_index WHERE indrelid = pg_class.oid AND indisprimary)) AS fit
       FROM pg_class WHERE relnamespace = '${schema}'::regnamespace AND relkind IN ('r', 'p')`,
    )
    assert.ok(tables.length > 20)
    assert.deepEqual(
      tables.filter(({ fit }) => !fit),
      [],
    )
  })

  test('under a publication of all tables the log is folded, verified, pruned and emptied', long(), async (t) => {
    const { url } = await createDatabase(t, {})
    await migrate({ database: url })
    const direct = new pg.Client({ connectionString: url })
    await direct.connect()
    atEnd(t, () => direct.end())
    await direct.query('CREATE PUBLICATION everything FOR ALL TABLES')
    const clock = fakeClock()
    const { app, statuses, log } = await startApp(t, {
      database: null,
      clock,
      plugin: { database: url, logEvents: true, useDynamicRules: true, middleware: { backend: 'database' } },
    })
    const { client, events, analytics } = app.smartRateLimit
    const total = async () => (await analytics.getTrafficSummary({ days: 365 })).total
    await statuses(6, '/')
    await events.flush()
    await direct.query(
      `UPDATE fastify_smart_ratelimit.rate_limit_event SET timestamp = timestamp - interval '40 days' WHERE id <= 4`,
    )

    const { id } = await client.rateLimitRule.create({ data: { name: 'a', pathPattern: '^/a', rate: '1/m' } })
    await client.rateLimitRule.update({ where: { id }, data: { rate: '2/m' } })
    await client.rateLimitRule.delete({ where: { id } })
    await verifyRollups(databaseFor(client), clock.now())
    assert.equal(await total(), 6)
    assert.equal(await client.rateLimitEvent.cleanupOld({ olderThanDays: 30 }), 4)
    await verifyRollups(databaseFor(client), clock.now() + DAY_MS)
    assert.equal(await total(), 2)
    await app.smartRateLimit.reset('ip:127.0.0.1')
    await direct.query('TRUNCATE fastify_smart_ratelimit.rate_limit_event')
    assert.equal(await total(), 0)
    assert.deepEqual(log, [])
  })
})
