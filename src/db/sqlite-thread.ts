import type { SqlValue } from './dialect.js'
import { createSqliteError } from './sqlite-driver.js'
import type { SqliteFile } from './sqlite-file.js'
import type { Answered, Asked, Statement, ThreadOptions, Transaction } from './sqlite-worker.js'
import { startWorker } from './worker.js'

/**
 * How long a thread may take to close its connection, which copies the write-ahead log into the file, in milliseconds.
 * A disk that answers no more (a network's, say) must not keep the server from closing: the log keeps what was written.
 */
export const CLOSE_TIMEOUT_MS = 5_000

export interface SqliteThread extends SqliteFile {
  isOnline(): boolean
}

interface Waiting {
  resolve(answer: string | number): void
  reject(error: Error): void
}

/**
 * A connection to a file on a thread of its own: the driver is synchronous, and the server has better things to do.
 *
 * It keeps no process alive but while statements are under way.
 *
 * @param ended is told when the thread is no more, and whether it was ever ready: it crashed, it could not start (the
 * file is another one now, or the host's bundler left the worker out), or it was closed
 * @throws where the process may start no thread
 */
export function startSqliteThread(file: ThreadOptions, ended: (wasOnline: boolean) => void): SqliteThread {
  const worker = startWorker('sqlite-worker', file)
  const waiting = new Map<number, Waiting>()
  // The worker's own is 0.
  let lastId = 0
  let isOnline = false
  let crash: unknown
  /** What all statements fail with once the thread is no more. */
  let end: Error | undefined

  worker.unref()
  worker.on('error', (error) => {
    crash = error
  })
  const exited = new Promise<void>((resolve) => {
    worker.once('exit', () => {
      const wasOnline = isOnline
      isOnline = false
      end = new Error('The thread of the rate limit database ended', { cause: crash })
      fail(end)
      ended(wasOnline)
      resolve()
    })
  })
  // Its first message says that it is ready.
  worker.once('message', () => {
    isOnline = true
  })
  worker.on('message', (answered: Answered) => {
    const asked = waiting.get(answered.id)
    waiting.delete(answered.id)
    if (waiting.size === 0) worker.unref()
    if ('answer' in answered) asked?.resolve(answered.answer)
    else asked?.reject(errorOf(answered.message, answered.code))
  })

  function ask(asked: Omit<Statement, 'id'> | Omit<Transaction, 'id'>): Promise<string | number> {
    return new Promise((resolve, reject) => {
      if (end !== undefined) {
        reject(end)
        return
      }
      const id = ++lastId
      if (waiting.size === 0) worker.ref()
      waiting.set(id, { resolve, reject })
      post({ id, ...asked })
    })
  }

  function fail(error: Error): void {
    for (const { reject } of waiting.values()) reject(error)
    waiting.clear()
  }

  /** Leaves the thread to itself: not even `terminate` ends one that waits for a disk. */
  function abandon(): void {
    void worker.terminate()
    worker.unref()
    fail(new Error(`The thread of the rate limit database did not close within ${CLOSE_TIMEOUT_MS} ms`))
  }

  function post(asked: Asked): void {
    worker.postMessage(asked)
  }

  return {
    isOnline: () => isOnline,

    async query<Row>(sql: string, parameters: readonly SqlValue[] = []): Promise<Row[]> {
      return JSON.parse(String(await ask({ sql, parameters, reads: true })))
    },

    async execute(sql, parameters = []) {
      return Number(await ask({ sql, parameters, reads: false }))
    },

    async transaction(steps) {
      await ask({ steps })
    },

    async close() {
      worker.ref()
      if (isOnline) post(null)
      else void worker.terminate()
      await new Promise<void>((resolve) => {
        const bound = setTimeout(() => {
          abandon()
          resolve()
        }, CLOSE_TIMEOUT_MS)
        void exited.then(() => {
          clearTimeout(bound)
          resolve()
        })
      })
    },
  }
}

function errorOf(message: string, code: string | null): Error {
  return code === null ? new Error(message) : createSqliteError(message, code)
}
