import { pathToFileURL } from 'node:url'
import { Worker } from 'node:worker_threads'
import { isSource, modulePath } from '../ground/package-root.js'
import type { SqlValue } from './dialect.js'
import { createSqliteError } from './sqlite-driver.js'
import type { FileOptions, SqliteFile } from './sqlite-file.js'
import type { Answer, LogCopy, Statement, Transaction, WorkerMessage, WorkerOptions } from './sqlite-worker.js'

/**
 * The longest wait for a thread that closes its connection, which copies the write-ahead log into the file, in ms.
 * An unresponsive (network) disk must not keep the server from closing: the log keeps what was written.
 */
export const CLOSE_TIMEOUT_MS = 5_000

interface PendingAnswer {
  resolve(answer: string | number | null): void
  reject(error: Error): void
}

/**
 * Opens a file on a thread of its own, since the synchronous driver would block the server. The thread keeps the
 * process alive only while statements run.
 *
 * @param crashed called when the thread ends later without being closed
 * @throws where the process may start no thread, where the file cannot be opened, and where the host's bundler omitted
 * the worker
 */
export async function openOnThread({ functions, ...options }: FileOptions, crashed: () => void): Promise<SqliteFile> {
  const worker = startWorker({ ...options, functionsModule: functions?.module })
  const waiting = new Map<number, PendingAnswer>()
  // Id 0 is the worker's.
  let lastId = 0
  let isOpen = false
  let crash: unknown
  /** The error of all statements after the thread has ended. */
  let end: Error | undefined

  worker.on('error', (error) => {
    crash = error
  })
  const exited = new Promise<void>((resolve) => {
    worker.once('exit', () => {
      end = new Error('The thread of the rate limit database ended', { cause: crash })
      fail(end)
      if (isOpen) crashed()
      resolve()
    })
  })
  // The worker's first message means that it is ready.
  await Promise.race([new Promise((resolve) => worker.once('message', resolve)), exited])
  if (end !== undefined) throw end
  isOpen = true
  worker.unref()
  worker.on('message', (answer: Answer) => {
    const pending = waiting.get(answer.id)
    waiting.delete(answer.id)
    if (waiting.size === 0) worker.unref()
    if ('answer' in answer) pending?.resolve(answer.answer)
    else pending?.reject(toError(answer.message, answer.code))
  })

  function run(
    task: Omit<Statement, 'id'> | Omit<Transaction, 'id'> | Omit<LogCopy, 'id'>,
  ): Promise<string | number | null> {
    return new Promise((resolve, reject) => {
      if (end !== undefined) {
        reject(end)
        return
      }
      const id = ++lastId
      if (waiting.size === 0) worker.ref()
      waiting.set(id, { resolve, reject })
      post({ id, ...task })
    })
  }

  function fail(error: Error): void {
    for (const { reject } of waiting.values()) reject(error)
    waiting.clear()
  }

  /** Gives up the thread: not even `terminate` ends one that waits for a disk. */
  function abandon(): void {
    void worker.terminate()
    worker.unref()
    fail(new Error(`The thread of the rate limit database did not close within ${CLOSE_TIMEOUT_MS} ms`))
  }

  function post(message: WorkerMessage): void {
    worker.postMessage(message)
  }

  return {
    async query<Row>(sql: string, parameters: readonly SqlValue[] = []): Promise<Row[]> {
      return JSON.parse(String(await run({ sql, parameters, reads: true })))
    },

    async execute(sql, parameters = []) {
      return Number(await run({ sql, parameters, reads: false }))
    },

    async transaction(statements) {
      const changed = await run({ statements })
      return changed === null ? null : Number(changed)
    },

    async copyLog() {
      await run({ copiesLog: true })
    },

    async close() {
      isOpen = false
      worker.ref()
      post(null)
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

function toError(message: string, code: string | null): Error {
  return code === null ? new Error(message) : createSqliteError(message, code)
}

/** @throws where the process may start no thread */
function startWorker(workerData: WorkerOptions): Worker {
  // Modules that the process preloads (such as tracing) do not belong in the worker.
  const options = { workerData, name: 'fastify-smart-ratelimit', execArgv: [] }
  const path = modulePath('src/database/sqlite-worker')
  if (!isSource) return new Worker(path, options)
  // A worker does not inherit the loader of the sources.
  const source = JSON.stringify(pathToFileURL(path).href)
  const load = `import('tsx/esm/api').then(({ register }) => { register(); return import(${source}) })`
  return new Worker(load, { ...options, eval: true })
}
