import type { Worker } from 'node:worker_threads'
import { startWorker } from './worker.js'

/**
 * After so many written rows the write-ahead log is copied into the file. It is some 100 MB long then: the event log
 * writes the same pages of its indexes again and again, and the longer the log, the fewer of them are copied.
 */
export const ROWS_PER_CHECKPOINT = 20_000

/** The file, and what `identityOf` it was when the writer opened it. */
export interface CheckpointedFile {
  readonly path: string
  readonly identity: string
}

export interface Checkpoints {
  /** Rows were written. */
  wrote(rows: number): void
  close(): Promise<void>
}

/**
 * Copies the write-ahead log of a file that is written to a lot, on a thread of its own: it takes tens of milliseconds,
 * for which the statements would wait. The thread starts when it is first needed.
 *
 * @param working is told whether the thread does its work; while it does not, somebody else has to
 */
export function createCheckpoints(file: CheckpointedFile, working: (isWorking: boolean) => void): Checkpoints {
  let worker: Worker | undefined
  let isBusy = false
  let written = 0

  function start(): Worker {
    const started = startWorker('sqlite-checkpointer', file)
    started.once('online', () => working(true))
    started.on('message', () => {
      isBusy = false
    })
    // It ended: its module is missing, say, or the disk fails. It stays away, being busy for ever.
    started.on('error', () => working(false))
    return started
  }

  return {
    wrote(rows) {
      written += rows
      if (isBusy || written < ROWS_PER_CHECKPOINT) return
      isBusy = true
      written = 0
      try {
        worker ??= start()
        worker.postMessage(null)
      } catch {
        // No more threads may be started.
      }
    },

    async close() {
      await worker?.terminate()
    },
  }
}
