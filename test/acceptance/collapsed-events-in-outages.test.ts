/** Logs whose rows stand for many requests, of servers that are killed: what was written or spooled is there once. */
import assert from 'node:assert/strict'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, type TestContext, test } from 'node:test'
import type { Database } from '../../src/database/database.js'
import { openSqliteFile } from '../../src/database/sqlite-driver.js'
import type { RateLimitOptions } from '../../src/index.js'
import { atEnd } from '../support/at-end.js'
import { openDatabase } from '../support/build-app.js'
import { type Provider, postgresqlMissing } from '../support/databases.js'
import { eventually } from '../support/eventually.js'
import { long } from '../support/long.js'
import { COLLAPSED, SUMS } from '../support/request-histories.js'
import { startEventLoad } from '../support/start-event-load.js'
import { startProxyBefore } from '../support/tcp-proxy.js'

const RECOVERY_MS = 30_000
/** The requests of a client that are allowed. */
const LIMIT = 300
const CLIENTS = ['203.0.113.1', '203.0.113.2', '203.0.113.3']
const OTHERS = ['198.51.100.1', '198.51.100.2', '198.51.100.3']

interface Row {
  readonly key: string
  readonly outcome: string
  readonly count: number
  readonly weight: number
}

/** The rows in the order in which they were written; those of one client are in that of its requests. */
async function rowsIn({ log: { dialect, query } }: Database): Promise<Row[]> {
  const rows = await query<Row>(
    `SELECT key, outcome, count, weight FROM ${dialect.table('rate_limit_event')} ORDER BY id`,
  )
  return rows.map((row) => ({ ...row, count: Number(row.count) }))
}

const requestsOf = (rows: readonly Row[]) => rows.reduce((sum, { weight }) => sum + weight, 0)

/** Asserts that the rows have each request of some clients once, up to the last one that they have. */
function assertEachOnce(rows: readonly Row[], clients: readonly string[], sums: boolean): void {
  for (const client of clients) {
    let last = sums ? LIMIT : 0
    for (const { count, weight } of rows.filter(({ key }) => key === `ip:${client}`)) {
      assert.equal(count - weight, last, `of ${client}`)
      last = count
    }
    assert.ok(last > LIMIT, `${client} was refused, too`)
  }
  const allowed = rows.filter(({ outcome }) => outcome === 'allowed')
  assert.equal(requestsOf(allowed), LIMIT * clients.length)
  assert.ok(rows.length < requestsOf(rows) / 10, 'a row stands for many')
}

/** A database whose log can go away, and the options of servers that share it and a spool. */
async function openFor(t: TestContext, provider: Provider, logEvents: typeof COLLAPSED) {
  const eventSpool = await mkdtemp(join(tmpdir(), 'ratelimit-spool-'))
  atEnd(t, () => rm(eventSpool, { recursive: true, force: true }))
  const { url, schema, database, events } = await openDatabase(t, provider)
  const { log } = database
  const options: RateLimitOptions = {
    schema,
    eventSpool,
    logEvents,
    middleware: { backend: 'memory', defaultRate: `${LIMIT}/d` },
  }
  if (log.dialect.provider === 'sqlite') {
    const other = openSqliteFile(log.url.slice('file:'.length))
    atEnd(t, () => other.close())
    return {
      database,
      plugin: { ...options, database: url, events },
      leave: () => other.exec('BEGIN IMMEDIATE'),
      comeBack: () => other.exec('COMMIT'),
    }
  }
  const proxied = await startProxyBefore(t, log.url, 5432)
  const reached = log === database ? { database: proxied.url } : { database: url, events: { database: proxied.url } }
  return {
    database,
    plugin: { ...options, ...reached },
    leave: proxied.proxy.switchOff,
    comeBack: proxied.proxy.switchOn,
  }
}

for (const provider of ['sqlite', 'postgresql'] as const) {
  describe(`on ${provider}`, { skip: provider === 'postgresql' && postgresqlMissing }, () => {
    for (const [kind, detail] of [
      ['collapsed events', COLLAPSED],
      ['sums', SUMS],
    ] as const) {
      const isSummed = detail === SUMS
      test(
        `of ${kind}, a server that is killed under load loses only what it was gathering and writing`,
        long(),
        async (t) => {
          const { plugin, database } = await openFor(t, provider, detail)
          const load = startEventLoad(t, { ...plugin, eventSpool: undefined }, 20, CLIENTS)
          const enough = 3 * LIMIT * CLIENTS.length
          await eventually('it has written some', () => (load.last()?.written ?? 0) > enough, RECOVERY_MS)
          const { written } = await load.kill()
          let rows: Row[] = []
          await eventually('its statements are over', async () => {
            const before = rows.length
            rows = await rowsIn(database)
            return rows.length === before
          })
          assertEachOnce(rows, CLIENTS, isSummed)
          assert.ok(requestsOf(rows) >= written, `${requestsOf(rows)} of ${written}`)
        },
      )

      test(
        `of ${kind}, what two servers spooled is there once: one that is killed, and one that goes on`,
        long(),
        async (t) => {
          const { plugin, database, leave, comeBack } = await openFor(t, provider, detail)
          const loads = [startEventLoad(t, plugin, 20, CLIENTS), startEventLoad(t, plugin, 20, OTHERS)] as const
          for (const load of loads) await eventually('it writes', () => (load.last()?.written ?? 0) > 0, RECOVERY_MS)
          await leave()
          const enough = 3 * LIMIT * CLIENTS.length
          for (const load of loads) {
            await eventually('it spools', () => (load.last()?.spooled ?? 0) > enough, RECOVERY_MS)
          }
          const killed = await loads[0].kill()
          await comeBack()
          const next = startEventLoad(t, plugin, 0)
          await eventually(
            'the next has written what it left',
            () => (next.last()?.written ?? 0) >= killed.spooled,
            RECOVERY_MS,
          )
          await eventually('its spool is empty', () => next.last()?.spooled === 0, RECOVERY_MS)
          await loads[1].end()
          await next.end()
          const rows = await rowsIn(database)
          assertEachOnce(rows, [...CLIENTS, ...OTHERS], isSummed)
          const atLeast = killed.written + killed.spooled + (loads[1].last()?.answered ?? 0)
          assert.ok(requestsOf(rows) >= atLeast, `${requestsOf(rows)} of ${atLeast}`)
          assert.equal(loads[1].last()?.dropped, 0)
          assert.deepEqual(await readdir(plugin.eventSpool ?? ''), ['usage'])
        },
      )
    }
  })
}
