import { deleteInBatches } from '../db/batches.js'
import type { Database } from '../db/database.js'
import { type Clock, DAY_MS } from '../time/clock.js'

export interface StateCleanupOptions {
  /** Days of grace after a row's own expiry: a number >= 0. */
  readonly staleDays?: number
  /** The number of rows per statement: an integer >= 1. */
  readonly batchSize?: number
  /** Whether to count first, which reads every expired row; otherwise the deleted rows count as found. */
  readonly count?: boolean
  /** Whether to count without deleting. */
  readonly dryRun?: boolean
  /** Called after every batch with the number of rows deleted so far. */
  readonly onProgress?: (deleted: number) => void
  /** Stops after the current batch. */
  readonly signal?: AbortSignal | undefined
}

/** The numbers of expired and deleted rows of one table. */
export interface Cleaned {
  readonly found: number
  readonly deleted: number
}

/** The tables of the algorithms, with the columns of a row's expiry. */
const STATE_TABLES = {
  counters: { table: 'rate_limit_counter', expiry: 'window_end' },
  entries: { table: 'rate_limit_sliding_window', expiry: 'expires_at' },
  token_buckets: { table: 'rate_limit_token_bucket', expiry: 'expires_at' },
  leaky_buckets: { table: 'rate_limit_leaky_bucket', expiry: 'expires_at' },
  places: { table: 'rate_limit_concurrency', expiry: 'expires_at' },
} as const

export type StateKind = keyof typeof STATE_TABLES
export type StateCleanup = Readonly<Record<StateKind, Cleaned>>

/** The names of the tables that have counters. */
export const STATE_TABLE_NAMES = Object.values(STATE_TABLES).map(({ table }) => table)

export const STATE_KINDS: readonly StateKind[] = ['counters', 'entries', 'token_buckets', 'leaky_buckets', 'places']

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
    places: await clean('places'),
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
