import { setImmediate as yieldToEventLoop } from 'node:timers/promises'
import { errorMessage } from '../ground/errors.js'
import { BatchWriter } from './batch-writer.js'
import { type EventRows, type EventTable, eventValues, type RateLimitEvent } from './event.js'
import { RowBuffer } from './row-buffer.js'
import { MAX_SPOOL_BYTES, type OpenSpools, type Spool } from './spool.js'
import { SpoolReplay } from './spool-replay.js'

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

export interface EventLogOptions {
  readonly table: EventTable
  /** The id under which events are numbered; that of the spool where there is one. */
  readonly writer: string
  /** The most events that one statement writes. */
  readonly batchSize: number
  /** The longest time for which events gather, in milliseconds; 0 by default. */
  readonly maxGatherMs?: number
  /** The most events in memory. Further ones go to the spool, or are dropped and counted. */
  readonly bufferSize: number
  readonly spools?: OpenSpools | undefined
  readonly maxSpoolBytes?: number | undefined
  readonly now: () => number
  readonly log: { error(details: object, message: string): void }
}

/** The most events that are taken from the buffer at once. */
const MAX_TAKEN = 5_000
/**
 * Events gather for so many times as long as the last ones took to be written, so that writing them takes a small part of
 * the time. `maxGatherMs`, many events and a flush end it earlier.
 */
const GATHER_FACTOR = 20
const ERROR_LOG_INTERVAL_MS = 60_000
/** The age at which events go to the spool, although the statement that writes them may yet be answered. */
const LATE_MS = 1_000
/** The pause between two groups of the spool, so that the disk has to sync some tens of times a second. */
const GROUP_MS = 20
/** How many events are appended to the spool at once. */
const MAX_GROUP = 20_000
/** The pause after the spool has failed. */
const SPOOL_RETRY_MS = 1_000
/** How long closing tries to write what is left: less than all components may take to close, for the spool follows. */
const CLOSE_MS = 2_000
const REPLAY_CLOSE_MS = 200
/** The pause between attempts while the app closes. */
const CLOSE_RETRY_MS = 100

/** Events on their way to the table, and whether they are in the spool too. */
interface Head extends EventRows {
  isSpooled: boolean
  /** The time of the first one, before they were sorted. */
  readonly firstMs: number
}

/**
 * Writes events in the background: after the current turn of the event loop, or later where writing the last ones took
 * long, together with those that come meanwhile. What cannot be written is tried again, in its order. With a spool,
 * events go to the disk while the table does not take them, or too slowly: older ones than those in the buffer, and
 * younger ones than the head.
 */
export class EventLog {
  readonly #options: EventLogOptions
  readonly #spool: Spool | undefined
  readonly #writer: BatchWriter
  /** The number of buffered events at which room has to be made. */
  #threshold: number
  readonly #mostGathered: number
  /** Each event as the JSON of its row, cut to the table's lengths, so that hostile requests cannot swell it. */
  readonly #buffer = new RowBuffer()
  /** The oldest events: those of the running statement, and others that were taken with them. */
  #head: Head | undefined
  #turn: Promise<void> | undefined
  /** When writing the last events began, by `performance.now()`, and how long it took. */
  #beganMs = Number.NEGATIVE_INFINITY
  #tookMs = 0
  #endGathering: (() => void) | undefined
  /** The rows that are being appended to the spool. */
  #appending: Promise<void> | undefined
  #spooling: Promise<void> | undefined
  #spoolRetryMs = Number.NEGATIVE_INFINITY
  /** The number of the last event that was taken, and of the last one that is written or lost. */
  #accepted = 0
  #settled = 0
  /** The unsettled events that are in the spool. */
  #spooled = 0
  #written = 0
  #dropped = 0
  #lastFailure: unknown
  #isFailing = false
  /** Whether the running statement keeps events waiting for too long. */
  #isLate = false
  #isLosing = false
  #isClosed = false
  #flushes: { readonly upTo: number; readonly resolve: () => void }[] = []
  readonly #loggedMs = new Map<string, number>()
  readonly #replay: SpoolReplay

  constructor(options: EventLogOptions) {
    this.#options = options
    this.#spool = options.spools?.own
    // The other half is for what comes while rows are appended to the spool.
    this.#threshold = this.#spool === undefined ? options.bufferSize : Math.ceil(options.bufferSize / 2)
    // The rest of the buffer is for what comes while these are written.
    this.#mostGathered = Math.min(MAX_TAKEN, Math.ceil(options.bufferSize / 4))
    this.#writer = this.#createWriter((count) => this.#settle(count))
    this.#replay = new SpoolReplay({
      spools: options.spools?.abandoned ?? [],
      createWriter: (settle) => this.#createWriter(settle),
      lose: (count, error) => this.#lose(count, error),
      report: (message, error) => this.#report(message, error),
    })
  }

  /** Resolves when all events of processes that are gone are in the table, or after `close`. */
  replayed(): Promise<void> {
    return this.#replay.end
  }

  /** Records an event. Never waits and never throws. */
  record(event: RateLimitEvent): void {
    if (this.#inMemory >= this.#threshold && !this.#hasRoom()) return
    this.#buffer.push(JSON.stringify(eventValues(event)))
    this.#accepted++
    if (this.#buffer.length >= this.#mostGathered) this.#endGathering?.()
    this.#turn ??= this.#drain()
  }

  /**
   * Resolves when every event recorded so far is in the table, or is counted as lost; and when a write fails, after
   * which these events are tried again.
   */
  flush(): Promise<void> {
    const upTo = this.#accepted
    if (this.#settled >= upTo || this.#isClosed) return Promise.resolve()
    this.#endGathering?.()
    this.#writer.retryNow()
    return new Promise((resolve) => this.#flushes.push({ upTo, resolve }))
  }

  stats(): EventLogStats {
    return {
      written: this.#written,
      dropped: this.#dropped,
      buffered: this.#inMemory,
      spooled: this.#spooled + this.#replay.left,
      lastError: this.#lastFailure === undefined ? null : errorMessage(this.#lastFailure),
    }
  }

  /** Returns the age of the oldest events that are not all in the table, in milliseconds; 0 where there are none. */
  lagMs(): number {
    const oldestMs = this.#unsettledHead?.firstMs ?? timeOf(this.#buffer.first)
    return oldestMs === undefined ? 0 : Math.max(0, this.#options.now() - oldestMs)
  }

  /** Whether the last write failed, or the last events were lost. */
  get isFailing(): boolean {
    return this.#isFailing || this.#isLosing
  }

  /** The number of events that are neither in the table nor in the spool, nor lost. */
  get #inMemory(): number {
    return this.#accepted - this.#settled - this.#spooled
  }

  /** The head, unless all its events are settled. */
  get #unsettledHead(): Head | undefined {
    const head = this.#head
    return head === undefined || this.#settled >= head.first + head.rows.length - 1 ? undefined : head
  }

  /** Writes what is left, for some seconds at most; then the rest goes to the spool, or is lost. */
  async close(): Promise<void> {
    let isOver = false
    let endWait: () => void = () => undefined
    const timeout = new Promise<void>((resolve) => {
      endWait = resolve
    })
    // Repeats, so that the process does not end before this does: the timers of retries let it.
    const timer = setInterval(() => {
      isOver = true
      endWait()
    }, CLOSE_MS)
    try {
      while (this.#turn !== undefined && !isOver) {
        await Promise.race([timeout, this.#turn, this.flush().then(() => pauseMs(CLOSE_RETRY_MS))])
      }
      this.#isClosed = true
      this.#threshold = Number.NEGATIVE_INFINITY
      this.#writer.stop()
      this.#replay.stop()
      // Not longer: a statement that hangs is given up by the database.
      await Promise.race([this.#replay.end, pauseMs(REPLAY_CLOSE_MS)])
      await this.#keepRest()
      await this.#spool?.close()
    } finally {
      clearInterval(timer)
      this.#endFlushes(() => true)
    }
  }

  /** Spools what is only in memory, or counts it as lost. */
  async #keepRest(): Promise<void> {
    await this.#spooling
    if (this.#spool !== undefined) {
      await this.#spoolHead()
      while (this.#buffer.length > 0 && (await this.#spoolBuffer()));
    }
    const lost = this.#inMemory
    if (lost === 0) return
    this.#lose(lost, this.#lastFailure ?? new Error('the database did not answer before the app was closed'))
    this.#settled += lost
    this.#buffer.drop(this.#buffer.length)
  }

  /** Drops and counts an event where nothing has room for it. */
  #hasRoom(): boolean {
    const { bufferSize } = this.#options
    if (!this.#isClosed) this.#startSpooling()
    if (!this.#isClosed && this.#inMemory < bufferSize) return true
    const full = this.#spool === undefined ? '' : ', and the spool does not empty it'
    this.#lose(1, new Error(this.#isClosed ? 'the app is closed' : `the buffer of ${bufferSize} events is full${full}`))
    return false
  }

  async #drain(): Promise<void> {
    await this.#gather()
    this.#beganMs = performance.now()
    let late: NodeJS.Timeout | undefined
    try {
      late = setTimeout(() => this.#spoolLate(), Math.max(0, LATE_MS - this.lagMs())).unref()
      if (this.#spool === undefined) await this.#writeBuffer()
      else await this.#writeOldest(this.#spool)
    } catch (error) {
      this.#fail(error)
      await pauseMs(SPOOL_RETRY_MS)
    }
    clearTimeout(late)
    this.#isLate = false
    this.#tookMs = performance.now() - this.#beganMs
    const isDone = this.#isClosed || (this.#buffer.length === 0 && this.#spool?.isEmpty !== false)
    this.#turn = isDone && this.#appending === undefined ? undefined : this.#drain()
  }

  /** Waits for more events, where the last ones have just been written. */
  async #gather(): Promise<void> {
    await yieldToEventLoop()
    const gatherMs = Math.min(this.#options.maxGatherMs ?? 0, this.#tookMs * GATHER_FACTOR)
    const restMs = this.#beganMs + gatherMs - performance.now()
    if (restMs <= 0 || this.#buffer.length >= this.#mostGathered || this.#flushes.length > 0) return
    // What the spool has is written next.
    if (this.#spool?.isEmpty === false) return
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

  async #writeBuffer(): Promise<void> {
    const first = this.#accepted - this.#buffer.length + 1
    const taken = this.#buffer.peek(MAX_TAKEN)
    this.#buffer.drop(taken.length)
    // The order within one statement makes no difference: a quiet log has the order of the requests.
    const rows = taken.length > this.#options.batchSize ? sortByKey(taken) : taken
    this.#head = { writer: this.#options.writer, first, rows, isSpooled: false, firstMs: timeOf(taken[0]) ?? 0 }
    await this.#writer.write(this.#head)
    if (!this.#isClosed) this.#head = undefined
  }

  /** Writes a file of the spool, whose rows are older than those of the buffer, or a batch of the buffer. */
  async #writeOldest(spool: Spool): Promise<void> {
    while (this.#appending !== undefined) await this.#appending
    if (spool.isEmpty) {
      await this.#writeBuffer()
      return
    }
    const file = await spool.read(this.#settled)
    if (file === undefined || this.#isClosed) return
    for (const run of file.runs) {
      this.#head = { ...run, isSpooled: true, firstMs: timeOf(run.rows[0]) ?? 0 }
      await this.#writer.write(this.#head)
      if (this.#isClosed) return
    }
    this.#head = undefined
    if (file.unreadable > 0) {
      this.#lose(file.unreadable, file.problem)
      this.#spooled -= file.unreadable
      this.#settle(file.unreadable)
    }
    await file.remove().catch((error: unknown) => this.#report('Rate limit events cannot be spooled', error))
  }

  /** @param settle called with the number of events that are written or refused */
  #createWriter(settle: (count: number) => void): BatchWriter {
    return new BatchWriter({
      table: this.#options.table,
      batchSize: this.#options.batchSize,
      failed: (error) => this.#fail(error),
      refused: (error) => {
        this.#lose(1, error)
        settle(1)
      },
      written: (count) => {
        this.#written += count
        this.#isFailing = false
        this.#isLosing = false
        settle(count)
      },
    })
  }

  #settle(count: number): void {
    this.#settled += count
    if (this.#head?.isSpooled) this.#spooled -= count
    if (this.#flushes.length === 0) return
    // Rows are sorted: before all of them are settled, none of their numbers tells which events are.
    const head = this.#unsettledHead
    const settled = head === undefined ? this.#settled : head.first - 1
    this.#endFlushes(({ upTo }) => upTo <= settled)
  }

  #fail(error: unknown): void {
    this.#isFailing = true
    this.#lastFailure = error
    this.#report('Rate limit events cannot be written, and are kept for now', error)
    this.#startSpooling()
    this.#endFlushes(() => true)
  }

  #spoolLate(): void {
    this.#isLate = true
    this.#startSpooling()
  }

  #endFlushes(isOver: (flush: { readonly upTo: number }) => boolean): void {
    const flushes = this.#flushes
    this.#flushes = flushes.filter((flush) => !isOver(flush))
    for (const flush of flushes) if (isOver(flush)) flush.resolve()
  }

  #startSpooling(): void {
    if (this.#spool === undefined || this.#isClosed || performance.now() < this.#spoolRetryMs) return
    this.#spooling ??= this.#spoolGroups().finally(() => {
      this.#spooling = undefined
    })
  }

  /** Appends group after group to the spool, while events cannot be written, or more come than can be written. */
  async #spoolGroups(): Promise<void> {
    while (!this.#isClosed && (this.#isFailing || this.#isLate || this.#inMemory >= this.#threshold)) {
      const isSpooled = (await this.#spoolHead()) && (this.#buffer.length === 0 || (await this.#spoolBuffer()))
      if (!isSpooled) return
      await pauseMs(GROUP_MS)
    }
  }

  /** Spools what was taken from the buffer to be written, which then is older than all that the spool has. */
  async #spoolHead(): Promise<boolean> {
    const head = this.#head
    if (head === undefined || head.isSpooled || !(this.#isFailing || this.#isLate || this.#isClosed)) return true
    return this.#append(head.first, head.rows, () => {
      // Some may have been written meanwhile.
      const settled = Math.max(0, this.#settled + 1 - head.first)
      this.#spooled += Math.max(0, head.rows.length - settled)
      head.isSpooled = true
    })
  }

  async #spoolBuffer(): Promise<boolean> {
    const first = this.#accepted - this.#buffer.length + 1
    const rows = this.#buffer.peek(MAX_GROUP)
    // They leave the buffer once the spool has them: while rows are being appended, none of the buffer is written.
    return this.#append(first, rows, () => {
      this.#buffer.drop(rows.length)
      this.#spooled += rows.length
    })
  }

  async #append(first: number, rows: readonly string[], appended: () => void): Promise<boolean> {
    const spool = this.#spool
    if (spool === undefined) return false
    const { maxSpoolBytes = MAX_SPOOL_BYTES } = this.#options
    const isFull = spool.bytes + this.#replay.bytes >= maxSpoolBytes
    const append = isFull
      ? Promise.reject(new Error(`the spool of ${maxSpoolBytes} bytes is full`))
      : spool.append(first, rows)
    let isAppended = true
    this.#appending = append.then(appended, (error: unknown) => {
      isAppended = false
      this.#spoolRetryMs = performance.now() + SPOOL_RETRY_MS
      this.#report('Rate limit events cannot be spooled', error)
    })
    await this.#appending
    this.#appending = undefined
    this.#turn ??= this.#isClosed ? undefined : this.#drain()
    return isAppended
  }

  #lose(count: number, error: unknown): void {
    this.#dropped += count
    this.#isLosing = true
    this.#lastFailure = error
    this.#report('Rate limit events are being lost', error)
  }

  /** Logs a message at most once a minute. */
  #report(message: string, error: unknown): void {
    const nowMs = this.#options.now()
    const loggedMs = this.#loggedMs.get(message) ?? Number.NEGATIVE_INFINITY
    if (nowMs - loggedMs < ERROR_LOG_INTERVAL_MS && nowMs >= loggedMs) return
    this.#loggedMs.set(message, nowMs)
    this.#options.log.error({ err: error, dropped: this.#dropped }, message)
  }
}

/** Returns the time of an event, in milliseconds: its row begins with it. */
function timeOf(row: string | undefined): number | undefined {
  return row === undefined ? undefined : Number.parseInt(row.slice(1), 10)
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

/** A process that has nothing else to do ends. */
function pauseMs(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms).unref()
  })
}
