import { errorMessage } from '../ground/errors.js'
import type { BatchTable, RowKind } from './batch-table.js'
import { EVENT_ROWS } from './event.js'

/** The figures of a log. An event is one request, also where a row of the table stands for many. */
export interface EventLogStats {
  /** Events that are in the table. */
  readonly written: number
  /** Events lost because nothing could hold them, or the table refused them. */
  readonly dropped: number
  /** Events in memory, not yet in the table. */
  readonly buffered: number
  /** Events in the files of `eventSpool`, not yet in the table; also those that this process took over. */
  readonly spooled: number
  /** The error of the last write that failed, or the last reason for a loss; null when there was none. */
  readonly lastError: string | null
}

/** The readings for health and metrics. */
export interface EventLogReadings {
  stats(): EventLogStats
  /** Returns the age of the oldest events that are not all in the table, in milliseconds; 0 where there are none. */
  lagMs(): number
  /** Whether the last write failed, or the last events were lost. */
  readonly isFailing: boolean
}

const LOG_INTERVAL_MS = 60_000

/** The fate of events, or of other records, for all parts of a log. */
export class EventLogState {
  readonly #rows: RowKind
  written = 0
  dropped = 0
  /** The events in the files of the spool. */
  spooled = 0
  isFailing = false
  lastFailure: unknown
  readonly #now: () => number
  readonly #log: { error(details: object, message: string): void }
  readonly #loggedMs = new Map<string, number>()

  /** @param rows of what there is a log; of events unless given */
  constructor(now: () => number, log: { error(details: object, message: string): void }, rows = EVENT_ROWS) {
    this.#rows = rows
    this.#now = now
    this.#log = log
  }

  /** The name of the records in messages. */
  get what(): string {
    return this.#rows.what
  }

  /** Returns how many events some rows stand for. */
  countIn(rows: readonly string[]): number {
    return rows.reduce((sum, row) => sum + this.#rows.countIn(row), 0)
  }

  stats(buffered: number): EventLogStats {
    const { written, dropped, spooled, lastFailure } = this
    return {
      written,
      dropped,
      buffered,
      spooled,
      lastError: lastFailure === undefined ? null : errorMessage(lastFailure),
    }
  }

  /** Returns a table that counts what it takes. */
  counting(table: BatchTable): BatchTable {
    return {
      refusesRows: table.refusesRows,
      write: async (batch, urgent) => {
        const count = await table.write(batch, urgent)
        this.wrote(batch.rows.slice(0, count))
        return count
      },
    }
  }

  wrote(rows: readonly string[]): void {
    this.written += this.countIn(rows)
    this.isFailing = false
  }

  fail(error: unknown, complaint = 'cannot be written, and are kept for now'): void {
    this.isFailing = true
    this.lastFailure = error
    this.report(complaint, error)
  }

  lose(count: number, error: unknown): void {
    this.dropped += count
    this.fail(error, 'are being lost')
  }

  /** Logs a complaint at most once a minute. */
  report(complaint: string, error: unknown): void {
    const message = `Rate limit ${this.what} ${complaint}`
    const nowMs = this.#now()
    const loggedMs = this.#loggedMs.get(message) ?? Number.NEGATIVE_INFINITY
    if (nowMs - loggedMs < LOG_INTERVAL_MS && nowMs >= loggedMs) return
    this.#loggedMs.set(message, nowMs)
    this.#log.error({ err: error, dropped: this.dropped }, message)
  }
}
