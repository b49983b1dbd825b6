import { setImmediate as yieldToEventLoop } from 'node:timers/promises'
import { errorMessage } from '../errors.js'
import { eventValues, type RateLimitEvent } from './event.js'

export interface EventLogStats {
  /** Events that are in the table. */
  readonly written: number
  /** Events lost because the buffer was full or the write failed. */
  readonly dropped: number
  /** Events not yet in the table. */
  readonly buffered: number
  /** The error of the last write that failed; null when none has. */
  readonly lastError: string | null
}

export interface EventLogOptions {
  /** Writes the rows, given as a JSON array of `eventValues`. */
  readonly write: (rowsJson: string) => Promise<unknown>
  /** The most events that one statement writes. */
  readonly batchSize: number
  /** The most events that wait for the table; more are dropped and counted. */
  readonly bufferSize: number
  readonly now: () => number
  readonly log: { error(details: object, message: string): void }
}

const ERROR_LOG_INTERVAL_MS = 60_000

/**
 * Writes events in the background. Events recorded while a statement runs are written together by the next one;
 * otherwise they are written at once, after the current turn of the event loop.
 */
export class EventLog {
  readonly #options: EventLogOptions
  /** Each event as the JSON of its row, cut to the table's lengths, so that hostile requests cannot swell it. */
  #buffer: string[] = []
  /** The rows of the running statement. */
  #writing: readonly string[] = []
  /** The running batch. */
  #turn: Promise<void> | undefined
  /** The number of events that entered the buffer, and of those that left it, written or lost. */
  #accepted = 0
  #settled = 0
  #written = 0
  #dropped = 0
  #lastError: string | null = null
  #isLosing = false
  #lastLoggedMs = Number.NEGATIVE_INFINITY

  constructor(options: EventLogOptions) {
    this.#options = options
  }

  /** Records an event. Never waits and never throws. */
  record(event: RateLimitEvent): void {
    if (this.#accepted - this.#settled >= this.#options.bufferSize) {
      this.#dropped++
      this.#logFailure(new Error(`the buffer of ${this.#options.bufferSize} events is full`))
      return
    }
    this.#accepted++
    this.#buffer.push(JSON.stringify(eventValues(event)))
    this.#turn ??= this.#writeBatch()
  }

  /** Resolves when every event recorded so far is in the table, or is counted as lost. */
  async flush(): Promise<void> {
    const accepted = this.#accepted
    while (this.#settled < accepted && this.#turn !== undefined) await this.#turn
  }

  stats(): EventLogStats {
    return {
      written: this.#written,
      dropped: this.#dropped,
      buffered: this.#accepted - this.#settled,
      lastError: this.#lastError,
    }
  }

  /** Returns the age of the oldest event that is not in the table, in milliseconds; 0 where there is none. */
  lagMs(): number {
    const [oldest = this.#buffer[0]] = this.#writing
    if (oldest === undefined) return 0
    // The row begins with the timestamp.
    return Math.max(0, this.#options.now() - Number.parseInt(oldest.slice(1), 10))
  }

  /** Whether the last events to be written, or buffered, were lost. */
  get isLosing(): boolean {
    return this.#isLosing
  }

  async #writeBatch(): Promise<void> {
    await yieldToEventLoop()
    await this.#write(this.#buffer.splice(0, this.#options.batchSize))
    this.#turn = this.#buffer.length > 0 ? this.#writeBatch() : undefined
  }

  async #write(rows: readonly string[]): Promise<void> {
    this.#writing = rows
    try {
      await this.#options.write(`[${rows.join(',')}]`)
      this.#written += rows.length
      this.#isLosing = false
    } catch (error) {
      this.#dropped += rows.length
      this.#logFailure(error)
    }
    this.#settled += rows.length
    this.#writing = []
  }

  #logFailure(error: unknown): void {
    this.#isLosing = true
    this.#lastError = errorMessage(error)
    const nowMs = this.#options.now()
    if (nowMs - this.#lastLoggedMs < ERROR_LOG_INTERVAL_MS && nowMs >= this.#lastLoggedMs) return
    this.#lastLoggedMs = nowMs
    this.#options.log.error({ err: error, dropped: this.#dropped }, 'Rate limit events are being lost')
  }
}
