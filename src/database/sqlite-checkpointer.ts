/**
 * The thread of `sqlite-checkpoints.ts`: on a message, it copies the write-ahead log into the file, and answers when
 * that is done.
 *
 * The log can restart only when all of it is copied, which needs a moment without a writer. So most is copied beside
 * the writer, then what was written during that, and the writer is locked out only for the rest.
 */
import { parentPort, workerData } from 'node:worker_threads'
import type { CheckpointedFile } from './sqlite-checkpoints.js'
import { openSqliteFile } from './sqlite-driver.js'
import { readFileIdentity, rows } from './sqlite-file.js'

interface Checkpoint {
  /** The number of pages in the log, and of those that are copied; -1 where the file has no log. */
  readonly log: number
  readonly checkpointed: number
}

/** The longest wait of the last part for the writer, and of the writer for it, in milliseconds. */
const PATIENCE_MS = 10

const port = parentPort
if (port === null) throw new Error('This file is run as a worker')
const { path, identity }: CheckpointedFile = workerData
if (readFileIdentity(path) !== identity) throw new Error(`${path} is another file now`)
const database = openSqliteFile(path, { timeout: PATIENCE_MS })
const beside = database.prepare('PRAGMA wal_checkpoint(PASSIVE)')
const alone = database.prepare('PRAGMA wal_checkpoint(FULL)')

function isAllCopied(): boolean {
  return rows<Checkpoint>(beside.all()).every(({ log, checkpointed }) => checkpointed === log)
}

port.on('message', () => {
  // While a reader (a long report) needs what the log replaces, locking the writer out would not help.
  if (isAllCopied() && isAllCopied()) alone.all()
  port.postMessage(null)
})
