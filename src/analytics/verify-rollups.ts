import { DAY_MS } from '../clock.js'
import type { Database } from '../db/database.js'
import { type Period, SPANS } from './period.js'
import { repairRollups } from './repair-rollups.js'
import { differencesOf } from './rollup-differences.js'

export interface VerifyOptions {
  /** Repairs nothing. */
  readonly dryRun?: boolean | undefined
  /** Told after every day how many were compared so far. */
  readonly onProgress?: ((days: number) => void) | undefined
  /** Stops it after the day that is under way. */
  readonly signal?: AbortSignal | undefined
}

export interface Verification {
  /** How many days have events or rollups. */
  readonly days: number
  /** How many rows of the rollups were wrong or missing. */
  readonly wrong_rows: number
  /** The days that these rows are of, as `2026-01-31`, in UTC; `+010000-01-01` stands for all that are later. */
  readonly wrong_days: readonly string[]
}

/** Whatever is dated later than the year 9999 is taken together: PostgreSQL knows infinity, and SQLite any text. */
const LAST_DAY = Date.UTC(10_000, 0) / DAY_MS

/**
 * Recounts the event log, day by day, and makes the rollups of days that differ anew. Each day is compared in a snapshot
 * of its own, which nobody waits for; while one is repaired, nobody else writes events.
 */
export async function verifyRollups(
  database: Database,
  { dryRun = false, onProgress, signal }: VerifyOptions = {},
): Promise<Verification> {
  const wrongDays: string[] = []
  let [days, wrongRows] = [0, 0]
  for (let day = await nextDay(database, 0); day !== undefined; day = await nextDay(database, day + 1)) {
    const period = periodOf(day)
    const differences = await database.report((query) => differencesOf({ query, dialect: database.dialect }, period))
    days++
    if (differences > 0) {
      wrongRows += differences
      wrongDays.push(new Date(day * DAY_MS).toISOString().replace(/T.*/, ''))
      if (!dryRun) await repairRollups(database, period)
    }
    onProgress?.(days)
    if (signal?.aborted) break
  }
  return { days, wrong_rows: wrongRows, wrong_days: wrongDays }
}

function periodOf(day: number): Period {
  return { startMs: day * DAY_MS, endMs: day >= LAST_DAY ? Number.POSITIVE_INFINITY : (day + 1) * DAY_MS }
}

/** The first day, from `day` on, that has events or rollups; days since the epoch. */
async function nextDay({ dialect, query }: Database, day: number): Promise<number | undefined> {
  if (day > LAST_DAY) return undefined
  const firsts = [
    `SELECT hour / 24 AS day FROM (
       SELECT ${dialect.hourOf('"timestamp"')} AS hour FROM ${dialect.table('rate_limit_event')}
       WHERE "timestamp" >= ${dialect.fromMs('$1')} ORDER BY "timestamp" LIMIT 1
     ) AS first_event`,
    ...['rate_limit_traffic_rollup', 'rate_limit_blocked_rollup'].flatMap((table) =>
      SPANS.map(
        (span) =>
          `SELECT MIN(bucket) * ${span} / 24 AS day FROM ${dialect.table(table)}
           WHERE span = ${span} AND bucket >= ${dialect.whole('$2')} / ${span}`,
      ),
    ),
    `SELECT MIN(hour) / 24 AS day FROM ${dialect.table('rate_limit_rollup_delta')} WHERE hour >= ${dialect.whole('$2')}`,
  ]
  const [found] = await query<{ day: number | null }>(
    `SELECT MIN(day) AS day FROM (${firsts.join(' UNION ALL ')}) AS firsts`,
    [day * DAY_MS, day * 24],
  )
  const next = found?.day
  return next === undefined || next === null ? undefined : Math.min(next, LAST_DAY)
}
