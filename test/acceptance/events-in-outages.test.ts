/** Events outlive what befalls their database, and with a spool also what befalls their server. */
import assert from 'node:assert/strict'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, type TestContext, test } from 'node:test'
import { type Database, databaseFor } from '../../src/database/database.js'
import { openSqliteFile } from '../../src/database/sqlite-driver.js'
import { migrate, type RateLimitOptions } from '../../src/index.js'
import { createRateLimitClient } from '../../src/plugin/client/client.js'
import { atEnd } from '../support/at-end.js'
import { openDatabase, startApp } from '../support/build-app.js'
import { postgresqlMissing } from '../support/databases.js'
import { eventually } from '../support/eventually.js'
import { long } from '../support/long.js'
import { openNamedPostgresql } from '../support/named-postgresql.js'
import { ownPostgresqlMissing, startOwnPostgresql } from '../support/own-postgresql.js'
import { type StreamClient, startRequestStream } from '../support/request-stream.js'
import { startEventLoad } from '../support/start-event-load.js'
import { startProxyBefore } from '../support/tcp-proxy.js'

const CLIENTS = 10
const ANSWERS = 150
const RECOVERY_MS = 15_000

/** Runs a server under load through an outage, and proves that each request is one event, in the order of the requests. */
async function proveNothingIsLost(
  t: TestContext,
  plugin: RateLimitOptions,
  { begin, end = () => undefined }: { begin: () => unknown; end?: () => unknown },
): Promise<void> {
  const { app, port } = await startApp(t, {
    database: null,
    plugin: { logEvents: true, ...plugin, middleware: { defaultRate: '1000000/d' } },
  })
  const { events, client } = app.smartRateLimit
  const stream = startRequestStream(
    port,
    Array.from({ length: CLIENTS }, (): StreamClient => ({ path: '/' })),
  )
  atEnd(t, () => stream.stop().catch(() => undefined))
  await stream.answered(ANSWERS)
  await begin()
  await eventually('a write fails', () => events.stats().lastError !== null, RECOVERY_MS)
  await stream.answered(ANSWERS)
  await end()
  await stream.answered(ANSWERS)
  await stream.stop()
  const answered = stream.samples.length
  await eventually('all is written', () => events.stats().written === answered, RECOVERY_MS)

  const { dropped, buffered, spooled } = events.stats()
  assert.deepEqual({ dropped, buffered, spooled }, { dropped: 0, buffered: 0, spooled: 0 })
  assert.deepEqual(await countsIn(databaseFor(client)), countTo(answered))
}

/** The counts of the events in the order in which they were written; those of one client are its requests. */
async function countsIn({ dialect, query }: Database): Promise<number[]> {
  const rows = await query<{ count: number }>(`SELECT count FROM ${dialect.table('rate_limit_event')} ORDER BY id`)
  return rows.map(({ count }) => Number(count))
}

function countTo(last: number): number[] {
  return Array.from({ length: last }, (_, place) => place + 1)
}

async function openFolder(t: TestContext): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'ratelimit-spool-'))
  atEnd(t, () => rm(folder, { recursive: true, force: true }))
  return folder
}

describe('no event is lost, doubled or out of order when PostgreSQL', { skip: postgresqlMissing }, () => {
  for (const withSpool of [false, true]) {
    const where = withSpool ? ', with a spool' : ''
    async function open(t: TestContext) {
      const opened = await openNamedPostgresql(t)
      const spool = withSpool ? { eventSpool: await openFolder(t) } : {}
      return { ...opened, plugin: { database: opened.url, schema: opened.schema, ...spool } }
    }

    test(`refuses connections and breaks those there are${where}`, long(), async (t) => {
      const { plugin, proxy } = await open(t)
      await proveNothingIsLost(t, plugin, { begin: proxy.switchOff, end: proxy.switchOn })
    })

    test(`ends every connection${where}`, long(), async (t) => {
      const { plugin, name, sql } = await open(t)
      const terminate = () =>
        sql('SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1', [name])
      let isOver = false
      const terminating = async () => {
        while (!isOver) await terminate()
      }
      let ended: Promise<void> | undefined
      await proveNothingIsLost(t, plugin, {
        begin: () => {
          ended = terminating()
        },
        end: () => {
          isOver = true
          return ended
        },
      })
    })

    test(`does its work, and its answers are lost${where}`, long(), async (t) => {
      const { plugin, proxy } = await open(t)
      await proveNothingIsLost(t, plugin, {
        begin: () => proxy.loseAnswers(true),
        end: () => proxy.loseAnswers(false),
      })
    })

    test(`holds a lock on the table for longer than a statement may take${where}`, long(), async (t) => {
      const { plugin, lock } = await open(t)
      let unlock: () => unknown = () => undefined
      await proveNothingIsLost(t, plugin, {
        async begin() {
          unlock = await lock('rate_limit_event')
        },
        end: () => unlock(),
      })
    })
  }
})

describe('no event is lost, doubled or out of order when a PostgreSQL server', { skip: ownPostgresqlMissing }, () => {
  test('is restarted', long(), async (t) => {
    const server = await startOwnPostgresql(t)
    await migrate({ database: server.url })
    await proveNothingIsLost(t, { database: server.url }, { begin: () => server.stop('SIGINT'), end: server.start })
  })
})

for (const withSpool of [false, true]) {
  const where = withSpool ? ', with a spool' : ''
  test(
    `no event is lost when another process holds a SQLite file for longer than a statement waits${where}`,
    long(),
    async (t) => {
      const { url } = await openDatabase(t, 'sqlite')
      const other = openSqliteFile(url.slice('file:'.length))
      atEnd(t, () => other.close())
      const spool = withSpool ? { eventSpool: await openFolder(t) } : {}
      await proveNothingIsLost(
        t,
        { database: url, ...spool },
        { begin: () => other.exec('BEGIN IMMEDIATE'), end: () => other.exec('COMMIT') },
      )
    },
  )
}

test('no event is lost when a SQLite file can only be read for a while', long(), async (t) => {
  const { url } = await openDatabase(t, 'sqlite')
  const client = createRateLimitClient({ database: url })
  atEnd(t, () => client.$disconnect())
  const database = databaseFor(client)
  const setReadOnly = (value: 'ON' | 'OFF') => database.query(`PRAGMA query_only = ${value}`).catch(() => undefined)
  await proveNothingIsLost(
    t,
    { database: client },
    { begin: () => database.execute('PRAGMA query_only = ON'), end: () => setReadOnly('OFF') },
  )
})

describe('a server that is killed under load', { skip: postgresqlMissing }, () => {
  test('loses no more than the group that it was writing, and what came meanwhile', long(), async (t) => {
    const database = await openDatabase(t, 'postgresql')
    const load = startEventLoad(t, { database: database.url, schema: database.schema })
    await eventually('it has written some', () => (load.last()?.written ?? 0) > 500, RECOVERY_MS)
    const { answered, written } = await load.kill()

    let counts: number[] = []
    await eventually('its connections are gone', async () => {
      const before = counts.length
      counts = await countsIn(database.database)
      return counts.length === before
    })
    assert.deepEqual(counts, countTo(counts.length))
    assert.ok(counts.length >= written, `${counts.length} of ${written} that were written`)
    assert.ok(answered - counts.length < 1_000, `${counts.length} of ${answered}`)
  })

  test('loses nothing that is in its spool, which the next server writes', long(), async (t) => {
    const database = await openDatabase(t, 'postgresql')
    const { proxy, url } = await startProxyBefore(t, database.url, 5432)
    const eventSpool = await openFolder(t)
    const plugin = { database: url, schema: database.schema, eventSpool }
    const load = startEventLoad(t, plugin)
    await eventually('it has written some', () => (load.last()?.written ?? 0) > 500, RECOVERY_MS)
    await proxy.switchOff()
    await eventually('it has spooled some', () => (load.last()?.spooled ?? 0) > 1_000, RECOVERY_MS)
    const { written, spooled } = await load.kill()
    await proxy.switchOn()

    const next = startEventLoad(t, plugin, 0)
    await eventually('the spool is written', () => (next.last()?.written ?? 0) >= spooled, RECOVERY_MS)
    await eventually('it is empty', () => next.last()?.spooled === 0, RECOVERY_MS)
    const counts = await countsIn(database.database)
    assert.deepEqual(counts, countTo(counts.length))
    assert.ok(counts.length >= written + spooled, `${counts.length} of ${written} + ${spooled}`)
    await next.end()
    assert.deepEqual(await readdir(eventSpool), ['usage'])
  })

  test(
    'shares its spool with others: each writes its own, and what the killed one left is written once',
    long(),
    async (t) => {
      const database = await openDatabase(t, 'postgresql')
      const { proxy, url } = await startProxyBefore(t, database.url, 5432)
      const eventSpool = await openFolder(t)
      const plugin = { database: url, schema: database.schema, eventSpool }
      const loads = [startEventLoad(t, plugin, 2), startEventLoad(t, plugin, 2)] as const
      for (const load of loads) await eventually('it writes', () => (load.last()?.written ?? 0) > 100, RECOVERY_MS)
      await proxy.switchOff()
      for (const load of loads) await eventually('it spools', () => (load.last()?.spooled ?? 0) > 500, RECOVERY_MS)
      const killed = await loads[0].kill()
      const third = startEventLoad(t, plugin, 0)
      await eventually('the third has taken over', () => (third.last()?.spooled ?? 0) >= killed.spooled, RECOVERY_MS)
      await proxy.switchOn()

      await eventually('the spool is empty', () => third.last()?.spooled === 0, RECOVERY_MS)
      await Promise.all([loads[1].end(), third.end()])
      const counts = (await countsIn(database.database)).sort((one, other) => one - other)
      const { answered: ofSecond } = loads[1].last() ?? { answered: 0 }
      const times = new Map<number, number>()
      for (const count of counts) times.set(count, (times.get(count) ?? 0) + 1)
      assert.ok([...times.values()].every((count) => count <= 2))
      assert.ok(counts.length >= killed.written + killed.spooled + ofSecond, `${counts.length} events`)
      assert.deepEqual(await readdir(eventSpool), ['usage'])
    },
  )
})
