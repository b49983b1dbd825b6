/** What becomes of connections that are locked out, cut or dead: none is left behind, and none takes the process along. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { startApp } from '../support/build-app.js'
import { postgresqlMissing } from '../support/databases.js'
import { eventually } from '../support/eventually.js'
import { CONNECTIONS_PER_SERVER, openNamedPostgresql } from '../support/named-postgresql.js'

/** Longer than the driver waits for a statement. */
const GIVEN_UP_MS = 12_000

describe('on PostgreSQL', { skip: postgresqlMissing, concurrency: true }, () => {
  test('a lock that is held for long leaves no sessions behind that wait for it', async (t) => {
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

  test('a report over connections that went dead fails, and does not keep the next one waiting', async (t) => {
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
