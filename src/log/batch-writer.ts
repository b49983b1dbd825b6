import { setImmediate as yieldToEventLoop } from 'node:timers/promises'
import type { EventRows, EventTable } from './event.js'

export interface BatchWriterOptions {
  readonly table: EventTable
  /** The most events that one statement writes. */
  readonly batchSize: number
  /** Called with the number of rows that are in the table now. */
  readonly written: (count: number) => void
  /** Called for a row that the table refuses. */
  readonly refused: (error: unknown) => void
  /** Called when a write fails, and will be tried again. */
  readonly failed: (error: unknown) => void
}

/** The pauses before a write is tried again: they double from the first to the longest, in milliseconds. */
const FIRST_PAUSE_MS = 100
const LONGEST_PAUSE_MS = 1_000

/** Writes rows in batches, in their order, until each is in the table, or refused by it. */
export class BatchWriter {
  readonly #options: BatchWriterOptions
  #pauseMs = FIRST_PAUSE_MS
  /** Smaller while a row is searched for that the table refuses. */
  #size: number
  #endPause: (() => void) | undefined
  #isStopped = false

  constructor(options: BatchWriterOptions) {
    this.#options = options
    this.#size = options.batchSize
  }

  /** Resolves when all rows are written or refused, or after `stop`. */
  async write({ writer, first, rows }: EventRows): Promise<void> {
    for (let done = 0; done < rows.length && !this.#isStopped; ) {
      const batch = { writer, first: first + done, rows: rows.slice(done, done + this.#size) }
      done += await this.#try(batch)
      // SQLite without a thread blocks the process for each statement.
      if (done < rows.length) await yieldToEventLoop()
    }
  }

  /** Ends the present pause. */
  retryNow(): void {
    this.#endPause?.()
  }

  /** Tries nothing again. */
  stop(): void {
    this.#isStopped = true
    this.#endPause?.()
  }

  /** Resolves with the number of rows that are written or refused; when the write failed, after the pause, with 0. */
  async #try(batch: EventRows): Promise<number> {
    const { table, written, refused, failed } = this.#options
    try {
      const settled = (await table.write(batch)) ? batch.rows.length : await this.#countWritten(batch)
      if (this.#isStopped) return 0
      this.#pauseMs = FIRST_PAUSE_MS
      this.#size = Math.min(this.#size * 2, this.#options.batchSize)
      written(settled)
      return settled
    } catch (error) {
      if (this.#isStopped) return 0
      if (!table.refusesRows(error)) {
        const pause = this.#pause()
        failed(error)
        await pause
        return 0
      }
      // The other rows of the batch are not lost with the one that is refused.
      this.#size = Math.ceil(batch.rows.length / 2)
      if (batch.rows.length > 1) return 0
      refused(error)
      return 1
    }
  }

  /** Counts the rows that an attempt wrote of which the answer was lost. */
  async #countWritten({ writer, first, rows }: EventRows): Promise<number> {
    const last = await this.#options.table.lastWritten(writer)
    return Math.max(0, Math.min(last - first + 1, rows.length))
  }

  #pause(): Promise<void> {
    const pauseMs = this.#pauseMs
    this.#pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS)
    return new Promise((resolve) => {
      const timer = setTimeout(end, pauseMs)
      // A process that has nothing else to do ends.
      timer.unref()
      this.#endPause = end
      function end() {
        clearTimeout(timer)
        resolve()
      }
    })
  }
}
