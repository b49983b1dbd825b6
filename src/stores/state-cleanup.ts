import { deleteInBatches } from '../db/batches.js'
import type { Database } from '../db/database.js'
import { type Clock, DAY_MS } from '../time/clock.js'

export interface StateCleanupOptions {
  /** Days of grace after a row's own expiry: a number >= 0. */
  readonly staleDays?: number
  /** How many rows one statement deletes: an integer >= 1. */
  readonly batchSize?: number
  /** Counts first, which reads every expired row; else what was deleted counts as found. */
  readonly count?: boolean
  /** Only counts. */
  readonly dryRun?: boolean
  /** Told after every batch how many rows were deleted so far. */
  readonly onProgress?: (deleted: number) => void
  /** Stops it after the batch that is under way. */
  readonly signal?: AbortSignal | undefined
}

/** What was found expired in one table, and deleted. */
export interface Cleaned {
  readonly found: number
  readonly deleted: number
}

/** The tables of the algorithms, and the moment after which a row means nothing any more. */
const STATE_TABLES = {
  counters: { table: 'rate_limit_counter', expiry: 'window_end' },
  entries: { table: 'rate_limit_sliding_window', expiry: 'expires_at' },
  token_buckets: { table: 'rate_limit_token_bucket', expiry: 'expires_at' },
  leaky_buckets: { table: 'rate_limit_leaky_bucket', expiry: 'expires_at' },
} as const

export type StateKind = keyof typeof STATE_TABLES
export type StateCleanup = Readonly<Record<StateKind, Cleaned>>

export const STATE_KINDS: readonly StateKind[] = ['counters', 'entries', 'token_buckets', 'leaky_buckets']

/** Deletes what the limiter keeps per key and what expired `staleDays` (7) ago, `batchSize` (1000) rows at a time. */
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
  }
}

/** Deletes up to `batchSize` rows that expired before `cutoffMs`, those that expired first, and answers how many. */
export function deleteExpiredBatch(
  database: Database,
  kind: StateKind,
  cutoffMs: number,
  batchSize: number,
): Promise<number> {
  const { table, expired } = expiredRows(database, kind)
  return database.execute(
    // By the index on the expiry: without an order PostgreSQL may read the table from its start, past all that the
    // batches before have deleted. Never waits for the limiter, which may be about to use the same rows again: so the
    // two cannot deadlock.
    `DELETE FROM ${table} WHERE ${expired} AND key IN (SELECT key FROM ${table} WHERE ${expired}
      ORDER BY ${STATE_TABLES[kind].expiry} LIMIT $2 ${database.dialect.skipLocked})`,
    [cutoffMs, batchSize],
  )
}

async function countExpired(database: Database, kind: StateKind, cutoffMs: number): Promise<number> {
  const { table, expired } = expiredRows(database, kind)
  const sql = `SELECT COUNT(*) AS found FROM ${table} WHERE ${expired}`
  // As a report, which may take long: so may this, of millions of clients.
  const [counted] = await database.report((query) => query<{ found: number }>(sql, [cutoffMs]))
  return counted?.found ?? 0
}

function expiredRows({ dialect }: Database, kind: StateKind): { table: string; expired: string } {
  const { table, expiry } = STATE_TABLES[kind]
  return { table: dialect.table(table), expired: `${expiry} < ${dialect.fromMs('$1')}` }
}
