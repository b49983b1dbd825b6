/** Since when the log is in a database of its own: that of rules may have earlier requests, which no report reads. */
import type { Database } from '../database/database.js'
import { MINUTE_MS } from '../ground/time/clock.js'

interface LastEvent {
  readonly readAtMs: number
  readonly atMs: number | undefined
}

const lastEvents = new WeakMap<Database, LastEvent>()

/** Returns the moment that was read last, in milliseconds since the epoch; undefined where the other database has no events. */
export function logSince(database: Database): number | undefined {
  return lastEvents.get(database)?.atMs
}

/** Reads the moment, once a minute at most. While the database of rules is away, the last answer stands. */
export async function readLogSince(database: Database, nowMs: number): Promise<void> {
  const known = lastEvents.get(database)
  if (database.log === database || (known && Math.abs(nowMs - known.readAtMs) < MINUTE_MS)) return
  lastEvents.set(database, { readAtMs: nowMs, atMs: known?.atMs })
  const { dialect, query } = database
  await query<{ atMs: number | null }>(
    `SELECT MAX("timestamp") AS "atMs" FROM ${dialect.table('rate_limit_event')}
     WHERE "timestamp" <= ${dialect.fromMs('$1')}`,
    [nowMs],
  ).then(
    ([last]) => lastEvents.set(database, { readAtMs: nowMs, atMs: last?.atMs ?? undefined }),
    () => undefined,
  )
}
