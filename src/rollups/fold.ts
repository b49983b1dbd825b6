/** Moves the watermark on, and counts hours again that have a mark. Each step is one transaction. */
import { HOUR_MS, MINUTE_MS } from '../clock.js'
import type { Database } from '../db/database.js'
import { LAST_MINUTE, type Step } from '../db/dialect.js'
import {
  countSql,
  DAY_SPAN,
  eventSource,
  HOUR_SPAN,
  hourSource,
  KEPT_MINUTES,
  ROLLUPS,
  SPANS,
  trendSql,
} from './counting.js'

const DAY_HOURS = DAY_SPAN / HOUR_SPAN

/**
 * Folds the next events into the rollups, as many as one step takes.
 *
 * @param least with fewer than these there is nothing to do: reports read them from the log; a whole step unless given
 * @returns whether there were as many, so that there may be more
 */
export async function foldStep(database: Database, nowMs: number, least = database.dialect.eventsPerFold) {
  const { dialect, query } = database
  const size = dialect.eventsPerFold
  const watermark = watermarkSql(database)
  const next = (bound: string) =>
    query<{ last: number | null; found: number }>(
      `SELECT MAX(id) AS last, COUNT(*) AS found FROM (
         SELECT id FROM ${dialect.table('rate_limit_event')} WHERE id > ${watermark} AND id <= ${bound}
         ORDER BY id LIMIT ${size}
       ) AS next_events`,
    )
  const [waiting] = await next('9223372036854775807')
  if (waiting === undefined || waiting.found < least) return false
  await database.transaction(toSteps(dialect.settleIds))
  const [settled] = await next(dialect.lastSettledId)
  if (settled === undefined || settled.last === null) return false

  const parameters = [settled.last, firstMinute(nowMs)]
  const source = eventSource(dialect, `id > ${watermark} AND id <= $1`)
  await database.transaction([
    ...toSteps(dialect.lockRollups),
    ...ROLLUPS.map((rollup) => ({ sql: countSql(dialect, rollup, source, SPANS, '$2'), parameters })),
    { sql: trendSql(dialect, source), parameters: [settled.last] },
    {
      sql: `UPDATE ${dialect.table('rate_limit_watermark')} SET event_id = $1 WHERE event_id < $1`,
      parameters: [settled.last],
    },
    ...ROLLUPS.map(({ table }) => ({
      sql: `DELETE FROM ${dialect.table(table)} WHERE span = 1 AND bucket < $1`,
      parameters: [firstMinute(nowMs)],
    })),
  ])
  return settled.found === size
}

/** The hours whose sums are wrong, in order. */
export async function markedHours({ dialect, query }: Database): Promise<number[]> {
  const rows = await query<{ hour: number }>(
    `SELECT DISTINCT hour FROM ${dialect.table('rate_limit_rollup_mark')} ORDER BY hour`,
  )
  return rows.map(({ hour }) => hour)
}

/** Counts an hour again from its events, and its day from the hours, unless another hour of it has a mark still. */
export async function recountHour(database: Database, hour: number, nowMs: number): Promise<void> {
  const { dialect } = database
  const marks = dialect.table('rate_limit_rollup_mark')
  const day = Math.floor(hour / DAY_HOURS)
  const isLast = hour === LAST_MINUTE / HOUR_SPAN
  const source = eventSource(
    dialect,
    `"timestamp" >= ${dialect.fromMs('$1')} AND ${isLast ? `${dialect.whole('$2')} >= 0` : `"timestamp" < ${dialect.fromMs('$2')}`}
     AND id <= ${watermarkSql(database)}`,
  )
  const ofDay = [day * DAY_HOURS, (day + 1) * DAY_HOURS]
  const hoursOfDay = `bucket >= $1 AND bucket < $2
    AND NOT EXISTS (SELECT 1 FROM ${marks} WHERE hour >= $1 AND hour < $2)`
  await database.transaction([
    ...toSteps(dialect.lockRollups),
    // Before the events are read: a mark that is added meanwhile stays.
    { sql: `DELETE FROM ${marks} WHERE hour = $1`, parameters: [hour] },
    ...ROLLUPS.flatMap((rollup) => [
      ...SPANS.map((span) => ({
        sql: `DELETE FROM ${dialect.table(rollup.table)} WHERE span = ${span} AND bucket >= $1 AND bucket < $2`,
        parameters: span === DAY_SPAN ? [day, day + 1] : [(hour * HOUR_SPAN) / span, ((hour + 1) * HOUR_SPAN) / span],
      })),
      {
        sql: countSql(dialect, rollup, source, [1, HOUR_SPAN], '$3'),
        parameters: [hour * HOUR_MS, (hour + 1) * HOUR_MS, firstMinute(nowMs)],
      },
      { sql: countSql(dialect, rollup, hourSource(dialect, rollup, hoursOfDay), [DAY_SPAN], '0'), parameters: ofDay },
    ]),
  ])
}

function watermarkSql({ dialect }: Database): string {
  return `(SELECT event_id FROM ${dialect.table('rate_limit_watermark')})`
}

function firstMinute(nowMs: number): number {
  return Math.floor(nowMs / MINUTE_MS) - KEPT_MINUTES
}

function toSteps(statements: readonly string[]): Step[] {
  return statements.map((sql) => ({ sql, parameters: [] }))
}
