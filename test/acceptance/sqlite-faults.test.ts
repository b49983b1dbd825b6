/** What can befall a SQLite file under hundreds of requests. */
import assert from 'node:assert/strict'
import { renameSync, rmSync } from 'node:fs'
import { type TestContext, test } from 'node:test'
import { createRateLimitClient } from '../../src/client.js'
import { databaseFor } from '../../src/db/database.js'
import { openSqliteFile } from '../../src/db/sqlite-driver.js'
import { migrate } from '../../src/index.js'
import { atEnd } from '../support/at-end.js'
import { openDatabase, startApp, type TestApp } from '../support/build-app.js'
import { countStatements, type StatementCount } from '../support/count-statements.js'
import { startRequestStream } from '../support/request-stream.js'
import { watchThreads } from '../support/threads.js'
import { type Fault, proveFault } from '../support/three-apps.js'

for (const [where, logsEvents] of [
  ['of a server that only limits', false],
  ['of a server that logs events too', true],
] as const) {
  test(`the SQLite file in mid-load ${where}: another process holds the write lock for long`, async (t) => {
    const { url, other } = await openFile(t)

    await proveFaultWhere(logsEvents, t, {
      url,
      begin: () => other.exec('BEGIN IMMEDIATE'),
      end: () => other.exec('COMMIT'),
    })
  })

  test(`the SQLite file in mid-load ${where}: loses the table, which is made again`, async (t) => {
    const { url, other } = await openFile(t)
    const schema = other.prepare(
      "SELECT sql FROM sqlite_master WHERE tbl_name = 'rate_limit_counter' AND sql IS NOT NULL",
    )
    const remake = schema.all().map((row) => String(Object(row).sql))

    await proveFaultWhere(logsEvents, t, {
      url,
      begin: () => other.exec('CREATE TABLE kept AS SELECT * FROM rate_limit_counter; DROP TABLE rate_limit_counter'),
      end: () => other.exec([...remake, 'INSERT INTO rate_limit_counter SELECT * FROM kept'].join(';')),
    })
  })

  test(`the SQLite file in mid-load ${where}: the disk is full`, async (t) => {
    const { url, other } = await openFile(t)
    // Room for one more page would end the outage now and then: the table gets no smaller while it lasts.
    other.exec('CREATE TABLE filler (bytes BLOB)')

    await proveFaultWhere(logsEvents, t, {
      url,
      async begin(apps) {
        // No less than there are.
        await limitPages(apps, 1)
        // Every write needs a page now.
        other.exec(
          'CREATE TRIGGER needs_a_page BEFORE INSERT ON rate_limit_counter BEGIN INSERT INTO filler VALUES (zeroblob(100000)); END',
        )
      },
      async end(apps) {
        other.exec('DROP TRIGGER needs_a_page')
        await limitPages(apps, 1_000_000)
      },
    })
  })
}

test('a SQLite file that is deleted or replaced is used until the server ends: it counts on, exactly', async (t) => {
  for (const replace of [false, true]) {
    const { url, path } = await openFile(t)
    const { log, port, request } = await startApp(t, {
      database: null,
      plugin: { database: url, middleware: { backend: 'database', defaultRate: '400/d' } },
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

/** Runs servers through a fault, with a thread for long statements where they log events. */
async function proveFaultWhere(logsEvents: boolean, t: TestContext, fault: Fault): Promise<void> {
  const threads = watchThreads(t)
  let count: StatementCount | undefined

  await proveFault(t, {
    ...fault,
    connect() {
      const client = createRateLimitClient({ database: fault.url })
      atEnd(t, () => client.$disconnect())
      databaseFor(client).useThreads({ logsEvents })
      return client
    },
    async begin(apps) {
      assert.equal(threads.length, logsEvents ? apps.length : 0)
      await fault.begin(apps)
      count = countStatements()
    },
    async end(apps) {
      count?.stop()
      await fault.end?.(apps)
    },
  })
  assert.notEqual(count?.of('rate_limit_counter').length, 0)
}

/** Sets how large the file may get, on the connections that the servers count on. */
async function limitPages(apps: readonly TestApp[], pages: number): Promise<void> {
  for (const { app } of apps) {
    await databaseFor(app.smartRateLimit.client).short.query(`PRAGMA max_page_count = ${pages}`)
  }
}

async function openFile(t: TestContext) {
  const { url } = await openDatabase(t, 'sqlite')
  const path = url.slice('file:'.length)
  const other = openSqliteFile(path)
  atEnd(t, () => other.close())
  return { url, path, other }
}
