import { resolve } from 'node:path'
import type { Query, SqlConnection, SqliteFunctions, SqlValue, SqlWork } from './dialect.js'
import { FileWatch } from './file-watch.js'
import { whileBusy } from './sqlite-busy.js'
import type { SqliteDatabase } from './sqlite-driver.js'
import { BACKSTOP_PAGES, type FileOptions, named, openHere, openSqlite, rows, type SqliteFile } from './sqlite-file.js'
import { StatementLine } from './sqlite-line.js'
import { openOnThread } from './sqlite-thread.js'

/**
 * The number of written rows after which the thread copies the write-ahead log, then some 100 MB long, into the file. The
 * event log rewrites the same pages of its indexes: the longer the log, the fewer copies.
 */
export const ROWS_PER_COPY = 20_000
/** A statement that cannot write, and waits for none that does. */
const READS = /^\s*SELECT\b/
/** A statement writes pages beside those of its rows: it counts as so many rows more. */
const ROWS_BESIDE = 2

/** The threads of statements and reports; read when their connection is opened. */
export interface SqliteThreads {
  readonly statements: boolean
  readonly reports: boolean
}

export function createSqliteConnection(
  relativePath: string,
  threads: SqliteThreads,
  functions?: SqliteFunctions,
): SqlConnection {
  // The host may change its working directory.
  const path = resolve(relativePath)
  let isWithoutThread = false
  const hasThread = () => threads.statements && !isWithoutThread
  const statements = createOpener({ path, onlyReads: false, functions }, hasThread, () => {
    isWithoutThread = true
  })
  // The opener is used where `statements` has a thread: a short statement takes less time here than a message to it.
  const here = createOpener({ path, onlyReads: false, checkpointPages: BACKSTOP_PAGES, functions }, () => false)
  const line = new StatementLine()
  let written = 0
  let copying: Promise<void> | undefined

  type Work<T> = (file: SqliteFile) => Promise<T>
  type CountRows<T> = (answer: T) => number

  function use<T>(work: Work<T>, countRows: CountRows<T>): Promise<T> {
    if (!hasThread()) return statements.use(work)
    const run = () => line.run(() => count(statements.use(work), countRows))
    // The statement waits outside the line meanwhile, where short ones would wait for it.
    return copying === undefined ? run() : copying.then(run)
  }

  function useShortly<T>(work: Work<T>, countRows: CountRows<T>): Promise<T> {
    return hasThread() ? line.run(() => count(here.use(work), countRows)) : statements.use(work)
  }

  async function count<T>(answering: Promise<T>, countRows: CountRows<T>): Promise<T> {
    const answer = await answering
    written += countRows(answer) + ROWS_BESIDE
    if (written >= ROWS_PER_COPY) copying ??= copyLog()
    return answer
  }

  /** Copies the write-ahead log on the thread, after the statements in the line and beside the short ones that follow. */
  async function copyLog(): Promise<void> {
    written = 0
    try {
      await line.run(async () => undefined)
      await statements.use((file) => file.copyLog())
    } catch {
      // The thread has ended, or the disk fails: the next rows cause another copy.
    } finally {
      copying = undefined
    }
  }

  // Reports have their own connection: their transaction, which waits between queries, would include other writes.
  const reports = createOpener({ path, onlyReads: true }, () => threads.reports)
  let lastReport: Promise<unknown> = Promise.resolve()
  const closing = new Set<Promise<void>>()

  /** Transactions that lock have a connection of their own, which stays open: opening one takes longer than a write. */
  let locking: Promise<SqliteDatabase> | undefined
  function openLocking(): Promise<SqliteDatabase> {
    const opening = whileBusy(() => openSqlite(path))
    opening.catch(() => {
      if (locking === opening) locking = undefined
    })
    return opening
  }

  async function closeAll(): Promise<void> {
    const locked = locking
    locking = undefined
    // The thread first: short statements are retried until it has ended what they wait for.
    await Promise.all([statements.close(), reports.close()])
    await here.close()
    await locked?.then(
      (database) => database.close(),
      () => undefined,
    )
  }

  return {
    watch: new FileWatch(path),

    query<Row>(sql: string, parameters?: readonly SqlValue[]) {
      const work = (file: SqliteFile) => file.query<Row>(sql, parameters)
      return READS.test(sql) ? statements.use(work) : use(work, countAnswered)
    },
    execute: (sql, parameters) => use((file) => file.execute(sql, parameters), countChanged),
    transaction: (batch) => use((file) => file.transaction(batch), countChanged),

    short: {
      query: <Row>(sql: string, parameters?: readonly SqlValue[]) =>
        useShortly((file) => file.query<Row>(sql, parameters), countAnswered),
      execute: (sql, parameters) => useShortly((file) => file.execute(sql, parameters), countChanged),
    },

    /** Reads one snapshot after the other: the connection has one transaction. */
    snapshot(read) {
      const reading = lastReport.then(() => reports.use((file) => readSnapshot(file, read)))
      lastReport = reading.catch(() => undefined)
      return reading
    },

    // SQLite has one writer of the file at a time, so this locks all tables.
    async locked(_tables, work) {
      locking ??= openLocking()
      const database = await locking
      const transaction = database.transaction(() => runWorkNow(database, work()))
      return whileBusy(() => transaction.immediate())
    },

    async exclusively(migrate) {
      const database = await whileBusy(() => openSqlite(path))
      try {
        return await inTransaction(database, (query) =>
          migrate(query, async (sql) => {
            database.exec(sql)
          }),
        )
      } finally {
        database.close()
      }
    },

    reopen() {
      const closed = closeAll().catch(() => undefined)
      closing.add(closed)
      void closed.then(() => closing.delete(closed))
    },

    async close() {
      line.release()
      await Promise.all([closeAll(), ...closing])
    },
  }
}

function countAnswered(answer: readonly unknown[]): number {
  return answer.length
}

function countChanged(changed: number | null): number {
  return changed ?? 0
}

/**
 * Opens a connection when it is first needed, and again after a failure: a file that could not be opened, or a crashed
 * thread. Where no thread can start, the connection is on this one.
 *
 * @param opensHere called when no thread could start
 */
function createOpener(options: FileOptions, hasThread: () => boolean, opensHere?: () => void) {
  let opening: Promise<SqliteFile> | undefined
  let opened: SqliteFile | undefined

  function open(): Promise<SqliteFile> {
    const forget = () => {
      if (opening === mine) opening = opened = undefined
    }
    const onThisThread = (): Promise<SqliteFile> => openHere(options)
    const insteadOfThread = async () => {
      const file = await onThisThread()
      opensHere?.()
      return file
    }
    const mine = hasThread()
      ? openOnThread({ ...options, checkpointPages: BACKSTOP_PAGES }, forget).catch(insteadOfThread)
      : onThisThread()
    opening = mine
    mine.then((file) => {
      if (opening === mine) opened = file
    }, forget)
    return mine
  }

  return {
    /** Waits only where the connection is not open yet. */
    use<T>(work: (file: SqliteFile) => Promise<T>): Promise<T> {
      if (opened !== undefined) return work(opened)
      return (opening ?? open()).then(work)
    },

    async close() {
      const closing = opening
      opening = opened = undefined
      const file = await closing?.catch(() => undefined)
      await file?.close()
    },
  }
}

async function readSnapshot<T>(file: SqliteFile, read: (query: Query) => Promise<T>): Promise<T> {
  await file.execute('BEGIN')
  try {
    return await read(file.query)
  } finally {
    // The rollback has nothing to commit. If the thread has ended, a query has failed already.
    await file.execute('ROLLBACK').catch(() => undefined)
  }
}

/** Runs `work` in one transaction. */
async function inTransaction<T>(database: SqliteDatabase, work: (query: Query) => Promise<T>): Promise<T> {
  await whileBusy(() => database.exec('BEGIN IMMEDIATE'))
  try {
    const result = await work(async <Row>(sql: string, parameters: readonly SqlValue[] = []) =>
      rows<Row>(runPrepared(database, sql, parameters)),
    )
    database.exec('COMMIT')
    return result
  } catch (error) {
    if (database.inTransaction) database.exec('ROLLBACK')
    throw error
  }
}

function runPrepared(database: SqliteDatabase, sql: string, parameters: readonly SqlValue[]): unknown[] {
  const statement = database.prepare(sql)
  if (statement.reader) return statement.all(named(parameters))
  statement.run(named(parameters))
  return []
}

/** Runs the statements synchronously, so that no other code of this process runs in between. */
function runWorkNow<T>(database: SqliteDatabase, work: SqlWork<T>): T {
  let next = work.next()
  while (!next.done) {
    next = work.next(next.value === undefined ? [] : runPrepared(database, next.value.sql, next.value.parameters))
  }
  return next.value
}
