import type { Database } from '../db/database.js'
import type { Dialect, Query } from '../db/dialect.js'
import { InvalidSettingError } from '../errors.js'
import { IS_REFUSED } from '../events/readings.js'
import { foldForReport } from '../rollups/catch-up.js'
import { HOUR_SPAN } from '../rollups/counting.js'
import { readSums, type Sums } from '../rollups/sums.js'
import { type Clock, DAY_MS } from '../time/clock.js'
import { ClosedDays } from './closed-days.js'
import { inRange, type Parameters } from './filter.js'
import type { Period, SplitPeriod } from './period.js'

/** The event log as of one moment, which a report reads. */
export interface LogSnapshot {
  readonly query: Query
  readonly dialect: Dialect
  readonly nowMs: number
  /** The state of the rollups. */
  readonly sums: Sums
  /** What this process knows of all days but the present one. */
  readonly closed: ClosedDays
  /** Whether the log holds only refusals and would-be refusals: `logEvents: 'blocked'`. */
  readonly onlyBlocked: boolean
}

/** The part of a report that says whether it covers refusals only. */
export interface Coverage {
  /** Present where this process logs only refusals and would-be refusals: the counts have no other requests. */
  readonly only_blocked?: true
}

export function toCoverage({ onlyBlocked }: LogSnapshot): Coverage {
  return onlyBlocked ? { only_blocked: true } : {}
}

/** A report whose options are valid. Several can read the same snapshot. */
export type Report<Result> = (snapshot: LogSnapshot) => Promise<Result>

export interface WindowOptions {
  /** The length of the window: a number of days above 0, fractions allowed. */
  readonly days?: number | undefined
}

export interface RankingOptions extends WindowOptions {
  /** The most rows to return: a whole number, 1 or more. */
  readonly limit?: number | undefined
}

const closedDays = new WeakMap<Database, ClosedDays>()

/** Returns what this process knows of all days but the present one. */
export function closedDaysFor(database: Database): ClosedDays {
  const closed = closedDays.get(database) ?? new ClosedDays()
  closedDays.set(database, closed)
  return closed
}

/** Returns a function that runs reports on a database; they include what this process has served so far. */
export function createReportRunner(database: Database, clock: Clock, onlyBlocked = false) {
  const { dialect } = database
  const closed = closedDaysFor(database)
  return async <Result>(report: Report<Result>): Promise<Result> => {
    await foldForReport(database, clock.now())
    return database.report(async (query) => {
      const nowMs = clock.now()
      return report({ query, dialect, nowMs, onlyBlocked, closed, sums: await readSums(query, dialect, nowMs) })
    })
  }
}

/** Returns the condition that an event is in a period. */
export function duringPeriod(dialect: Dialect, { startMs, endMs }: Period, parameters: Parameters): string {
  const begun = `"timestamp" >= ${dialect.fromMs(parameters.add(startMs))}`
  if (endMs === Number.POSITIVE_INFINITY) return begun
  return `${begun} AND "timestamp" < ${dialect.fromMs(parameters.add(endMs))}`
}

/** The condition of some events, and whether to add or subtract them. */
export interface LoggedPart {
  readonly where: string
  readonly sign: 1 | -1
}

/**
 * Returns the events of a period that its buckets lack, or have in excess: at its ends, in dirty hours, and above the
 * watermark.
 *
 * @param onlyRefused leaves out all other events
 */
export function loggedRanges(
  { dialect, sums }: LogSnapshot,
  { edges, dirty, hours }: SplitPeriod,
  parameters: Parameters,
  onlyRefused = false,
): LoggedPart[] {
  // Names the values, so that the index on (allowed, timestamp, outcome) is used, and covers the query where it can.
  const indexed = onlyRefused ? IS_REFUSED : 'allowed IN (true, false)'
  // Not "allowed = false", for which SQLite would use that index instead of the id.
  const isNew = onlyRefused ? "NOT allowed AND outcome <> 'denied' AND " : ''
  // An end that planners do not know makes them expect few rows.
  const lastId = `SELECT MAX(id) FROM ${dialect.table('rate_limit_event')}`
  const hour = `${dialect.toMinute('"timestamp"')} / ${HOUR_SPAN}`
  return [
    ...edges.map(({ sign, ...edge }) => ({ sign, where: `${indexed} AND ${duringPeriod(dialect, edge, parameters)}` })),
    ...dirty.map(
      (period): LoggedPart => ({
        sign: 1,
        where: `${indexed} AND ${duringPeriod(dialect, period, parameters)} AND id <= ${parameters.add(sums.watermark)}`,
      }),
    ),
    ...(hours.from < hours.to
      ? [
          {
            sign: 1 as const,
            where: `${isNew}id > ${parameters.add(sums.watermark)} AND id <= (${lastId}) AND ${inRange(hour, hours, parameters)}`,
          },
        ]
      : []),
  ]
}

/** Returns the last `days` days, and all later dates. */
export function windowFor(days: number, nowMs: number): Period {
  return { startMs: daysBefore(days, nowMs), endMs: Number.POSITIVE_INFINITY }
}

/** Returns the period of the same length that ends where the window begins. */
export function windowBefore(days: number, nowMs: number): Period {
  return { startMs: daysBefore(2 * days, nowMs), endMs: daysBefore(days, nowMs) }
}

/** Returns no moment before 1970: there is no such event, and PostgreSQL has no year -300000. */
function daysBefore(days: number, nowMs: number): number {
  return Math.max(0, Math.ceil(nowMs - days * DAY_MS))
}

/** @throws InvalidSettingError unless `days` is a finite number above 0 */
export function validateDays(days: number): void {
  if (Number.isFinite(days) && days > 0) return
  throw new InvalidSettingError(`Option "days" is ${String(days)}: give a number of days above 0, such as 7 or 0.5`)
}

/** @throws InvalidSettingError unless `value` is an integer >= 1 */
export function validateAtLeastOne(option: string, value: number): void {
  if (Number.isSafeInteger(value) && value >= 1) return
  throw new InvalidSettingError(`Option "${option}" is ${String(value)}: give a whole number, 1 or more`)
}
