import type { Database } from '../db/database.js'
import { HOUR_MS } from '../time/clock.js'
import { type FoldOptions, foldAll } from './catch-up.js'
import { HOUR_SPAN, ROLLUPS } from './counting.js'

/**
 * Counts everything again: marks every hour that has events or rollups, so that reports read it from the log until it
 * is counted.
 *
 * @returns how many hours were counted
 */
export async function verifyRollups(database: Database, nowMs: number, options?: FoldOptions): Promise<number> {
  const { dialect } = database
  const hours = [
    `SELECT ${dialect.toMinute('"timestamp"')} / ${HOUR_SPAN} AS hour FROM ${dialect.table('rate_limit_event')}`,
    ...ROLLUPS.map(({ table }) => `SELECT bucket * span / ${HOUR_SPAN} FROM ${dialect.table(table)}`),
  ]
  const found = await database.snapshot((query) => query<{ hour: number }>(hours.join(' UNION ')))
  const marks = dialect.table('rate_limit_rollup_mark')
  const [hour, since] = [dialect.jsonField(0, 'bigint'), dialect.jsonField(1, 'bigint')]
  await database.execute(
    `INSERT INTO ${marks} SELECT ${hour}, ${since} FROM ${dialect.jsonRows()}
     WHERE NOT EXISTS (SELECT 1 FROM ${marks} AS known WHERE known.hour = ${hour} AND known.since = ${since})`,
    [JSON.stringify(found.map((row) => [row.hour, row.hour * HOUR_MS]))],
  )
  return foldAll(database, nowMs, options)
}
