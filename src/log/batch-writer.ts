import { setImmediate as yieldToEventLoop } from 'node:timers/promises'
import type { BatchRows, BatchTable } from './batch-table.js'
import type { EventLogState } from './event-log-state.js'

export interface BatchWriterOptions {
  readonly table: BatchTable
  /** The most events that one statement writes. */
  readonly batchSize: number
  readonly state: EventLogState
  /** Takes the rows that need no more writing: the table has taken or refused them. */
  readonly settled: (rows: readonly string[]) => void
  /** Notes that a write failed, and will be tried again. */
  readonly failed: () => void
}

/** The pauses before a write is tried again: they double from the first to the longest, in milliseconds. */
const FIRST_PAUSE_MS = 100
const LONGEST_PAUSE_MS = 1_000

/** Writes rows in batches, in their order, until the table has taken or refused each. */
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

  /** Resolves when all rows are settled, or after `stop`. */
  async write({ writer, first, rows }: BatchRows, urgent?: Promise<void>): Promise<void> {
    for (let done = 0; done < rows.length && !this.#isStopped; ) {
      const batch = { writer, first: first + done, rows: rows.slice(done, done + this.#size) }
      done += await this.#try(batch, urgent)
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

  /** Resolves with the number of rows that are settled; when the write failed, after the pause, with 0. */
  async #try(batch: BatchRows, urgent: Promise<void> | undefined): Promise<number> {
    const { table, state, settled, failed } = this.#options
    try {
      const count = await table.write(batch, urgent)
      this.#pauseMs = FIRST_PAUSE_MS
      this.#size = Math.min(this.#size * 2, this.#options.batchSize)
      settled(batch.rows.slice(0, count))
      return count
    } catch (error) {
      if (this.#isStopped) return 0
      if (!table.refusesRows(error)) {
        const ended = new Promise<void>((resolve) => {
          this.#endPause = resolve
        })
        const pause = pauseMs(this.#pauseMs)
        this.#pauseMs = Math.min(this.#pauseMs * 2, LONGEST_PAUSE_MS)
        state.fail(error)
        failed()
        await Promise.race([pause, ended])
        return 0
      }
      // The other rows of the batch are not lost with the one that is refused.
      this.#size = Math.ceil(batch.rows.length / 2)
      if (batch.rows.length > 1) return 0
      state.lose(state.countIn(batch.rows), error)
      settled(batch.rows)
      return 1
    }
  }
}

/** A process that has nothing else to do ends. */
export function pauseMs(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms).unref()
  })
}
