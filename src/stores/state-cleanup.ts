import { setImmediate as yieldToEventLoop } from 'node:timers/promises'
import { type Clock, DAY_MS } from '../clock.js'
import type { Database } from '../db/database.js'

export interface StateCleanupOptions {
  /** Days of grace after a row's own expiry: a number >= 0. */
  readonly staleDays?: number
  /** How many rows one statement deletes: an integer >= 1. */
  readonly batchSize?: number
  /** Only counts. */
  readonly dryRun?: boolean
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

export type StateCleanup = Readonly<Record<keyof typeof STATE_TABLES, Cleaned>>

/** Deletes what the limiter keeps per key and what expired `staleDays` (7) ago, `batchSize` (1000) rows at a time. */
export async function cleanupState(
  database: Database,
  clock: Clock,
  { staleDays = 7, batchSize = 1000, dryRun = false }: StateCleanupOptions = {},
): Promise<StateCleanup> {
  const cutoffMs = clock.now() - Math.round(staleDays * DAY_MS)
  const clean = async (kind: keyof typeof STATE_TABLES): Promise<Cleaned> => {
    const table = database.dialect.table(STATE_TABLES[kind].table)
    const expired = `${STATE_TABLES[kind].expiry} < ${database.dialect.fromMs('$1')}`
    const [counted] = await database.query<{ found: number }>(
      `SELECT COUNT(*) AS found FROM ${table} WHERE ${expired}`,
      [cutoffMs],
    )
    const deleted = dryRun ? 0 : await deleteExpired(database, table, expired, cutoffMs, batchSize)
    return { found: counted?.found ?? 0, deleted }
  }
  return {
    counters: await clean('counters'),
    entries: await clean('entries'),
    token_buckets: await clean('token_buckets'),
    leaky_buckets: await clean('leaky_buckets'),
  }
}

async function deleteExpired(
  database: Database,
  table: string,
  expired: string,
  cutoffMs: number,
  batchSize: number,
): Promise<number> {
  for (let deleted = 0; ; ) {
    const batch = await database.execute(
      // Never waits for the limiter, which may be about to use the same rows again: so the two cannot deadlock.
      `DELETE FROM ${table} WHERE ${expired} AND key IN
        (SELECT key FROM ${table} WHERE ${expired} LIMIT $2 ${database.dialect.skipLocked})`,
      [cutoffMs, batchSize],
    )
    deleted += batch
    if (batch < batchSize) return deleted
    await yieldToEventLoop()
  }
}
