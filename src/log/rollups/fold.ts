/** Moves the watermark on and counts marked hours again. Each step is one transaction. */

import type { Database } from '../../database/database.js'
import { type Dialect, LAST_MINUTE, type SqlStatement, type SqlValue } from '../../database/dialect.js'
import { HOUR_MS, MINUTE_MS } from '../../ground/time/clock.js'
import {
  clientKeysSql,
  countEventsSql,
  countSql,
  DAY_SPAN,
  eventSums,
  HOUR_SPAN,
  hourSource,
  KEPT_MINUTES,
  ROLLUPS,
  type Rollup,
  type Span,
  trendSql,
} from './counting.js'

const DAY_HOURS = DAY_SPAN / HOUR_SPAN
const FOLDED_INTO_DAYS = ROLLUPS.filter(({ spans }) => spans.includes(DAY_SPAN))
const LAST_HOUR = LAST_MINUTE / HOUR_SPAN

/**
 * Folds the next events into the rollups, as many as one step takes.
 *
 * @param least with fewer new ids it does nothing, and reports read their events from the log; a whole step by default
 * @returns whether there may be more: not where a transaction of a host, which may have inserted events, is under way
 */
export async function foldStep(database: Database, nowMs: number, least = database.dialect.eventsPerFold) {
  const { dialect, query } = database
  const events = dialect.table('rate_limit_event')
  const first = `(SELECT MIN(id) FROM ${events} WHERE id > ${watermarkSql(database)})`
  const newest = `(SELECT MAX(id) FROM ${events})`
  // The number of events is taken from their ids, which have few gaps: counting them takes longer.
  const [waiting] = await query<{ ids: number | null }>(`SELECT ${newest} - ${first} + 1 AS ids`)
  if ((waiting?.ids ?? 0) < least) return false
  if (!(await areIdsSettled(database))) return false
  // The watermark is read now, since events with lower ids may have become visible. It is the id of an event.
  const [step] = await query<{ last: number | null; newest: number }>(
    `SELECT MAX(id) AS last, ${newest} AS newest FROM ${events}
     WHERE id > ${watermarkSql(database)} AND id < ${first} + ${dialect.eventsPerFold} AND id <= ${dialect.lastSettledId}`,
  )
  const last = step?.last ?? null
  if (step === undefined || last === null) return false

  const parameters = [last, firstMinute(nowMs)]
  const sums = eventSums(dialect, `id > ${watermarkSql(database)} AND id <= $1`)
  // An hour that is being counted again reads its remaining events from the log.
  const unmarked = `SELECT * FROM ${sums.name} WHERE is_marked = 0`
  const statements: readonly SqlStatement[] = [
    ...toStatements(dialect.lockRollups),
    ...dialect.readOnce(
      sums,
      [
        ...countEventsSql(dialect, unmarked, ({ spans }) => spans, '$2'),
        clientKeysSql(dialect, `SELECT * FROM ${sums.name}`),
        trendSql(dialect, `SELECT * FROM ${sums.name}`),
        `UPDATE ${dialect.table('rate_limit_watermark')} SET event_id = $1, ${reopenSql('folded.hour', '$2')}
         FROM (SELECT MIN(minute) / ${HOUR_SPAN} AS hour FROM ${sums.name}) AS folded WHERE event_id < $1`,
      ],
      parameters,
    ),
    ...ROLLUPS.map(({ table }) => ({
      sql: `DELETE FROM ${dialect.table(table)} WHERE span = 1 AND bucket < $1`,
      parameters: [firstMinute(nowMs)],
    })),
  ]
  await database.transaction(statements.map((statement) => ({ ...statement, plannedOnce: true })))
  return last < step.newest
}

async function areIdsSettled(database: Database): Promise<boolean> {
  const { settleIds } = database.dialect
  if (settleIds.length === 0) return true
  try {
    return (await database.transaction(toStatements(settleIds))) !== null
  } catch (error) {
    // A transaction that inserted events lasts longer than the wait for it.
    if (!database.dialect.isLocked(error)) throw error
    return false
  }
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
 * another hour of the day is still to be counted.
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
  for (let countedMs = Number.NEGATIVE_INFINITY; countedMs < endMs; ) {
    const nextMs = await step(() => recountStep(database, hour, endMs, nowMs))
    // An event that changes meanwhile makes the hour begin anew: that is left to a later call, so that this one ends.
    if (nextMs <= countedMs) return
    countedMs = nextMs
  }
  const marks = database.dialect.table('rate_limit_rollup_mark')
  const isCounted: SqlStatement = {
    sql: `UPDATE ${marks} SET since = since WHERE hour = $1 AND since = $2`,
    parameters: [hour, (hour + 1) * HOUR_MS],
    mustChange: true,
  }
  for (const rollup of FOLDED_INTO_DAYS) {
    let from: string | null = ''
    const next = async () => {
      from = await countDayPart(database, rollup, Math.floor(hour / DAY_HOURS), from ?? '', isCounted)
      return endMs
    }
    while (from !== null) await step(next)
  }
  await database.execute(`DELETE FROM ${marks} WHERE hour = $1 AND since = $2`, [hour, (hour + 1) * HOUR_MS])
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
  const parameters = Number.isFinite(nextMs) ? [since, nextMs] : [since]
  const before = Number.isFinite(nextMs) ? ` AND "timestamp" < ${dialect.fromMs('$2')}` : ''
  const sums = eventSums(dialect, `"timestamp" >= ${dialect.fromMs('$1')}${before} AND id <= ${watermarkSql(database)}`)
  const firstHour = Math.floor(hour / DAY_HOURS) * DAY_HOURS
  const forget = (span: Span, from: number, to: number) =>
    ROLLUPS.map(({ table }) => ({
      sql: `DELETE FROM ${dialect.table(table)} WHERE span = ${span} AND bucket >= $1 AND bucket < $2`,
      parameters: [from, to],
    }))
  const isStart = since === hour * HOUR_MS
  const changed = await database.transaction([
    ...toStatements(dialect.lockRollups),
    // Deleted before the events are read: a mark that is added meanwhile stays, and the hour begins anew. Where another
    // process has counted this step, the mark is gone. From the start on, what was counted before is forgotten.
    {
      sql: `DELETE FROM ${marks} WHERE hour = $1 AND since ${isStart ? '>=' : '='} $2`,
      parameters: [hour, since],
      mustChange: true,
    },
    {
      sql: `UPDATE ${dialect.table('rate_limit_watermark')} SET recounts = recounts + 1, ${reopenSql(dialect.whole('$1'), dialect.whole('$2'))}`,
      parameters: [hour, firstMinute(nowMs)],
    },
    ...(isStart ? [...forget(HOUR_SPAN, hour, hour + 1), ...forget(1, hour * HOUR_SPAN, (hour + 1) * HOUR_SPAN)] : []),
    ...dialect.readOnce(
      sums,
      [
        ...countEventsSql(dialect, `SELECT * FROM ${sums.name}`, () => [1, HOUR_SPAN], `$${parameters.length + 1}`),
        clientKeysSql(dialect, `SELECT * FROM ${sums.name}`),
      ],
      [...parameters, firstMinute(nowMs)],
    ),
    ...(Number.isFinite(nextMs)
      ? [
          {
            sql: `INSERT INTO ${marks} (hour, since)
              SELECT ${dialect.whole('$1')}, ${dialect.whole('$2')} WHERE ${dialect.whole('$2')} < $3 OR NOT EXISTS (
                SELECT 1 FROM ${marks} WHERE hour >= $4 AND hour < $5 AND since < (hour + 1) * ${HOUR_MS})`,
            parameters: [hour, nextMs, endMs, firstHour, firstHour + DAY_HOURS],
          },
        ]
      : FOLDED_INTO_DAYS.flatMap((rollup) => daySteps(dialect, rollup, Math.floor(hour / DAY_HOURS)))),
  ])
  return changed === null ? endMs : nextMs
}

/**
 * Counts a part of a day from its hours.
 *
 * @param condition without its change nothing is counted
 * @returns the key at which the next part begins: null after the last, and where nothing was counted
 */
export async function countDayPart(
  database: Database,
  rollup: Rollup,
  day: number,
  from: string,
  condition: SqlStatement,
): Promise<string | null> {
  const { dialect } = database
  const to = await endOfPart(database, rollup, day, from)
  const changed = await database.transaction([
    ...toStatements(dialect.lockRollups),
    condition,
    ...daySteps(dialect, rollup, day, from, to),
  ])
  return changed === null ? null : to
}

/** Returns the key up to which a day's hours have about as many rows as a step takes; null where they have no more. */
async function endOfPart({ dialect, query }: Database, rollup: Rollup, day: number, from: string) {
  const { table, sliced } = rollup
  if (sliced === undefined) return null
  const rows = Math.ceil(dialect.eventsPerFold / DAY_HOURS)
  const buckets = Array.from({ length: DAY_HOURS }, (_, index) => [day * DAY_HOURS + index])
  const rowAfter = (span: Span, bucket: string, offset: number) =>
    `(SELECT ${sliced} FROM ${dialect.table(table)} WHERE span = ${span} AND bucket = ${bucket} AND ${sliced} > $2
      ORDER BY ${sliced} LIMIT 1 OFFSET ${offset}) AS bound`
  const [end] = await query<{ bound: string | null }>(
    `SELECT MIN(bound) AS bound FROM (
       SELECT ${rowAfter(HOUR_SPAN, dialect.jsonField(0, 'bigint'), rows)} FROM ${dialect.jsonRows()}
       UNION ALL SELECT ${rowAfter(DAY_SPAN, '$3', rows * DAY_HOURS)}) AS bounds`,
    [JSON.stringify(buckets), from, day],
  )
  return end?.bound ?? null
}

/** Returns the statements that count a day from its hours: all of it, or its rows from a key up to another. */
function daySteps(dialect: Dialect, rollup: Rollup, day: number, from = '', to: string | null = null): SqlStatement[] {
  const part: SqlValue[] = rollup.sliced === undefined ? [] : [from, to].filter((bound) => bound !== null)
  const isInPart = part.map((_, index) => ` AND ${rollup.sliced} ${index === 0 ? '>= $3' : '< $4'}`).join('')
  const condition = `bucket >= $1 AND bucket < $2${isInPart}`
  return [
    {
      sql: `DELETE FROM ${dialect.table(rollup.table)} WHERE span = ${DAY_SPAN} AND ${condition}`,
      parameters: [day, day + 1, ...part],
    },
    {
      sql: countSql(dialect, rollup, hourSource(dialect, rollup, condition), [DAY_SPAN], '0'),
      parameters: [day * DAY_HOURS, (day + 1) * DAY_HOURS, ...part],
    },
  ]
}

/** Returns the id up to which events are in the rollups, as an expression. */
export function watermarkSql({ dialect }: Pick<Database, 'dialect'>): string {
  return `(SELECT event_id FROM ${dialect.table('rate_limit_watermark')})`
}

/**
 * Returns the assignments that note where events were counted: an hour before "busiest_until" is trimmed again.
 *
 * @param hour an expression of the first hour with such events
 * @param minute an expression of the first minute that got a bucket of its own
 */
function reopenSql(hour: string, minute: string): string {
  return `minutes_from = CASE WHEN minutes_from < ${minute} THEN ${minute} ELSE minutes_from END,
    busiest_until = CASE WHEN ${hour} < busiest_until THEN ${hour} ELSE busiest_until END,
    late = late + CASE WHEN ${hour} <= busiest_until THEN 1 ELSE 0 END`
}

function firstMinute(nowMs: number): number {
  return Math.floor(nowMs / MINUTE_MS) - KEPT_MINUTES
}

export function toStatements(statements: readonly string[]): SqlStatement[] {
  return statements.map((sql) => ({ sql, parameters: [] }))
}
