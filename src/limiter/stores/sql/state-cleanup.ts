import { deleteInBatches } from '../../../database/batches.js'
import type { Database } from '../../../database/database.js'
import { type Clock, DAY_MS, HOUR_MS, MINUTE_MS } from '../../../ground/time/clock.js'

export interface StateCleanupOptions {
  /** Days of grace after a row's own expiry: a number >= 0. */
  readonly staleDays?: number
  /** The number of rows per statement: an integer >= 1. */
  readonly batchSize?: number
  /** Whether rows are counted first, which reads every expired row; otherwise the deleted rows count as found. */
  readonly count?: boolean
  /** Whether rows are counted without deleting. */
  readonly dryRun?: boolean
  /** Takes the number of rows deleted so far, after every batch. */
  readonly onProgress?: (deleted: number) => void
  /** Stops after the current batch. */
  readonly signal?: AbortSignal | undefined
}

/** The numbers of expired and deleted rows of one table. */
export interface Cleaned {
  readonly found: number
  readonly deleted: number
}

/** The tables of the algorithms, with the columns of a row's expiry. The entries are of sliding windows. */
const STATE_TABLES = {
  counters: { table: 'rate_limit_counter', expiry: 'window_end' },
  entries: { table: 'rate_limit_sliding_window', expiry: 'expires_at' },
  token_buckets: { table: 'rate_limit_token_bucket', expiry: 'expires_at' },
  leaky_buckets: { table: 'rate_limit_leaky_bucket', expiry: 'expires_at' },
  permits: { table: 'rate_limit_concurrency', expiry: 'expires_at' },
} as const

export type StateKind = keyof typeof STATE_TABLES
export type StateCleanup = Readonly<Record<StateKind, Cleaned>>

/** The names of the tables that have counters. */
export const STATE_TABLE_NAMES = Object.values(STATE_TABLES).map(({ table }) => table)

const STATE_KINDS: readonly StateKind[] = ['counters', 'entries', 'token_buckets', 'leaky_buckets', 'permits']

/** Deletes counters that expired `staleDays` (7) ago, `batchSize` (1000) rows at a time. */
export async function cleanupState(
  database: Database,
  clock: Clock,
  { staleDays = 7, batchSize = 1000, dryRun = false, count = false, onProgress, signal }: StateCleanupOptions = {},
): Promise<StateCleanup> {
  const cutoffMs = clock.now() - Math.round(staleDays * DAY_MS)
  let total = 0
  const clean = async (kind: StateKind): Promise<Cleaned> => {
    const found = count || dryRun ? await countExpired(database, kind, cutoffMs) : undefined
    const deleteBatch = () => deleteExpiredBatch(database, kind, cutoffMs, batchSize)
    if (dryRun || signal?.aborted) return { found: found ?? 0, deleted: 0 }
    const before = total
    const progress = (deleted: number) => onProgress?.(before + deleted)
    const deleted = await deleteInBatches(batchSize, deleteBatch, { onProgress: progress, signal })
    total += deleted
    return { found: found ?? deleted, deleted }
  }
  return {
    counters: await clean('counters'),
    entries: await clean('entries'),
    token_buckets: await clean('token_buckets'),
    leaky_buckets: await clean('leaky_buckets'),
    permits: await clean('permits'),
  }
}

/** Deletes up to `batchSize` rows that expired before `cutoffMs`, and returns their number. */
export type DeleteExpired = (cutoffMs: number, batchSize: number) => Promise<number>

/** Returns the deletions of all tables of counters. */
export function stateDeletions(database: Database): DeleteExpired[] {
  return STATE_KINDS.map((kind) => (cutoffMs, batchSize) => deleteExpiredBatch(database, kind, cutoffMs, batchSize))
}

/** Deletes up to `batchSize` rows that expired before `cutoffMs`, the oldest first, and returns their number. */
function deleteExpiredBatch(database: Database, kind: StateKind, cutoffMs: number, batchSize: number): Promise<number> {
  const { table, expired } = expiredRows(database, kind)
  return database.execute(
    // The order makes PostgreSQL use the index on the expiry: otherwise it may read the table from its start, past all
    // rows that earlier batches deleted. Locked rows are skipped, so that this cannot deadlock with the limiter, which
    // may be about to use them again.
    `DELETE FROM ${table} WHERE ${expired} AND key IN (SELECT key FROM ${table} WHERE ${expired}
      ORDER BY ${STATE_TABLES[kind].expiry} LIMIT $2 ${database.dialect.skipLocked})`,
    [cutoffMs, batchSize],
  )
}

async function countExpired(database: Database, kind: StateKind, cutoffMs: number): Promise<number> {
  const { table, expired } = expiredRows(database, kind)
  const sql = `SELECT COUNT(*) AS found FROM ${table} WHERE ${expired}`
  // Runs as a report, since a count of millions of clients may take long.
  const [counted] = await database.report((query) => query<{ found: number }>(sql, [cutoffMs]))
  return counted?.found ?? 0
}

function expiredRows({ dialect }: Database, kind: StateKind): { table: string; expired: string } {
  const { table, expiry } = STATE_TABLES[kind]
  return { table: dialect.table(table), expired: `${expiry} < ${dialect.fromMs('$1')}` }
}

export interface StateSweepOptions {
  /** The deletions of a round, one after the other. */
  readonly deletions: readonly DeleteExpired[]
  /** Decides what has expired. Rounds are scheduled by real time. */
  readonly clock: Clock
  readonly log: { warn(details: object, message: string): void }
  /** Returns a number from 0 to below 1. */
  readonly random?: () => number
}

/** Short beside the grace, so that a table has little more than an hour's clients; a round costs few index reads. */
const INTERVAL_MS = 10 * MINUTE_MS
/**
 * The grace is more than the clocks of servers differ: one that has expired here may still count where a clock is
 * behind.
 */
const GRACE_MS = HOUR_MS
/** The batch takes about a millisecond with a synchronous driver, during which requests wait. */
const BATCH_SIZE = 100
/** The pause is about fifty times the work: ten million leftover rows are deleted in an hour and a half, unnoticed. */
const PAUSE_MS = 50

/**
 * Deletes counters, bans and the like that have expired, in the background of a server. Every turn of the timer is one batch of
 * one table.
 *
 * Several processes need no coordination: they run at random times, skip each other's locked rows, and together may
 * delete leftovers faster. A failure ends the round; the next one tries again.
 */
export class StateSweep {
  readonly #options: StateSweepOptions
  readonly #random: () => number
  /** The remaining deletions of this round. */
  #left: DeleteExpired[] = []
  #timer: NodeJS.Timeout | undefined
  #stopped = false
  #isFailing = false

  constructor(options: StateSweepOptions) {
    this.#options = options
    this.#random = options.random ?? Math.random
  }

  /** Starts with a wait, since a server that has just started is busy. */
  start(): void {
    if (this.#options.deletions.length > 0) this.#wait(this.#untilNextRound())
  }

  close(): void {
    this.#stopped = true
    clearTimeout(this.#timer)
  }

  /** Deletes one batch and returns the wait before the next one, in milliseconds. Never rejects. */
  async step(): Promise<number> {
    const { deletions, clock } = this.#options
    if (this.#left.length === 0) this.#left = [...deletions]
    const [deleteExpired] = this.#left
    if (deleteExpired === undefined) return this.#untilNextRound()
    try {
      const deleted = await deleteExpired(clock.now() - GRACE_MS, BATCH_SIZE)
      // A batch that is not full was all that is left, except rows in use.
      if (deleted < BATCH_SIZE) this.#left.shift()
      if (this.#left.length === 0) this.#isFailing = false
    } catch (error) {
      this.#left = []
      this.#reportFailure(error)
    }
    return this.#left.length > 0 ? PAUSE_MS : this.#untilNextRound()
  }

  #wait(forMs: number): void {
    if (this.#stopped) return
    this.#timer = setTimeout(() => {
      void this.step().then((nextMs) => this.#wait(nextMs))
    }, forMs)
    this.#timer.unref()
  }

  /** Returns 0.5 to 1.5 intervals, so that processes that started together drift apart. */
  #untilNextRound(): number {
    return INTERVAL_MS * (0.5 + this.#random())
  }

  #reportFailure(error: unknown): void {
    // An error while the database is being closed is no failure.
    if (this.#isFailing || this.#stopped) return
    this.#isFailing = true
    this.#options.log.warn(
      { err: error },
      'Expired rate limit counters, bans or usage cannot be deleted: tried again in some minutes',
    )
  }
}
