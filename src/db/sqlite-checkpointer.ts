/**
 * The thread behind `sqlite-checkpoints.ts`: asked by a message, it copies the write-ahead log into the file, and answers
 * when that is done.
 *
 * The log can begin anew only when all of it is copied, and that only while nobody writes. So most is copied beside the
 * writer, again for what came meanwhile, and the writer is kept out for the little that is left.
 */
import { parentPort, workerData } from 'node:worker_threads'
import type { CheckpointedFile } from './sqlite-checkpoints.js'
import { openSqliteFile } from './sqlite-driver.js'
import { identityOf, rows } from './sqlite-file.js'

interface Checkpoint {
  /** Pages in the log, and how many of them are copied; -1 where the file has no log. */
  readonly log: number
  readonly checkpointed: number
}

/** How long the last part waits for the writer, and keeps it waiting, in milliseconds. */
const PATIENCE_MS = 10

const port = parentPort
if (port === null) throw new Error('This file is run as a worker')
const { path, identity }: CheckpointedFile = workerData
if (identityOf(path) !== identity) throw new Error(`${path} is another file now`)
const database = openSqliteFile(path, { timeout: PATIENCE_MS })
const beside = database.prepare('PRAGMA wal_checkpoint(PASSIVE)')
const alone = database.prepare('PRAGMA wal_checkpoint(FULL)')

function isAllCopied(): boolean {
  return rows<Checkpoint>(beside.all()).every(({ log, checkpointed }) => checkpointed === log)
}

port.on('message', () => {
  // Where a reader needs what the log replaces (a long report), the writer would wait for it in vain.
  if (isAllCopied() && isAllCopied()) alone.all()
  port.postMessage(null)
})
