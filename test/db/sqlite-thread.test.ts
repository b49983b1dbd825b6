/** Statements on a SQLite file move to a thread of their own, which may crash, and which holds nothing up. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { renameSync } from 'node:fs'
import { type TestContext, test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { promisify } from 'node:util'
import type { Worker } from 'node:worker_threads'
import BetterSqlite3 from 'better-sqlite3'
import type { Database } from '../../src/db/database.js'
import { MissingTableError } from '../../src/errors.js'
import { atEnd } from '../support/at-end.js'
import { countStatements } from '../support/count-statements.js'
import { openTestDatabase } from '../support/databases.js'

const NO_CHANGE = 'DELETE FROM rate_limit_staff_session WHERE false'
const run = promisify(execFile)
const DATABASE = import.meta.resolve('../../src/db/database.ts')

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
    (error) => error instanceof BetterSqlite3.SqliteError && error.code === 'SQLITE_CONSTRAINT_PRIMARYKEY',
  )
  assert.deepEqual(count.statements, [])
})

test('neither a short command nor the limiter alone starts a thread', async (t) => {
  const started: Worker[] = []
  const note = (worker: Worker) => started.push(worker)
  process.on('worker', note)
  t.after(() => process.off('worker', note))
  const { database } = await open(t)
  for (let place = 0; place < 50; place++) await database.execute(NO_CHANGE)
  for (let place = 0; place < 1_000; place++) await database.query('SELECT 1')

  assert.equal(started.length, 0)
})

test('when the thread crashes the statements it had fail, and all later ones run', async (t) => {
  const { database, worker, path } = await startThread(t)
  const other = new BetterSqlite3(path)
  atEnd(t, () => other.close())
  other.exec('BEGIN IMMEDIATE')
  const stuck = assert.rejects(database.execute('DELETE FROM rate_limit_counter'), /thread .* ended/)
  await worker.terminate()
  await stuck
  other.exec('COMMIT')

  const nextWorker = once(process, 'worker')
  await useUntil(database, nextWorker)
  assert.deepEqual(await database.query('SELECT 1 AS one'), [{ one: 1 }])
})

test('a file that another process has locked holds up neither the event loop nor the closing', async (t) => {
  const { database, path } = await startThread(t)
  const other = new BetterSqlite3(path)
  atEnd(t, () => other.close())
  other.exec('BEGIN IMMEDIATE')
  const stuck = assert.rejects(database.execute('DELETE FROM rate_limit_counter'))
  const startedMs = performance.now()
  for (let place = 0; place < 20; place++) await turn()
  await database.close()

  await stuck
  assert.ok(performance.now() - startedMs < 2_000)
})

test('a file that was replaced meanwhile is used on, by no new thread', async (t) => {
  const { database, path } = await open(t)
  await database.execute("INSERT INTO rate_limit_staff_session VALUES ('a', 'b', 1)")
  renameSync(path, `${path}.old`)
  const worker = await useUntilStarted(database, once(process, 'worker'))
  const ended = new Promise((resolve) => worker.once('exit', resolve))
  worker.ref()
  await ended

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
  await run(process.execPath, ['--import', 'tsx', '--input-type=module', '--eval', script], { timeout: 30_000 })

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
  const worker = await useUntil(opened.database, once(process, 'worker'))
  return { ...opened, worker }
}

/** Keeps the database in use until it has started a thread, and that is ready. */
async function useUntil(database: Database, starting: Promise<Worker[]>): Promise<Worker> {
  const worker = await useUntilStarted(database, starting)
  await once(worker, 'message')
  return worker
}

async function useUntilStarted(database: Database, starting: Promise<Worker[]>): Promise<Worker> {
  let worker: Worker | undefined
  void starting.then(([started]) => {
    worker = started
  })
  while (worker === undefined) {
    await database.execute(NO_CHANGE)
    await turn()
  }
  return worker
}
