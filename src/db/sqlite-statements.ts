import { createSqliteFile, type SqliteFile } from './sqlite-file.js'
import { type SqliteThread, startSqliteThread } from './sqlite-thread.js'

/**
 * After so many writes of the event log, or of a command, a thread pays. Without them there is none: the short
 * statements of the limiter cost this thread no more than handing them over would. Tests set another number.
 */
export const beforeThread = { writes: 300 }

/**
 * Runs the statements of this process on a file: on this thread at first; once many events were logged, on a thread of
 * their own, the limiter's too, since the two would contend for the file. When that crashes, the statements it had fail,
 * and this thread helps out until the next one is ready; where none can start, it goes on for good.
 */
export function createSqliteStatements(path: string): SqliteFile {
  const here = createSqliteFile(path)
  let thread: SqliteThread | undefined
  let left = beforeThread.writes
  let isAllowed = true

  function start(): SqliteThread | undefined {
    const identity = here.identity()
    if (identity === undefined) return undefined
    try {
      const started = startSqliteThread({ path, identity }, (wasOnline) => {
        if (thread !== started) return
        thread = undefined
        left = wasOnline ? beforeThread.writes : Number.POSITIVE_INFINITY
      })
      return started
    } catch {
      // Node's permission model, say, forbids threads.
      isAllowed = false
      return undefined
    }
  }

  function file(): SqliteFile {
    return thread?.isOnline() ? thread : here
  }

  return {
    query: (sql, parameters) => file().query(sql, parameters),

    execute(sql, parameters) {
      if (thread === undefined && isAllowed && left-- <= 0) thread = start()
      return file().execute(sql, parameters)
    },

    transaction: (steps) => file().transaction(steps),

    async close() {
      const closing = thread
      thread = undefined
      left = beforeThread.writes
      await Promise.all([here.close(), closing?.close()])
    },
  }
}
