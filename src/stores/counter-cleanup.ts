import { setImmediate as yieldToEventLoop } from 'node:timers/promises'
import { type Clock, DAY_MS } from '../clock.js'
import type { Database } from '../db/database.js'

export interface CounterCleanupOptions {
  /** Days of grace after a counter's own expiry: a number >= 0. */
  readonly staleDays?: number
  /** How many rows one statement deletes: an integer >= 1. */
  readonly batchSize?: number
  /** Only counts. */
  readonly dryRun?: boolean
}

/** Deletes counters whose window ended `staleDays` (7) ago, `batchSize` (1000) at a time. */
export async function cleanupCounters(
  database: Database,
  clock: Clock,
  { staleDays = 7, batchSize = 1000, dryRun = false }: CounterCleanupOptions = {},
): Promise<{ found: number; deleted: number }> {
  const { dialect } = database
  const table = dialect.table('rate_limit_counter')
  const expired = `window_end < ${dialect.fromMs('$1')}`
  const cutoffMs = clock.now() - Math.round(staleDays * DAY_MS)
  const [counted] = await database.query<{ found: number }>(`SELECT COUNT(*) AS found FROM ${table} WHERE ${expired}`, [
    cutoffMs,
  ])
  let deleted = 0
  while (!dryRun) {
    const batch = await database.execute(
      // Checked again outside: a counter that came back to life between the two is left alone.
      `DELETE FROM ${table} WHERE ${expired} AND key IN (SELECT key FROM ${table} WHERE ${expired} LIMIT $2)`,
      [cutoffMs, batchSize],
    )
    deleted += batch
    if (batch < batchSize) break
    await yieldToEventLoop()
  }
  return { found: counted?.found ?? 0, deleted }
}
