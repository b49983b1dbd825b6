import { createSqliteFile, type SqliteFile } from './sqlite-file.js'
import { type SqliteThread, startSqliteThread } from './sqlite-thread.js'

/** After so many statements a thread pays: a short command, or a server that few visit, starts none. */
const STATEMENTS_BEFORE_THREAD = 300

/**
 * Runs the statements of this process on a file: on this thread at first, and on a thread of their own as soon as that
 * is ready. When it crashes, the statements it had fail, and this thread helps out until the next one is ready; where
 * none can start, it goes on.
 */
export function createSqliteStatements(path: string): SqliteFile {
  const here = createSqliteFile(path)
  let thread: SqliteThread | undefined
  let beforeThread = STATEMENTS_BEFORE_THREAD

  function start(): SqliteThread | undefined {
    const identity = here.identity()
    if (identity === undefined) return undefined
    const started = startSqliteThread({ path, identity }, (wasOnline) => {
      if (thread !== started) return
      thread = undefined
      beforeThread = wasOnline ? STATEMENTS_BEFORE_THREAD : Number.POSITIVE_INFINITY
    })
    return started
  }

  function file(): SqliteFile {
    if (thread === undefined && beforeThread-- <= 0) thread = start()
    return thread?.isOnline() ? thread : here
  }

  return {
    query: (sql, parameters) => file().query(sql, parameters),
    execute: (sql, parameters) => file().execute(sql, parameters),

    async close() {
      const closing = thread
      thread = undefined
      beforeThread = STATEMENTS_BEFORE_THREAD
      await Promise.all([here.close(), closing?.close()])
    },
  }
}
