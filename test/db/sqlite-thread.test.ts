/** Statements on a SQLite file move to a thread of their own, which may crash, and which holds nothing up. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { renameSync } from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { type TestContext, test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { promisify } from 'node:util'
import workerThreads from 'node:worker_threads'
import type { Database } from '../../src/db/database.js'
import { openSqliteFile, sqliteCodeOf } from '../../src/db/sqlite-driver.js'
import { beforeThread } from '../../src/db/sqlite-statements.js'
import { CLOSE_TIMEOUT_MS } from '../../src/db/sqlite-thread.js'
import { MissingTableError } from '../../src/errors.js'
import { atEnd } from '../support/at-end.js'
import { countStatements } from '../support/count-statements.js'
import { openTestDatabase } from '../support/databases.js'
import { LOADER, moduleUrl } from '../support/modules.js'
import { type StartedThread, watchThreads } from '../support/threads.js'

const NO_CHANGE = 'DELETE FROM rate_limit_staff_session WHERE false'
const run = promisify(execFile)
const DATABASE = moduleUrl('src/db/database')
/** So long may a process take that compiles the sources twice, on a machine with other things to do, in milliseconds. */
const PROCESS_TIMEOUT_MS = 150_000
/** Seconds of work for SQLite, during which nothing reaches the thread. */
const LONG_STATEMENT = `WITH RECURSIVE counted(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted LIMIT 10000000)
  SELECT count(*) FROM counted`

test('the statements of a busy server leave its thread, and what they answer stays the same', async (t) => {
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
    (error) => sqliteCodeOf(error) === 'SQLITE_CONSTRAINT_PRIMARYKEY',
  )
  assert.deepEqual(count.statements, [])
})

test('neither a short command nor the limiter alone starts a thread', async (t) => {
  const started = watchThreads(t)
  const { database } = await open(t)
  for (let place = 0; place < 50; place++) await database.execute(NO_CHANGE)
  for (let place = 0; place < 1_000; place++) await database.query('SELECT 1')

  assert.equal(started.length, 0)
})

test('a process that may start no thread goes on without, and never tries again', async (t) => {
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
  const useForLong = async () => {
    for (let place = 0; place < 2 * beforeThread.writes; place++) await database.execute(NO_CHANGE)
  }
  await useForLong()
  await database.close()
  await useForLong()

  assert.equal(tries, 1)
})

test('when the thread crashes the statements it had fail, and all later ones run', async (t) => {
  const { database, thread, path } = await startThread(t)
  const other = openSqliteFile(path)
  atEnd(t, () => other.close())
  other.exec('BEGIN IMMEDIATE')
  const stuck = assert.rejects(database.execute('DELETE FROM rate_limit_counter'), /thread .* ended/)
  await thread.worker.terminate()
  await stuck
  other.exec('COMMIT')

  const next = await nextThread(database, watchThreads(t))
  await next.ready
  assert.deepEqual(await database.query('SELECT 1 AS one'), [{ one: 1 }])
})

test('when the thread of reports crashes in the midst of one, that one fails, and all later ones are read', async (t) => {
  const threads = watchThreads(t)
  const { database } = await open(t)
  const readOne = () => database.report((query) => query('SELECT 1 AS one'))
  while (threads.length === 0) {
    await readOne()
    await turn()
  }
  await threads[0]?.ready
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
  for (let place = 0; place < 20; place++) await turn()
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

test('a file that is replaced when its thread has just become ready is used on by that', async (t) => {
  const { database, path } = await startThread(t)
  for (const suffix of ['', '-wal', '-shm']) renameSync(path + suffix, `${path}.old${suffix}`)
  await database.execute("INSERT INTO rate_limit_staff_session VALUES ('a', 'b', 1)")

  const old = openSqliteFile(`${path}.old`)
  atEnd(t, () => old.close())
  assert.deepEqual(old.prepare('SELECT id_hash FROM rate_limit_staff_session').all(), [{ id_hash: 'a' }])
})

test('a file that was replaced meanwhile is used on, by no new thread', async (t) => {
  const { database, path } = await open(t)
  await database.execute("INSERT INTO rate_limit_staff_session VALUES ('a', 'b', 1)")
  renameSync(path, `${path}.old`)
  const { worker, exited } = await nextThread(database, watchThreads(t))
  worker.ref()
  await exited

  assert.deepEqual(await database.query('SELECT id_hash FROM rate_limit_staff_session'), [{ id_hash: 'a' }])
})

test('a process that forgets to close the database ends all the same, and what it wrote is there', async (t) => {
  const { database } = await open(t)
  const script = `
    import { Database } from ${JSON.stringify(DATABASE)}
    const database = new Database(${JSON.stringify(database.url)})
    const worker = new Promise((resolve) => process.once('worker', (worker) => worker.once('message', resolve)))
    for (let place = 0; place < 500; place++) await database.execute(${JSON.stringify(NO_CHANGE)})
    const keepAlive = setInterval(() => undefined, 1_000)
    await worker
    clearInterval(keepAlive)
    void database.execute("INSERT INTO rate_limit_staff_session VALUES ('a', 'b', 1)")`
  await run(process.execPath, [...LOADER, '--input-type=module', '--eval', script], {
    timeout: PROCESS_TIMEOUT_MS,
  })

  assert.deepEqual(await database.query('SELECT id_hash FROM rate_limit_staff_session'), [{ id_hash: 'a' }])
})

async function open(t: TestContext) {
  const opened = await openTestDatabase('sqlite')
  atEnd(t, () => opened.close())
  return { database: opened.database, path: opened.url.slice('file:'.length) }
}

/** A database whose statements run on a thread already. */
async function startThread(t: TestContext) {
  const opened = await open(t)
  const thread = await nextThread(opened.database, watchThreads(t))
  await thread.ready
  return { ...opened, thread }
}

/** Keeps the database in use until it has started a thread. */
async function nextThread(database: Database, threads: readonly StartedThread[]): Promise<StartedThread> {
  for (;;) {
    await database.execute(NO_CHANGE)
    await turn()
    const [thread] = threads
    if (thread !== undefined) return thread
  }
}
