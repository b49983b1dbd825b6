/** What can befall a SQLite file under hundreds of requests. */
import assert from 'node:assert/strict'
import { renameSync, rmSync } from 'node:fs'
import { type TestContext, test } from 'node:test'
import BetterSqlite3 from 'better-sqlite3'
import { migrate } from '../../src/index.js'
import { atEnd } from '../support/at-end.js'
import { openDatabase, startApp } from '../support/build-app.js'
import { startRequestStream } from '../support/request-stream.js'
import { proveFault } from '../support/three-apps.js'

test('a SQLite file in mid-load: another process holds the write lock for long', async (t) => {
  const { url, other } = await openFile(t)

  await proveFault(t, { url, begin: () => other.exec('BEGIN IMMEDIATE'), end: () => other.exec('COMMIT') })
})

test('a SQLite file in mid-load: loses the table, which is made again', async (t) => {
  const { url, other } = await openFile(t)
  const schema = other.prepare(
    "SELECT sql FROM sqlite_master WHERE tbl_name = 'rate_limit_counter' AND sql IS NOT NULL",
  )
  const statements = schema.all().map((row) => String(Object(row).sql))

  await proveFault(t, {
    url,
    begin: () => other.exec('CREATE TABLE kept AS SELECT * FROM rate_limit_counter; DROP TABLE rate_limit_counter'),
    end: () => other.exec([...statements, 'INSERT INTO rate_limit_counter SELECT * FROM kept'].join(';')),
  })
})

test('a SQLite file in mid-load: the disk is full', async (t) => {
  const { url, other } = await openFile(t)
  const connections = watchConnections(t)
  const openOnes = () => [...connections].filter((connection) => connection.open && connection !== other)
  // Room for one more page would end the outage now and then: the table gets no smaller while it lasts.
  other.exec('CREATE TABLE filler (bytes BLOB)')

  await proveFault(t, {
    url,
    begin() {
      for (const connection of openOnes()) {
        connection.pragma(`max_page_count = ${connection.pragma('page_count', { simple: true })}`)
      }
      // Every write needs a page now.
      other.exec(
        'CREATE TRIGGER needs_a_page BEFORE INSERT ON rate_limit_counter BEGIN INSERT INTO filler VALUES (zeroblob(100000)); END',
      )
    },
    end() {
      other.exec('DROP TRIGGER needs_a_page')
      for (const connection of openOnes()) connection.pragma('max_page_count = 1000000')
    },
  })
})

test('a SQLite file that is deleted or replaced is used until the server ends: it counts on, exactly', async (t) => {
  for (const replace of [false, true]) {
    const { url, path } = await openFile(t)
    const { log, port, request } = await startApp(t, {
      database: null,
      plugin: { database: url, middleware: { backend: 'database', defaultRate: '400/h' } },
    })
    const stream = startRequestStream(
      port,
      Array.from({ length: 200 }, () => ({ path: '/' })),
    )
    atEnd(t, () => stream.stop().catch(() => undefined))
    await stream.answered(200)

    for (const suffix of ['', '-wal', '-shm']) {
      if (replace) renameSync(path + suffix, `${path}.old${suffix}`)
      else rmSync(path + suffix)
    }
    if (replace) await migrate({ database: url })
    await stream.answered(400)
    await stream.stop()

    assert.equal(stream.samples.filter(({ status }) => status === 200).length, 400)
    assert.equal((await request('/')).status, 429)
    assert.deepEqual(log, [])
  }
})

/** The connections that this process opens from now on. */
function watchConnections(t: TestContext): Set<BetterSqlite3.Database> {
  const connections = new Set<BetterSqlite3.Database>()
  const { prepare } = BetterSqlite3.prototype
  t.mock.method(BetterSqlite3.prototype, 'prepare', function noted(this: BetterSqlite3.Database, sql: string) {
    connections.add(this)
    return Reflect.apply(prepare, this, [sql])
  })
  return connections
}

async function openFile(t: TestContext) {
  const { url } = await openDatabase(t, 'sqlite')
  const path = url.slice('file:'.length)
  const other = new BetterSqlite3(path)
  atEnd(t, () => other.close())
  return { url, path, other }
}
