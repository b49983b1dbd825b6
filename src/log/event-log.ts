import { setImmediate as yieldToEventLoop } from 'node:timers/promises'
import { BatchWriter, pauseMs } from './batch-writer.js'
import { eventValues, type RateLimitEvent } from './event.js'
import type { EventLogReadings, EventLogState, EventLogStats } from './event-log-state.js'
import type { EventTable } from './event-table.js'
import { RowBuffer } from './row-buffer.js'

export interface EventLogOptions {
  readonly table: EventTable
  /** The id under which events are numbered; that of the spool where there is one. */
  readonly writer: string
  /** The most events that one statement writes. */
  readonly batchSize: number
  /** The longest time for which events gather, in milliseconds; 0 by default. */
  readonly maxGatherMs?: number
  /** The most events in memory. Further ones are dropped and counted. */
  readonly bufferSize: number
  readonly now: () => number
  readonly state: EventLogState
}

/** The most events for which a group waits. */
const MOST_GATHERED = 5_000
/**
 * Events gather for so many times as long as the last ones took to be written, so that writing them takes a small part of
 * the time. `maxGatherMs`, many events and a flush end it earlier.
 */
const GATHER_FACTOR = 20
/** The age at which events are not to wait for the database alone. */
const URGENT_MS = 1_000
/** The time for which closing tries to write what is left: less than all components may take to close. */
const CLOSE_MS = 2_000
/** The pause between attempts while the app closes. */
const CLOSE_RETRY_MS = 100
/** The time for which closing waits for a table that has more than the database. */
const CLOSE_URGENT_MS = 300

/**
 * Writes events in the background: after the current turn of the event loop, or later where writing the last ones took
 * long, together with those that come meanwhile. What cannot be written is tried again, in its order.
 */
export class EventLog implements EventLogReadings {
  readonly #options: EventLogOptions
  readonly #writer: BatchWriter
  /** The JSON of each event's row, cut to the table's lengths, so that hostile requests cannot swell it. */
  readonly #buffer = new RowBuffer()
  /** The number of events in memory at which the table has to hurry. */
  #threshold: number
  readonly #mostGathered: number
  #turn: Promise<void> | undefined
  /** The number of the last event that was taken from the buffer. */
  #taken = 0
  /** The taken events that are not settled, and the time of the first one, before they were sorted. */
  #unsettled = 0
  #takenMs: number | undefined
  /** The time when writing the last events began, by `performance.now()`, and how long it took. */
  #beganMs = Number.NEGATIVE_INFINITY
  #tookMs = 0
  #endGathering: (() => void) | undefined
  #hurry: () => void = () => undefined
  #isClosed = false
  #flushes: { readonly upTo: number; readonly resolve: () => void }[] = []

  constructor(options: EventLogOptions) {
    const { table, batchSize, bufferSize, state } = options
    this.#options = options
    // The rest of the buffer is for what comes meanwhile.
    this.#threshold = Math.ceil(bufferSize / 2)
    this.#mostGathered = Math.min(MOST_GATHERED, Math.ceil(bufferSize / 4))
    this.#writer = new BatchWriter({
      table,
      batchSize,
      state,
      settled: (count) => {
        this.#unsettled -= Math.min(count, this.#unsettled)
      },
      failed: () => this.#endFlushes(),
    })
  }

  /** Records an event. Never waits and never throws. */
  record(event: RateLimitEvent): void {
    if (this.#inMemory >= this.#threshold && !this.#hasRoom()) return
    this.#buffer.push(JSON.stringify(eventValues(event)), event.timestampMs)
    if (this.#buffer.length >= this.#mostGathered) this.#endGathering?.()
    this.#turn ??= this.#drain()
  }

  /**
   * Resolves when every event recorded so far is in the table, or is counted as lost; and when a write fails, after
   * which these events are tried again.
   */
  async flush(): Promise<void> {
    if (this.#inMemory > 0 && !this.#isClosed) {
      this.#endGathering?.()
      this.#writer.retryNow()
      const upTo = this.#taken + this.#buffer.length
      await new Promise<void>((resolve) => this.#flushes.push({ upTo, resolve }))
    }
    await this.#options.table.flush?.()
  }

  stats(): EventLogStats {
    return this.#options.state.stats(this.#inMemory)
  }

  lagMs(): number {
    const oldestMs = this.#options.table.oldestMs ?? this.#takenMs ?? this.#buffer.firstMs
    return oldestMs === undefined ? 0 : Math.max(0, this.#options.now() - oldestMs)
  }

  get isFailing(): boolean {
    return this.#options.state.isFailing
  }

  get #inMemory(): number {
    return this.#buffer.length + this.#unsettled
  }

  /** Writes what is left, for some seconds at most; what no table has taken then is lost. */
  async close(): Promise<void> {
    const { table, state } = this.#options
    const isDone = () => this.#inMemory === 0 && table.oldestMs === undefined
    const flush = () => this.flush().then(() => (isDone() ? undefined : pauseMs(CLOSE_RETRY_MS)))
    let isOver = false
    let timer: NodeJS.Timeout | undefined
    // Repeats, so that the process does not end before this does: the timers of retries let it.
    const over = new Promise<void>((resolve) => {
      timer = setInterval(() => {
        isOver = true
        resolve()
      }, CLOSE_MS)
    })
    try {
      while (!isDone() && !isOver) await Promise.race([over, flush()])
      this.#isClosed = true
      this.#threshold = Number.NEGATIVE_INFINITY
      this.#hurry()
      if (table.close !== undefined) await Promise.race([this.#turn, pauseMs(CLOSE_URGENT_MS)])
      this.#writer.stop()
      const lost = this.#inMemory
      const reason = state.lastFailure ?? new Error('the database did not answer before the app was closed')
      if (lost > 0) state.lose(lost, reason)
      this.#unsettled = 0
      while (this.#buffer.take() !== undefined);
      await table.close?.()
    } finally {
      clearInterval(timer)
      this.#endFlushes()
    }
  }

  /** Drops and counts an event where nothing has room for it. */
  #hasRoom(): boolean {
    const { bufferSize, state } = this.#options
    this.#hurry()
    if (!this.#isClosed && this.#inMemory < bufferSize) return true
    state.lose(1, new Error(this.#isClosed ? 'the app is closed' : `the buffer of ${bufferSize} events is full`))
    return false
  }

  async #drain(): Promise<void> {
    do {
      await this.#gather()
      this.#beganMs = performance.now()
      await this.#writeTaken()
      this.#tookMs = performance.now() - this.#beganMs
    } while (this.#buffer.length > 0)
    this.#turn = undefined
  }

  /** Waits for more events, where the last ones have just been written. */
  async #gather(): Promise<void> {
    await yieldToEventLoop()
    const gatherMs = Math.min(this.#options.maxGatherMs ?? 0, this.#tookMs * GATHER_FACTOR)
    const restMs = this.#beganMs + gatherMs - performance.now()
    if (restMs <= 0 || this.#buffer.length >= this.#mostGathered || this.#flushes.length > 0 || this.#isClosed) return
    // The process goes on meanwhile, unlike while it retries: it would lose these events.
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, restMs)
      this.#endGathering = () => {
        clearTimeout(timer)
        resolve()
      }
    })
    this.#endGathering = undefined
  }

  async #writeTaken(): Promise<void> {
    const taken = this.#buffer.take()
    if (taken === undefined) return
    const { writer, batchSize, now } = this.#options
    const first = this.#taken + 1
    this.#taken += taken.rows.length
    this.#unsettled = taken.rows.length
    this.#takenMs = taken.firstMs
    let timer: NodeJS.Timeout | undefined
    const urgent = new Promise<void>((resolve) => {
      this.#hurry = resolve
      const restMs = this.#isClosed ? 0 : taken.firstMs + URGENT_MS - now()
      timer = setTimeout(resolve, Math.max(0, restMs)).unref()
    })
    // The order within one statement makes no difference: a quiet log has the order of the requests.
    const rows = taken.rows.length > batchSize ? sortByKey(taken.rows) : taken.rows
    await this.#writer.write({ writer, first, rows }, urgent)
    clearTimeout(timer)
    this.#takenMs = undefined
    this.#endFlushes(this.#taken)
  }

  /** @param settled the number up to which events are settled */
  #endFlushes(settled = Number.POSITIVE_INFINITY): void {
    const flushes = this.#flushes
    this.#flushes = flushes.filter(({ upTo }) => upTo > settled)
    for (const { upTo, resolve } of flushes) if (upTo <= settled) resolve()
  }
}

/**
 * Sorts rows by their keys; those of one key stay in their order. The index of keys has the rows of a key beside each
 * other: each of its pages is then changed by few statements, which on SQLite takes half the time.
 */
function sortByKey(rows: readonly string[]): string[] {
  const keyed = rows.map((row) => {
    // The key follows the time, and is followed by another text.
    const begin = row.indexOf('"')
    return { key: row.slice(begin, row.indexOf('","', begin)), row }
  })
  return keyed.sort((a, b) => (a.key < b.key ? -1 : Number(a.key > b.key))).map(({ row }) => row)
}
