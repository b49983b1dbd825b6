import { setImmediate as yieldToEventLoop } from 'node:timers/promises'
import type { Database } from '../../database/database.js'
import { HOUR_MS } from '../../ground/time/clock.js'
import { HOUR_SPAN, ROLLUPS } from './counting.js'
import { foldStep, markedHours, recountHour } from './fold.js'
import { trimNextHour } from './trim-clients.js'

/** The time that a report with many events to read waits for the rollups; then it reads the events that are left. */
const MAX_WAIT_MS = 1_000

/**
 * Folds whole steps before a report. Where that fails, as for a read-only user, the report reads the events.
 *
 * @param least the number of new ids below which nothing is folded; a whole step unless given
 */
export async function foldForReport(database: Database, nowMs: number, least?: number): Promise<void> {
  const untilMs = performance.now() + MAX_WAIT_MS
  try {
    while ((await foldStep(database, nowMs, least)) && performance.now() < untilMs) await yieldToEventLoop()
  } catch {
    // The report itself fails where the database does.
  }
}

export interface FoldOptions {
  /** Takes the number of hours counted so far, after every hour. */
  readonly onProgress?: ((hours: number) => void) | undefined
  /** Stops after the current step. */
  readonly signal?: AbortSignal | undefined
}

/**
 * Folds all events, counts all marked hours again, and trims those that are over.
 *
 * @returns how many hours were counted
 */
export async function foldAll(
  database: Database,
  nowMs: number,
  { onProgress, signal }: FoldOptions = {},
): Promise<number> {
  let counted = 0
  const trim = async () => {
    while (!signal?.aborted && (await trimNextHour(database, nowMs)));
  }
  while (!signal?.aborted && (await foldStep(database, nowMs, 1))) await trim()
  for (const hour of await markedHours(database)) {
    if (signal?.aborted) break
    await recountHour(database, hour, nowMs)
    onProgress?.(++counted)
  }
  await trim()
  return counted
}

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
     WHERE NOT EXISTS (SELECT 1 FROM ${marks} AS marked WHERE marked.hour = ${hour} AND marked.since = ${since})`,
    [JSON.stringify(found.map((row) => [row.hour, row.hour * HOUR_MS]))],
  )
  return foldAll(database, nowMs, options)
}
