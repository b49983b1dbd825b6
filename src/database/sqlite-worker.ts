/** The worker of `sqlite-thread.ts`: a connection on a thread of its own. */
import { pathToFileURL } from 'node:url'
import { parentPort, workerData } from 'node:worker_threads'
import { modulePath } from '../ground/package-root.js'
import type { SqlStatement, SqlValue } from './dialect.js'
import { createCheckpoints } from './sqlite-checkpoints.js'
import { sqliteErrorCode } from './sqlite-driver.js'
import { BACKSTOP_PAGES, CHECKPOINT_PAGES, type FileOptions, openHere } from './sqlite-file.js'

export interface WorkerOptions extends Omit<FileOptions, 'functions'> {
  /** The `module` of the functions. */
  readonly functionsModule: string | undefined
}

/** A statement to run, the number of rows that were written elsewhere, or null to close. */
export type Asked = Statement | Transaction | number | null

export interface Statement {
  readonly id: number
  readonly sql: string
  readonly parameters: readonly SqlValue[]
  /** Whether to answer its rows; otherwise the number of changed rows. */
  readonly reads: boolean
}

/** Statements to run in one transaction. */
export interface Transaction {
  readonly id: number
  readonly statements: readonly SqlStatement[]
}

/** An answer, in texts and numbers, which pass between threads fastest. */
export type Answered =
  /** The rows as JSON, or the number of changed rows; null for a transaction that was undone. */
  | { readonly id: number; readonly answer: string | number | null }
  /** An error, which loses its class between threads; `code` is SQLite's. */
  | { readonly id: number; readonly message: string; readonly code: string | null }

/** The id of the answer without a question: the thread is ready. */
const READY = 0

const port = parentPort
if (port === null) throw new Error('This file is run as a worker')
const { functionsModule, ...options }: WorkerOptions = workerData
const functions =
  functionsModule === undefined
    ? undefined
    : (await import(pathToFileURL(modulePath(functionsModule)).href)).SQLITE_FUNCTIONS
const file = await openHere({ ...options, functions })

let hasCheckpointer = true
const checkpoints = createCheckpoints({ path: options.path, identity: file.identity }, (isWorking) => {
  hasCheckpointer = isWorking
  const pages = isWorking ? BACKSTOP_PAGES : CHECKPOINT_PAGES
  void file.query(`PRAGMA wal_autocheckpoint = ${pages}`)
})

async function answer(asked: Statement | Transaction): Promise<Answered> {
  const { id } = asked
  try {
    if ('statements' in asked) {
      const changed = await file.transaction(asked.statements)
      checkpoints.wrote(changed ?? 0)
      return { id, answer: changed }
    }
    const { sql, parameters, reads } = asked
    if (!reads) {
      const changed = await file.execute(sql, parameters)
      checkpoints.wrote(changed)
      return { id, answer: changed }
    }
    return { id, answer: JSON.stringify(await file.query(sql, parameters)) }
  } catch (error) {
    return { id, message: error instanceof Error ? error.message : String(error), code: sqliteErrorCode(error) ?? null }
  }
}

port.on('message', async (asked: Asked) => {
  if (typeof asked === 'number') {
    checkpoints.wrote(asked)
    // The pages at which a commit copies the log are counted by the connection that commits.
    if (!hasCheckpointer) file.query('PRAGMA wal_checkpoint(PASSIVE)').catch(() => undefined)
    return
  }
  if (asked !== null) {
    port.postMessage(await answer(asked))
    return
  }
  await checkpoints.close()
  await file.close()
  port.close()
})
port.postMessage({ id: READY, answer: 0 } satisfies Answered)
