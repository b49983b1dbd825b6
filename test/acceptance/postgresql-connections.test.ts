/** What becomes of connections that are locked out, cut or dead: none is left behind, and none takes the process along. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { describe, type TestContext, test } from 'node:test'
import pg from 'pg'
import { createRateLimitClient } from '../../src/index.js'
import { atEnd } from '../support/at-end.js'
import { openDatabase, startApp } from '../support/build-app.js'
import { postgresqlMissing } from '../support/databases.js'
import { eventually } from '../support/eventually.js'
import { long } from '../support/long.js'
import { CONNECTIONS_PER_SERVER, openNamedPostgresql } from '../support/named-postgresql.js'

/** Longer than the driver waits for a statement. */
const GIVEN_UP_MS = 12_000

describe('on PostgreSQL', { skip: postgresqlMissing, concurrency: true }, () => {
  test('a lock that is held for long leaves no sessions behind that wait for it', long(), async (t) => {
    const { url, schema, name, sql, lock } = await openNamedPostgresql(t)
    const { request, app } = await startApp(t, { database: null, plugin: { database: url, schema, logEvents: true } })
    const sessions = async (condition = '') => {
      const { rows } = await sql(`SELECT pid FROM pg_stat_activity WHERE application_name = $1 ${condition}`, [name])
      return rows.map(({ pid }) => Number(pid))
    }
    const isWaiting = "AND wait_event_type = 'Lock' AND query LIKE '%rate_limit_event%'"
    await request('/')
    await app.smartRateLimit.events.flush()
    const unlock = await lock('rate_limit_event')

    let first: number | undefined
    await eventually('an insert waits', async () => {
      assert.equal((await request('/')).status, 200)
      first = (await sessions(isWaiting))[0]
      return first !== undefined
    })
    const isGone = async () => !(await sessions()).some((pid) => pid === first)
    await eventually('the server has given it up, and its session is gone', isGone, GIVEN_UP_MS)
    assert.ok((await sessions()).length <= CONNECTIONS_PER_SERVER)

    await unlock()
    await app.close()
    await eventually('all are gone', async () => (await sessions()).length === 0)
  })

  test('a report whose connection is cut fails, and the process lives', async (t) => {
    const { url, schema, name, sql, lock } = await openNamedPostgresql(t)
    const { app, request } = await startApp(t, { database: null, plugin: { database: url, schema, logEvents: true } })
    const unlock = await lock('rate_limit_rollup_mark')
    const report = app.smartRateLimit.analytics.getTrafficSummary().then(
      () => 'answered',
      () => 'failed',
    )
    const waiting = `FROM pg_stat_activity WHERE application_name = $1 AND wait_event_type = 'Lock'`
    await eventually('the report waits', async () => (await sql(`SELECT 1 ${waiting}`, [name])).rows.length > 0)

    await sql(`SELECT pg_terminate_backend(pid) ${waiting}`, [name])

    assert.equal(await report, 'failed')
    await unlock()
    assert.equal((await request('/')).status, 200)
    assert.equal((await app.smartRateLimit.analytics.getTrafficSummary()).total, 1)
  })

  test('a server with one connection, and no room for another one, counts, logs and reports as with many', async (t) => {
    const { url, schema } = await openDatabase(t, 'postgresql')
    const { limited, take } = await limitConnections(t, { url, schema, connections: 2 })
    await take()
    const plugin = {
      database: limited,
      schema,
      logEvents: true,
      middleware: { backend: 'database', defaultRate: '1000/d' } as const,
    }
    const { app, request, log } = await startApp(t, { database: null, plugin })
    const { analytics, events } = app.smartRateLimit

    for (let round = 0; round < 4; round++) {
      // More at once than one batch has.
      const requests = Array.from({ length: 100 }, () => request('/'))
      const [report] = await Promise.all([analytics.getTrafficSummary({ days: 1 }), ...requests])
      assert.ok(report.total >= 100 * round)
    }

    assert.equal((await request('/')).headers['x-ratelimit-remaining'], '599')
    await events.flush()
    assert.equal((await analytics.getTrafficSummary({ days: 1 })).total, 401)
    assert.deepEqual(log, [])
  })

  test('a client with room for one connection answers all that it is asked at once', async (t) => {
    const { url, schema } = await openDatabase(t, 'postgresql')
    const { limited } = await limitConnections(t, { url, schema, connections: 1 })
    const client = createRateLimitClient({ database: limited, schema })
    atEnd(t, () => client.$disconnect())
    await client.rateLimitRule.count()
    const answers = await Promise.all(Array.from({ length: 5 }, () => client.rateLimitRule.count()))
    assert.deepEqual(answers, Array(5).fill(0))
  })

  test('where all connections of a role are taken, the store counts as away until one is free', async (t) => {
    const { url, schema } = await openDatabase(t, 'postgresql')
    const { limited, take } = await limitConnections(t, { url, schema, connections: 1 })
    const free = await take()
    const plugin = { database: limited, schema, middleware: { backend: 'database', defaultRate: '1000/d' } as const }
    const { request, log } = await startApp(t, { database: null, plugin })
    assert.equal((await request('/')).status, 200)
    assert.ok(log.some(({ msg }) => msg.startsWith('Rate limit store failed')))

    await free()

    await eventually('the table counts', async () => {
      await request('/')
      return log.length > 0 && (await countersOf(url, schema)) > 0
    })
  })

  test('a report over connections that went dead fails, and does not keep the next one waiting', long(), async (t) => {
    const { url, schema, proxy } = await openNamedPostgresql(t)
    const { app } = await startApp(t, { database: null, plugin: { database: url, schema, logEvents: true } })
    const report = () =>
      app.smartRateLimit.analytics.getTrafficSummary().then(
        () => 'answered',
        () => 'failed',
      )
    assert.equal(await report(), 'answered')

    proxy.hang()
    assert.equal(await report(), 'failed')
    proxy.heal()

    // Another connection may be dead too, and has to be found out first.
    await eventually('reports are answered again', async () => (await report()) === 'answered', 2 * GIVEN_UP_MS)
  })
})

/** Makes a role that may have few connections to a schema, as poolers and hosted plans allow; `take` takes one of them. */
async function limitConnections(
  t: TestContext,
  { url, schema, connections }: { url: string; schema: string; connections: number },
) {
  const role = `few_${randomBytes(8).toString('hex')}`
  const admin = new pg.Client({ connectionString: url })
  await admin.connect()
  await admin.query(`CREATE ROLE ${role} LOGIN CONNECTION LIMIT ${connections}`)
  atEnd(t, async () => {
    await admin.query(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '${role}'`)
    await admin.query(`DROP OWNED BY ${role}; DROP ROLE ${role}`)
    await admin.end()
  })
  await admin.query(`GRANT USAGE ON SCHEMA ${schema} TO ${role}`)
  for (const kind of ['TABLES', 'SEQUENCES', 'FUNCTIONS']) {
    await admin.query(`GRANT ALL ON ALL ${kind} IN SCHEMA ${schema} TO ${role}`)
  }
  const limited = Object.assign(new URL(url), { username: role, password: '' }).href
  return {
    limited,
    /** Takes a connection; the answer gives it back. */
    async take() {
      const client = new pg.Client({ connectionString: limited })
      client.on('error', () => undefined)
      await client.connect()
      return () => client.end()
    },
  }
}

async function countersOf(url: string, schema: string): Promise<number> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  const { rows } = await client.query(`SELECT count(*) AS count FROM ${schema}.rate_limit_counter`)
  await client.end()
  return Number(rows[0]?.count)
}
