/** The statements of a server that logs events have a thread of their own, which may crash, and which holds nothing up. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { syncBuiltinESMExports } from 'node:module'
import { type TestContext, test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { promisify } from 'node:util'
import workerThreads from 'node:worker_threads'
import { Database, databaseFor } from '../../src/database/database.js'
import { ROWS_PER_COPY } from '../../src/database/sqlite.js'
import { openSqliteFile, sqliteErrorCode } from '../../src/database/sqlite-driver.js'
import { CLOSE_TIMEOUT_MS } from '../../src/database/sqlite-thread.js'
import { MissingTableError } from '../../src/ground/errors.js'
import { createRateLimitClient } from '../../src/plugin/client/client.js'
import { atEnd } from '../support/at-end.js'
import { countStatements } from '../support/count-statements.js'
import { openTestDatabase } from '../support/databases.js'
import { eventually } from '../support/eventually.js'
import { long } from '../support/long.js'
import { LOADER, moduleUrl } from '../support/modules.js'
import { watchThreads } from '../support/threads.js'
import { walSequence } from '../support/wal-sequence.js'

const NO_CHANGE = 'DELETE FROM rate_limit_staff_session WHERE false'
const run = promisify(execFile)
const DATABASE = moduleUrl('src/database/database')
/** So long may a process take that compiles the sources twice, on a machine with other things to do, in milliseconds. */
const PROCESS_TIMEOUT_MS = 150_000
/** Seconds of work for SQLite, during which nothing reaches the thread. */
const LONG_STATEMENT = `WITH RECURSIVE counted(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted LIMIT 10000000)
  SELECT count(*) FROM counted`
/** Writes rows, the same ones each time. */
const writeSessions = (rows: number) => `WITH RECURSIVE counted(n) AS (
    SELECT 1 UNION ALL SELECT n + 1 FROM counted LIMIT ${rows})
  INSERT OR REPLACE INTO rate_limit_staff_session SELECT 'id-' || n, 'account', 1 FROM counted`

test('the statements of a server that logs events are not run on its thread, and answer the same', async (t) => {
  const { database } = await startThread(t)
  const count = countStatements()
  t.after(() => count.stop())

  assert.deepEqual(await database.query('SELECT $1 AS text, $2 AS number, NULL AS missing', ['é\n"', 1.5]), [
    { text: 'é\n"', number: 1.5, missing: null },
  ])
  assert.equal(await database.execute("INSERT INTO rate_limit_staff_session VALUES ('a', 'b', 1), ('c', 'd', 2)"), 2)
  await assert.rejects(database.query('SELECT * FROM nowhere'), MissingTableError)
  await assert.rejects(
    database.execute("INSERT INTO rate_limit_staff_session VALUES ('a', 'b', 1)"),
    (error) => sqliteErrorCode(error) === 'SQLITE_CONSTRAINT_PRIMARYKEY',
  )
  assert.deepEqual(count.statements, [])
})

test('the short statements of a server that logs events run on its thread, in turn with the others', async (t) => {
  const { database } = await startThread(t)
  // Opens its connection.
  assert.deepEqual(await database.short.query('SELECT 1 AS one'), [{ one: 1 }])
  const count = countStatements()
  t.after(() => count.stop())
  const ended: string[] = []
  const note = (name: string) => () => void ended.push(name)
  await Promise.all([
    database.execute(NO_CHANGE).then(note('first')),
    database.short.execute(NO_CHANGE).then(note('short')),
    database.transaction([{ sql: NO_CHANGE, parameters: [] }]).then(note('last')),
  ])

  assert.deepEqual(ended, ['first', 'short', 'last'])
  assert.deepEqual(count.statements, [NO_CHANGE])
})

test('a short statement that fails, or waits for one that fails, lets the next one run', async (t) => {
  const { database } = await startThread(t)
  const failing = assert.rejects(database.execute('DELETE FROM nowhere'), MissingTableError)
  const short = assert.rejects(database.short.query('SELECT * FROM nowhere'), MissingTableError)

  assert.deepEqual(await database.short.query('SELECT 1 AS one'), [{ one: 1 }])
  await Promise.all([failing, short])
})

test('statements that wait for another one run when the database is closed', async (t) => {
  const { database, path } = await startThread(t)
  const other = openSqliteFile(path)
  atEnd(t, () => other.close())
  other.exec('BEGIN IMMEDIATE')
  const stuck = assert.rejects(database.execute('DELETE FROM rate_limit_counter'))
  const waiting = database.short.query('SELECT 1 AS one')
  // Both are in line.
  await turn()
  await database.close()

  await stuck
  assert.deepEqual(await waiting, [{ one: 1 }])
})

for (const hasThread of [true, false]) {
  test(`a statement that only reads waits for no write that another process holds up, ${hasThread ? 'on the thread' : 'without one'}`, async (t) => {
    const { url, path } = await openTestFile(t)
    const database = new Database(url)
    database.useThreads({ logsEvents: hasThread })
    atEnd(t, () => database.close())
    await database.execute(NO_CHANGE)
    const other = openSqliteFile(path)
    atEnd(t, () => other.close())
    other.exec('BEGIN IMMEDIATE')
    const ended: string[] = []
    const write = database.execute('DELETE FROM rate_limit_counter').then(() => ended.push('write'))
    await turn()
    await database.query('SELECT count(*) FROM rate_limit_rule').then(() => ended.push('read'))
    other.exec('COMMIT')
    await write
    assert.deepEqual(ended, ['read', 'write'])
  })
}

test('what short statements that wait for the thread write is there after closing', async (t) => {
  const { database, path } = await startThread(t)
  await database.short.query('SELECT 1')
  const long = database.execute(writeSessions(10_000))
  const short = database.short.execute("INSERT INTO rate_limit_staff_session VALUES ('a', 'b', 1)")
  // Both are in line.
  await turn()
  await database.close()

  assert.equal(await long, 10_000)
  assert.equal(await short, 1)
  const file = openSqliteFile(path)
  atEnd(t, () => file.close())
  assert.deepEqual(file.prepare('SELECT count(*) AS sessions FROM rate_limit_staff_session').all(), [
    { sessions: 10_001 },
  ])
})

for (const kind of ['short statements', 'others'] as const) {
  test(`the log of a file that is written to all the time begins anew, again and again: ${kind}`, long(), async (t) => {
    const { database, path } = await startThread(t)
    const statements = kind === 'others' ? database : database.short
    const sequence = () => walSequence(path)
    await statements.execute(writeSessions(1))
    for (let times = 1; times <= 3; times++) {
      const before = sequence()
      await eventually('the log begins anew', async () => {
        // A statement of many rows would leave no moment in which the log can be copied to its end.
        await statements.execute(writeSessions(1_000))
        return sequence() > before
      })
    }
  })
}

test('short statements run while the log is copied, and others after that', async (t) => {
  const { database, thread } = await startThread(t)
  const { postMessage } = thread.worker
  const copies: unknown[] = []
  t.mock.method(thread.worker, 'postMessage', (asked: object | null) => {
    if (asked !== null && 'copiesLog' in asked) copies.push(asked)
    else postMessage.call(thread.worker, asked)
  })
  await database.execute(writeSessions(ROWS_PER_COPY))
  await eventually('the thread is to copy the log', () => copies.length === 1)
  const order: string[] = []
  const other = database.execute(NO_CHANGE).then(() => order.push('other'))
  await database.short.execute(NO_CHANGE).then(() => order.push('short'))
  await database.query('SELECT 1').then(() => order.push('read'))
  postMessage.call(thread.worker, copies[0])
  await other

  assert.deepEqual(order, ['short', 'read', 'other'])
})

test('neither a command nor the limiter alone starts a thread', async (t) => {
  const started = watchThreads(t)
  const { url } = await openTestFile(t)
  for (const server of [false, true]) {
    const database = new Database(url)
    atEnd(t, () => database.close())
    if (server) database.useThreads({ logsEvents: false })
    await database.execute(NO_CHANGE)
    await database.query('SELECT 1')
  }

  assert.equal(started.length, 0)
})

test('a client without permission for threads opens none', async (t) => {
  const started = watchThreads(t)
  const client = createRateLimitClient({ database: (await openTestFile(t)).url, threads: false })
  atEnd(t, () => client.$disconnect())
  const database = databaseFor(client)
  database.useThreads({ logsEvents: true })
  await database.execute(NO_CHANGE)
  await database.report((query) => query('SELECT 1'))

  assert.equal(started.length, 0)
})

test('a process that may start no thread goes on without, and tries once', async (t) => {
  let tries = 0
  const worker = t.mock.method(workerThreads, 'Worker', function forbidden() {
    tries++
    throw Object.assign(new Error('Access to this API has been restricted'), { code: 'ERR_ACCESS_DENIED' })
  })
  syncBuiltinESMExports()
  t.after(() => {
    worker.mock.restore()
    syncBuiltinESMExports()
  })
  const { database } = await open(t)
  for (let index = 0; index < 3; index++) {
    await database.execute(NO_CHANGE)
    await database.short.execute(NO_CHANGE)
  }

  assert.equal(tries, 1)
})

test('a process whose thread cannot start, since the host bundled it away, goes on without', async (t) => {
  const started = watchThreads(t)
  const { database } = await open(t)
  process.once('worker', (worker) => void worker.terminate())
  assert.deepEqual(await database.query('SELECT 1 AS one'), [{ one: 1 }])
  assert.deepEqual(await database.query('SELECT 2 AS two'), [{ two: 2 }])

  assert.equal(started.length, 1)
})

test('when the thread crashes the statements it had fail, and all later ones run', async (t) => {
  const { database, thread, threads, path } = await startThread(t)
  const other = openSqliteFile(path)
  atEnd(t, () => other.close())
  other.exec('BEGIN IMMEDIATE')
  const stuck = assert.rejects(database.execute('DELETE FROM rate_limit_counter'), /thread .* ended/)
  await thread.worker.terminate()
  await stuck
  other.exec('COMMIT')

  assert.deepEqual(await database.query('SELECT 1 AS one'), [{ one: 1 }])
  assert.equal(threads.length, 2)
})

test('when the thread of reports crashes in the midst of one, that one fails, and all later ones are read', async (t) => {
  const threads = watchThreads(t)
  const { database } = await open(t)
  const readOne = () => database.report((query) => query('SELECT 1 AS one'))
  await readOne()
  assert.equal(threads.length, 1)
  const broken = database.report(async (query) => {
    await query('SELECT 1')
    await threads[0]?.worker.terminate()
    return query('SELECT 1')
  })

  await assert.rejects(broken, /thread .* ended/)
  assert.deepEqual(await readOne(), [{ one: 1 }])
})

test('a file that another process has locked holds up neither the event loop nor the closing', async (t) => {
  const { database, path } = await startThread(t)
  const other = openSqliteFile(path)
  atEnd(t, () => other.close())
  other.exec('BEGIN IMMEDIATE')
  const stuck = assert.rejects(database.execute('DELETE FROM rate_limit_counter'))
  const startedMs = performance.now()
  for (let index = 0; index < 20; index++) await turn()
  await database.close()

  await stuck
  assert.ok(performance.now() - startedMs < 2_000)
})

test('a thread that crashes while the database closes does not keep it from closing', async (t) => {
  const { database, thread } = await startThread(t)
  const closing = database.close()
  thread.worker.emit('error', new Error('crashed'))

  await closing
})

test('a thread that a statement holds up does not keep the database from closing for long', async (t) => {
  const { database, thread } = await startThread(t)
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const stuck = assert.rejects(database.query(LONG_STATEMENT), /did not close within 5000 ms/)
  // It reaches the thread.
  await turn()
  const closing = database.close()
  await turn()
  t.mock.timers.tick(CLOSE_TIMEOUT_MS)

  await closing
  await stuck
  thread.worker.ref()
  await thread.exited
})

test('a process that forgets to close the database ends all the same, and what it wrote is there', async (t) => {
  const { database } = await open(t)
  const script = `
    import { Database } from ${JSON.stringify(DATABASE)}
    const database = new Database(${JSON.stringify(database.url)})
    database.useThreads({ logsEvents: true })
    await database.execute(${JSON.stringify(NO_CHANGE)})
    void database.execute("INSERT INTO rate_limit_staff_session VALUES ('a', 'b', 1)")`
  await run(process.execPath, [...LOADER, '--input-type=module', '--eval', script], {
    timeout: PROCESS_TIMEOUT_MS,
  })

  assert.deepEqual(await database.query('SELECT id_hash FROM rate_limit_staff_session'), [{ id_hash: 'a' }])
})

async function openTestFile(t: TestContext) {
  const { url, close } = await openTestDatabase('sqlite')
  atEnd(t, close)
  return { url, path: url.slice('file:'.length) }
}

/** The database of a server that logs events, not yet used. */
async function open(t: TestContext) {
  const { url, path } = await openTestFile(t)
  const database = new Database(url)
  database.useThreads({ logsEvents: true })
  atEnd(t, () => database.close())
  return { database, path }
}

/** The same, whose statements have their thread already. */
async function startThread(t: TestContext) {
  const threads = watchThreads(t)
  const opened = await open(t)
  await opened.database.execute(NO_CHANGE)
  const [thread] = threads
  assert.ok(thread !== undefined)
  return { ...opened, thread, threads }
}
