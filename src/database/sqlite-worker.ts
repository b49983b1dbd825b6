/** The worker of `sqlite-thread.ts`: a connection on a thread of its own. */
import { pathToFileURL } from 'node:url'
import { parentPort, workerData } from 'node:worker_threads'
import { modulePath } from '../ground/package-root.js'
import type { SqlStatement, SqlValue } from './dialect.js'
import { sqliteErrorCode } from './sqlite-driver.js'
import { type FileOptions, openHere } from './sqlite-file.js'

export interface WorkerOptions extends Omit<FileOptions, 'functions'> {
  /** The `module` of the functions. */
  readonly functionsModule: string | undefined
}

/** A task of the worker, or null to close. */
export type WorkerMessage = Task | null
type Task = Statement | Transaction | LogCopy

export interface Statement {
  readonly id: number
  readonly sql: string
  readonly parameters: readonly SqlValue[]
  /** Whether the answer has rows; otherwise it is the number of changed rows. */
  readonly reads: boolean
}

/** Statements to run in one transaction. */
export interface Transaction {
  readonly id: number
  readonly statements: readonly SqlStatement[]
}

/** Asks for a copy of the write-ahead log into the file. */
export interface LogCopy {
  readonly id: number
  readonly copiesLog: true
}

/** An answer, in texts and numbers, which pass between threads fastest. */
export type Answer =
  /** The rows as JSON, or the number of changed rows; null for a transaction that was undone. */
  | { readonly id: number; readonly answer: string | number | null }
  /** An error, which loses its class between threads; `code` is SQLite's. */
  | { readonly id: number; readonly message: string; readonly code: string | null }

/** The id of the answer without a task: the thread is ready. */
const READY = 0

const port = parentPort
if (port === null) throw new Error('This file is run as a worker')
const { functionsModule, ...options }: WorkerOptions = workerData
const functions =
  functionsModule === undefined
    ? undefined
    : (await import(pathToFileURL(modulePath(functionsModule)).href)).SQLITE_FUNCTIONS
const file = await openHere({ ...options, functions })

async function answer(task: Task): Promise<Answer> {
  const { id } = task
  try {
    if ('copiesLog' in task) {
      await file.copyLog()
      return { id, answer: null }
    }
    if ('statements' in task) return { id, answer: await file.transaction(task.statements) }
    const { sql, parameters, reads } = task
    if (!reads) return { id, answer: await file.execute(sql, parameters) }
    return { id, answer: JSON.stringify(await file.query(sql, parameters)) }
  } catch (error) {
    return { id, message: error instanceof Error ? error.message : String(error), code: sqliteErrorCode(error) ?? null }
  }
}

port.on('message', async (task: WorkerMessage) => {
  if (task !== null) {
    port.postMessage(await answer(task))
    return
  }
  await file.close()
  port.close()
})
port.postMessage({ id: READY, answer: 0 } satisfies Answer)
