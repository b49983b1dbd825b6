/** What a host makes of values of PostgreSQL for its own queries changes nothing here. */
import assert from 'node:assert/strict'
import { describe, type TestContext, test } from 'node:test'
import pg from 'pg'
import { RATE_ALGORITHMS } from '../../src/limiter/algorithm.js'
import { atEnd } from '../support/at-end.js'
import { openDatabase, startApp } from '../support/build-app.js'
import { postgresqlMissing } from '../support/databases.js'

const { builtins, getTypeParser, setTypeParser } = pg.types

/** What hosts set is among these: numbers, decimals and moments of a library, or plain texts. */
const PARSERS = new Map<number, (text: string) => unknown>([
  [builtins.INT8, BigInt],
  [builtins.NUMERIC, (text) => ({ decimal: text })],
  [builtins.FLOAT8, (text) => ({ decimal: text })],
  [builtins.TIMESTAMPTZ, (text) => ({ moment: text })],
  [builtins.TIMESTAMP, (text) => ({ moment: text })],
  [builtins.JSON, (text) => text],
  [builtins.JSONB, (text) => text],
  [builtins.BOOL, (text) => text],
  [builtins.INT2, (text) => text],
  [builtins.INT4, (text) => text],
  [builtins.TEXT, (text) => ({ text })],
  [builtins.VARCHAR, (text) => ({ text })],
])

/** Sets them for all of the process, as a host does, until the end of the test. */
function setParsers(t: TestContext): void {
  for (const [oid, parse] of PARSERS) {
    const before = getTypeParser(oid)
    setTypeParser(oid, parse)
    atEnd(t, () => setTypeParser(oid, before))
  }
}

describe('on PostgreSQL', { skip: postgresqlMissing }, () => {
  test("counters, rules, events and reports are read alike whatever the host has the driver make of its own queries' values", async (t) => {
    setParsers(t)
    const database = await openDatabase(t, 'postgresql')
    const { app, clock, log, statuses } = await startApp(t, {
      database,
      plugin: { logEvents: true, useDynamicRules: true, middleware: { backend: 'database' } },
    })
    const { analytics, client, events, rules } = app.smartRateLimit
    const startsAt = new Date(clock.now())
    for (const algorithm of RATE_ALGORITHMS) {
      await client.rateLimitRule.create({
        data: { name: algorithm, pathPattern: `^/${algorithm}$`, rate: '2/m', algorithm, startsAt },
      })
    }
    await rules.reload()

    for (const algorithm of RATE_ALGORITHMS) assert.deepEqual(await statuses(3, `/${algorithm}`), [200, 200, 429])
    await events.flush()
    const { total, blocked } = await analytics.getTrafficSummary()
    assert.deepEqual({ total, blocked }, { total: 12, blocked: 4 })
    const [event] = await client.rateLimitEvent.findMany({ orderBy: { id: 'asc' } })
    assert.deepEqual([event?.id, event?.allowed, event?.count, event?.path], [1, true, 1, '/fixed_window'])
    assert.deepEqual(event?.timestamp, startsAt)
    const [change] = await rules.history('fixed_window')
    assert.deepEqual([change?.action, change?.after?.startsAt], ['create', startsAt.getTime()])
    assert.deepEqual(log, [])

    const host = new pg.Client(database.url)
    await host.connect()
    atEnd(t, () => host.end())
    const { rows } = await host.query('SELECT 1::bigint AS one, false AS none')
    assert.deepEqual(rows, [{ one: 1n, none: 'f' }])
  })
})
