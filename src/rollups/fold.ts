/** Moves the watermark on and counts marked hours again. Each step is one transaction. */

import type { Database } from '../db/database.js'
import { LAST_MINUTE, type Step } from '../db/dialect.js'
import { HOUR_MS, MINUTE_MS } from '../time/clock.js'
import {
  countSql,
  DAY_SPAN,
  eventSource,
  HOUR_SPAN,
  hourSource,
  KEPT_MINUTES,
  ROLLUPS,
  SPANS,
  type Span,
  trendSql,
} from './counting.js'

const DAY_HOURS = DAY_SPAN / HOUR_SPAN
const LAST_HOUR = LAST_MINUTE / HOUR_SPAN

/**
 * Folds the next events into the rollups, as many as one step takes.
 *
 * @param least with fewer events it does nothing, and reports read them from the log; a whole step by default
 * @returns whether a whole step was folded, so that there may be more
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
  if (dialect.settleIds.length > 0) await database.transaction(toSteps(dialect.settleIds))
  const [settled] = await next(dialect.lastSettledId)
  if (settled === undefined || settled.last === null) return false

  const parameters = [settled.last, firstMinute(nowMs)]
  const isNew = `id > ${watermark} AND id <= $1`
  // An hour that is being counted again reads its remaining events from the log.
  const source = eventSource(
    dialect,
    `${isNew} AND NOT EXISTS (
       SELECT 1 FROM ${dialect.table('rate_limit_rollup_mark')}
       WHERE hour = ${dialect.minuteOf('"timestamp"')} / ${HOUR_SPAN} AND "timestamp" >= ${dialect.fromMs('since')}
     )`,
  )
  await database.transaction([
    ...toSteps(dialect.lockRollups),
    ...ROLLUPS.map((rollup) => ({ sql: countSql(dialect, rollup, source, SPANS, '$2'), parameters })),
    { sql: trendSql(dialect, eventSource(dialect, isNew)), parameters: [settled.last] },
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

/** Returns the hours whose sums are wrong, in order. */
export async function markedHours({ dialect, query }: Database): Promise<number[]> {
  const rows = await query<{ hour: number }>(
    `SELECT DISTINCT hour FROM ${dialect.table('rate_limit_rollup_mark')} ORDER BY hour`,
  )
  return rows.map(({ hour }) => hour)
}

/**
 * Counts an hour again from its events, in steps of as many as are folded at once; then its day from the hours, unless
 * another hour of the day is still marked.
 *
 * @param step runs each of the steps
 */
export async function recountHour(
  database: Database,
  hour: number,
  nowMs: number,
  step: (run: () => Promise<number>) => Promise<number> = (run) => run(),
): Promise<void> {
  const endMs = hour === LAST_HOUR ? Number.POSITIVE_INFINITY : (hour + 1) * HOUR_MS
  for (let countedMs = Number.NEGATIVE_INFINITY; ; ) {
    const nextMs = await step(() => recountStep(database, hour, endMs, nowMs))
    // An event that changes meanwhile makes the hour begin anew: that is left to a later call, so that this one ends.
    if (nextMs >= endMs || nextMs <= countedMs) return
    countedMs = nextMs
  }
}

/** Counts the next events of an hour, and returns the moment up to which they are counted. */
async function recountStep(database: Database, hour: number, endMs: number, nowMs: number): Promise<number> {
  const { dialect, query } = database
  const marks = dialect.table('rate_limit_rollup_mark')
  const [mark] = await query<{ since: number | null }>(`SELECT MIN(since) AS since FROM ${marks} WHERE hour = $1`, [
    hour,
  ])
  const since = mark?.since
  if (since === undefined || since === null) return endMs
  const [next] = await query<{ at: number }>(
    `SELECT "timestamp" AS at FROM ${dialect.table('rate_limit_event')} WHERE "timestamp" >= ${dialect.fromMs('$1')}
     ORDER BY "timestamp" LIMIT 1 OFFSET ${dialect.eventsPerFold}`,
    [since],
  )
  const isTime = hour !== LAST_HOUR && typeof next?.at === 'number'
  const nextMs = isTime ? Math.min(endMs, Math.max(since + 1, Math.floor(next.at))) : endMs
  const isDone = nextMs >= endMs
  const parameters = Number.isFinite(nextMs) ? [since, nextMs] : [since]
  const before = Number.isFinite(nextMs) ? ` AND "timestamp" < ${dialect.fromMs('$2')}` : ''
  const source = eventSource(
    dialect,
    `"timestamp" >= ${dialect.fromMs('$1')}${before} AND id <= ${watermarkSql(database)}`,
  )
  const day = Math.floor(hour / DAY_HOURS)
  const ofDay = [day * DAY_HOURS, (day + 1) * DAY_HOURS]
  const hoursOfDay = `bucket >= $1 AND bucket < $2
    AND NOT EXISTS (SELECT 1 FROM ${marks} WHERE hour >= $1 AND hour < $2)`
  const forget = (span: Span, from: number, to: number) =>
    ROLLUPS.map(({ table }) => ({
      sql: `DELETE FROM ${dialect.table(table)} WHERE span = ${span} AND bucket >= $1 AND bucket < $2`,
      parameters: [from, to],
    }))
  const isStart = since === hour * HOUR_MS
  const isCounted = await database.transaction([
    ...toSteps(dialect.lockRollups),
    // Deleted before the events are read: a mark that is added meanwhile stays, and the hour begins anew. Where another
    // process has counted this step, the mark is gone. From the start on, what was counted before is forgotten.
    {
      sql: `DELETE FROM ${marks} WHERE hour = $1 AND since ${isStart ? '>=' : '='} $2`,
      parameters: [hour, since],
      mustChange: true,
    },
    { sql: `UPDATE ${dialect.table('rate_limit_watermark')} SET recounts = recounts + 1`, parameters: [] },
    ...(isStart ? [...forget(HOUR_SPAN, hour, hour + 1), ...forget(1, hour * HOUR_SPAN, (hour + 1) * HOUR_SPAN)] : []),
    ...ROLLUPS.map((rollup) => ({
      sql: countSql(dialect, rollup, source, [1, HOUR_SPAN], `$${parameters.length + 1}`),
      parameters: [...parameters, firstMinute(nowMs)],
    })),
    ...(isDone
      ? [
          ...forget(DAY_SPAN, day, day + 1),
          ...ROLLUPS.map((rollup) => ({
            sql: countSql(dialect, rollup, hourSource(dialect, rollup, hoursOfDay), [DAY_SPAN], '0'),
            parameters: ofDay,
          })),
        ]
      : [{ sql: `INSERT INTO ${marks} (hour, since) VALUES ($1, $2)`, parameters: [hour, nextMs] }]),
  ])
  return isCounted ? nextMs : endMs
}

/** Returns the id up to which events are in the rollups, as an expression. */
export function watermarkSql({ dialect }: Database): string {
  return `(SELECT event_id FROM ${dialect.table('rate_limit_watermark')})`
}

function firstMinute(nowMs: number): number {
  return Math.floor(nowMs / MINUTE_MS) - KEPT_MINUTES
}

function toSteps(statements: readonly string[]): Step[] {
  return statements.map((sql) => ({ sql, parameters: [] }))
}
