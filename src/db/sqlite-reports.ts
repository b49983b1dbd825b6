import type { Query, SqlConnection } from './dialect.js'
import { whileBusy } from './sqlite-busy.js'
import type { SqliteDatabase } from './sqlite-driver.js'
import { identityOf, openSqlite } from './sqlite-file.js'
import { type SqliteThread, startSqliteThread } from './sqlite-thread.js'
import { inTransaction } from './sqlite-transaction.js'

/** A command reads one report and is done: a thread pays from the second one on. */
const REPORTS_BEFORE_THREAD = 1

/**
 * Reads reports of a file, on a connection of its own: a transaction that waits between its queries would take other
 * writes along. On a server it is on a thread of its own too, where a long log takes none of the server's time; while
 * that is not ready, or where none can start, this thread reads.
 */
export function createSqliteReports(path: string): Pick<SqlConnection, 'snapshot' | 'close'> {
  let here: SqliteDatabase | undefined
  let thread: SqliteThread | undefined
  let read = 0
  let isAllowed = true
  let lastRead: Promise<unknown> = Promise.resolve()

  function start(): SqliteThread | undefined {
    try {
      const started = startSqliteThread({ path, identity: identityOf(path), onlyReads: true }, (wasOnline) => {
        if (thread !== started) return
        thread = undefined
        isAllowed = wasOnline
      })
      return started
    } catch {
      // Node's permission model, say, forbids threads.
      isAllowed = false
      return undefined
    }
  }

  async function readNow<T>(readReport: (query: Query) => Promise<T>): Promise<T> {
    if (thread === undefined && isAllowed && read++ >= REPORTS_BEFORE_THREAD) thread = start()
    if (thread?.isOnline()) return snapshotOf(thread, readReport)
    here ??= await whileBusy(() => openSqlite(path))
    return inTransaction(here, 'BEGIN', readReport)
  }

  return {
    /** One after the other: the connection has one transaction. */
    snapshot(readReport) {
      const reading = lastRead.then(() => readNow(readReport))
      lastRead = reading.catch(() => undefined)
      return reading
    },

    async close() {
      const closing = thread
      thread = undefined
      here?.close()
      here = undefined
      await closing?.close()
    },
  }
}

async function snapshotOf<T>(thread: SqliteThread, read: (query: Query) => Promise<T>): Promise<T> {
  await thread.execute('BEGIN')
  try {
    return await read(thread.query)
  } finally {
    // There is nothing to commit. A thread that is no more has told so already.
    await thread.execute('ROLLBACK').catch(() => undefined)
  }
}
