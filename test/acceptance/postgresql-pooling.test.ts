/** PgBouncer gives each transaction another connection: with prepared statements all is exact, without them one line says so. */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { describe, type TestContext, test } from 'node:test'
import pg from 'pg'
import { openDatabase, startApp } from '../support/build-app.js'
import { postgresqlMissing } from '../support/databases.js'
import { eventually } from '../support/eventually.js'
import { pgbouncerMissing, preparedMissing, startPgbouncer } from '../support/pgbouncer.js'

const POOLING = /transaction pooling.*session pooling, or PgBouncer 1\.21 or later with max_prepared_statements above 0/

/** Creates the function that starts apps which share few connections to the server. */
async function startApps(t: TestContext, prepared: number) {
  const { url, schema } = await openDatabase(t, 'postgresql')
  const pooled = await startPgbouncer(t, url, prepared)
  const start = () =>
    startApp(t, {
      database: null,
      plugin: {
        database: pooled,
        schema,
        logEvents: true,
        useDynamicRules: true,
        middleware: { backend: 'database', defaultRate: '1000/d' },
      },
    })
  return { start, pooled }
}

describe('behind PgBouncer with transaction pooling', { skip: postgresqlMissing || pgbouncerMissing }, () => {
  test('with prepared statements, two apps are exact together', { skip: preparedMissing }, async (t) => {
    const { start } = await startApps(t, 100)
    const apps = [await start(), await start()]
    for (let round = 0; round < 3; round++) {
      const answers = await Promise.all(apps.flatMap(({ request }) => Array.from({ length: 50 }, () => request('/'))))
      assert.ok(answers.every(({ status }) => status === 200))
    }
    const [first] = apps
    assert.equal((await first?.request('/'))?.headers['x-ratelimit-remaining'], '699')
    for (const { app } of apps) await app.smartRateLimit.events.flush()
    assert.equal((await first?.app.smartRateLimit.analytics.getTrafficSummary({ days: 1 }))?.total, 301)
    for (const { log } of apps) assert.deepEqual(log, [])
  })

  test('without prepared statements, one line names the pooling, and onStoreError decides', async (t) => {
    const { start, pooled } = await startApps(t, 0)
    const { request, log } = await start()
    const requests = () => Promise.all(Array.from({ length: 50 }, () => request('/')))
    await eventually('statements are mixed', async () => {
      assert.ok((await requests()).every(({ status }) => status === 200))
      return log.length > 0
    })
    assert.equal(log.filter(({ err }) => POOLING.test(err?.message ?? '')).length, 1)
    for (const { err, cause } of log) assert.match(err?.message ?? cause ?? '', POOLING)

    // A name means the same to all processes: none runs the statement of another one.
    const client = new pg.Client({ connectionString: pooled })
    await client.connect()
    // Each transaction may have another connection, and not all have statements.
    let rows: { readonly name: string; readonly statement: string }[] = []
    await eventually('a connection with statements', async () => {
      await requests()
      ;({ rows } = await client.query('SELECT name, statement FROM pg_prepared_statements'))
      return rows.length > 0
    })
    await client.end()
    for (const { name, statement } of rows) {
      assert.equal(name, `fsr_${createHash('sha256').update(statement).digest('hex').slice(0, 32)}`)
    }
  })

  test('without prepared statements, the second app fails at start, and names the pooling', async (t) => {
    const { start } = await startApps(t, 0)
    await start()
    await assert.rejects(async () => {
      for (let apps = 0; apps < 6; apps++) await start()
    }, POOLING)
  })
})
