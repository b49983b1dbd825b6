import { setImmediate as yieldToEventLoop } from 'node:timers/promises'
import type { BatchTable } from './batch-table.js'
import { BatchWriter, pauseMs } from './batch-writer.js'
import type { EventLogReadings, EventLogState, EventLogStats } from './event-log-state.js'

/** The records of a log that wait in memory, as rows of its table. */
export interface RecordBuffer<Recorded> {
  /** The number of rows. */
  readonly length: number
  /** The number of records. */
  readonly count: number
  /** The time of the first record; undefined where there are none. */
  readonly firstMs: number | undefined
  /** Returns whether a record needs no further room: it is alike to one that waits, or that was taken last. */
  has(record: Recorded): boolean
  push(record: Recorded): void
  /** Removes the first rows, some thousand at most, and returns them with the time of the first. */
  take(): { readonly rows: readonly string[]; readonly firstMs: number } | undefined
}

export interface RecordLogOptions {
  readonly table: BatchTable
  /** The id under which rows are numbered; that of the spool where there is one. */
  readonly writer: string
  /** The most rows that one statement writes. */
  readonly batchSize: number
  /** The longest time for which rows gather, in milliseconds; 0 by default. */
  readonly maxGatherMs?: number
  /** Whether rows gather for all of that time, since more of them become one; by default as long as pays. */
  readonly gathersLong?: boolean
  /**
   * The most rows in memory. Records that need further ones are dropped and counted, but for those that are alike to a
   * row that is being written: what comes often has a row then, whatever else fills the buffer.
   */
  readonly bufferSize: number
  readonly now: () => number
  readonly state: EventLogState
}

/** The most rows for which a group waits. */
const MOST_GATHERED = 5_000
/**
 * Rows gather for so many times as long as the last ones took to be written, so that writing them takes a small part of
 * the time. `maxGatherMs`, many rows and a flush end it earlier.
 */
const GATHER_FACTOR = 20
/** The age at which rows are not to wait for the database alone. */
const URGENT_MS = 1_000
/** The time for which closing tries to write what is left: less than all components may take to close. */
const CLOSE_MS = 2_000
/** The pause between attempts while the app closes. */
const CLOSE_RETRY_MS = 100
/** The time for which closing waits for a table that has more than the database. */
const CLOSE_URGENT_MS = 300

/**
 * Writes records in the background, in groups: after the current turn of the event loop, or later where writing the last ones took
 * long, together with those that come meanwhile. What cannot be written is tried again, in its order.
 */
export class RecordLog<Recorded> implements EventLogReadings {
  readonly #options: RecordLogOptions
  readonly #writer: BatchWriter
  readonly #buffer: RecordBuffer<Recorded>
  /** The number of rows in memory at which the table has to hurry. */
  #threshold: number
  readonly #mostGathered: number
  #turn: Promise<void> | undefined
  /** The number of the last row that was taken from the buffer. */
  #taken = 0
  /** The taken rows that are not settled, their records, and the time of the first one, before they were sorted. */
  #unsettled = 0
  #unsettledCount = 0
  #takenMs: number | undefined
  /** The time when writing the last rows began, by `performance.now()`, and how long it took. */
  #beganMs = Number.NEGATIVE_INFINITY
  #tookMs = 0
  #endGathering: (() => void) | undefined
  #hurry: () => void = () => undefined
  #isClosed = false
  #flushes: { readonly upTo: number; readonly resolve: () => void }[] = []

  constructor(options: RecordLogOptions, buffer: RecordBuffer<Recorded>) {
    const { table, batchSize, bufferSize, state } = options
    this.#options = options
    this.#buffer = buffer
    // The rest of the buffer is for what comes meanwhile.
    this.#threshold = Math.ceil(bufferSize / 2)
    this.#mostGathered = Math.min(MOST_GATHERED, Math.ceil(bufferSize / 4))
    this.#writer = new BatchWriter({
      table,
      batchSize,
      state,
      settled: (rows) => {
        this.#unsettled -= Math.min(rows.length, this.#unsettled)
        this.#unsettledCount -= Math.min(state.countIn(rows), this.#unsettledCount)
      },
      failed: () => this.#endFlushes(),
    })
  }

  /** Records something. Never waits and never throws. */
  record(record: Recorded): void {
    if (this.#inMemory >= this.#threshold && !this.#buffer.has(record) && !this.#hasRoom()) return
    this.#buffer.push(record)
    if (this.#buffer.length >= this.#mostGathered) this.#endGathering?.()
    this.#turn ??= this.#drain()
  }

  /**
   * Resolves when everything recorded so far is in the table, or is counted as lost; and when a write fails, after
   * which it is tried again.
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
    return this.#options.state.stats(this.#buffer.count + this.#unsettledCount)
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
      const lost = this.#buffer.count + this.#unsettledCount
      const reason = state.lastFailure ?? new Error('the database did not answer before the app was closed')
      if (lost > 0) state.lose(lost, reason)
      this.#unsettled = 0
      this.#unsettledCount = 0
      while (this.#buffer.take() !== undefined);
      await table.close?.()
    } finally {
      clearInterval(timer)
      this.#endFlushes()
    }
  }

  /** Drops and counts a record where nothing has room for it. */
  #hasRoom(): boolean {
    const { bufferSize, state } = this.#options
    this.#hurry()
    if (!this.#isClosed && this.#inMemory < bufferSize) return true
    state.lose(1, new Error(this.#isClosed ? 'the app is closed' : `the buffer of ${bufferSize} rows is full`))
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

  /** Waits for more, where the last ones have just been written. */
  async #gather(): Promise<void> {
    await yieldToEventLoop()
    const { maxGatherMs = 0, gathersLong = false } = this.#options
    const gatherMs = gathersLong ? maxGatherMs : Math.min(maxGatherMs, this.#tookMs * GATHER_FACTOR)
    const restMs = this.#beganMs + gatherMs - performance.now()
    if (restMs <= 0 || this.#buffer.length >= this.#mostGathered || this.#flushes.length > 0 || this.#isClosed) return
    // The process goes on meanwhile, unlike while it retries: it would lose these rows.
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
    const { writer, batchSize, maxGatherMs = 0, gathersLong = false, now, state } = this.#options
    const first = this.#taken + 1
    this.#taken += taken.rows.length
    this.#unsettled = taken.rows.length
    this.#unsettledCount = state.countIn(taken.rows)
    this.#takenMs = taken.firstMs
    let timer: NodeJS.Timeout | undefined
    const urgent = new Promise<void>((resolve) => {
      this.#hurry = resolve
      const gatheredMs = gathersLong ? maxGatherMs : 0
      const restMs = this.#isClosed ? 0 : taken.firstMs + gatheredMs + URGENT_MS - now()
      timer = setTimeout(resolve, Math.min(Math.max(0, restMs), URGENT_MS)).unref()
    })
    // The order within one statement makes no difference: a quiet log has the order of the requests.
    const rows = taken.rows.length > batchSize ? sortByKey(taken.rows) : taken.rows
    await this.#writer.write({ writer, first, rows }, urgent)
    clearTimeout(timer)
    this.#takenMs = undefined
    this.#endFlushes(this.#taken)
  }

  /** @param settled the number up to which rows are settled */
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
function sortByKey(rows: readonly string[]): readonly string[] {
  const keyed = rows.map((row) => {
    // The key follows the time, and is followed by another text.
    const begin = row.indexOf('"')
    return { key: row.slice(begin, row.indexOf('","', begin)), row }
  })
  return keyed.sort((a, b) => (a.key < b.key ? -1 : Number(a.key > b.key))).map(({ row }) => row)
}
