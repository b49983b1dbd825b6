import type { Worker } from 'node:worker_threads'
import { startWorker } from './worker.js'

/**
 * The number of written rows after which the write-ahead log, then some 100 MB long, is copied into the file. The event
 * log rewrites the same pages of its indexes: the longer the log, the fewer copies.
 */
export const ROWS_PER_CHECKPOINT = 20_000

/** The file, and its `readFileIdentity` when the writer opened it. */
export interface CheckpointedFile {
  readonly path: string
  readonly identity: string
}

export interface Checkpoints {
  /** Counts written rows. */
  wrote(rows: number): void
  close(): Promise<void>
}

/**
 * Copies the write-ahead log of a busy file on a thread of its own: a copy takes tens of milliseconds, for which
 * statements would wait. The thread starts when it is first needed.
 *
 * @param working receives whether the thread runs; while it does not, the caller has to copy the log
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
    // The thread ended, because of a missing module or a failing disk. It stays busy, so it is not started again.
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
        // The process may start no more threads.
      }
    },

    async close() {
      await worker?.terminate()
    },
  }
}
