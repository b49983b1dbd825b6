import type { Database } from '../db/database.js'
import type { Dialect, Query } from '../db/dialect.js'
import { InvalidSettingError } from '../errors.js'
import { IS_REFUSED } from '../events/readings.js'
import { foldForReport } from '../rollups/catch-up.js'
import { HOUR_SPAN } from '../rollups/counting.js'
import { readSums, type Sums } from '../rollups/sums.js'
import { type Clock, DAY_MS } from '../time/clock.js'
import { inRange, type Parameters } from './filter.js'
import type { Period, PeriodParts } from './period.js'

/** The event log as it was at one moment: what a report reads. */
export interface Snapshot {
  readonly query: Query
  readonly dialect: Dialect
  readonly nowMs: number
  /** What the rollups have of it. */
  readonly sums: Sums
  /** Whether the log holds refusals alone, and would-be refusals: `logEvents: 'blocked'`. */
  readonly onlyBlocked: boolean
}

/** What a report says of itself where it knows of refusals alone. */
export interface Coverage {
  /** Present where this process logs refusals and would-be refusals alone: there are no other requests in the counts. */
  readonly only_blocked?: true
}

export function coverageOf({ onlyBlocked }: Snapshot): Coverage {
  return onlyBlocked ? { only_blocked: true } : {}
}

/** A report whose options were found valid. Several can read the same snapshot. */
export type Report<Result> = (snapshot: Snapshot) => Promise<Result>

export interface WindowOptions {
  /** How far back to look: a number of days above 0, parts of a day allowed. */
  readonly days?: number | undefined
}

export interface RankingOptions extends WindowOptions {
  /** The most rows answered: a whole number, 1 or more. */
  readonly limit?: number | undefined
}

/** Runs reports against a database; what this process has served so far is in them. */
export function reportsOf(database: Database, clock: Clock, onlyBlocked = false) {
  return async <Result>(report: Report<Result>): Promise<Result> => {
    const { dialect } = database
    await foldForReport(database, clock.now())
    return database.report(async (query) =>
      report({ query, dialect, nowMs: clock.now(), onlyBlocked, sums: await readSums(query, dialect) }),
    )
  }
}

/** The condition that an event lies in a period. */
export function duringPeriod(dialect: Dialect, { startMs, endMs }: Period, parameters: Parameters): string {
  const begun = `"timestamp" >= ${dialect.fromMs(parameters.add(startMs))}`
  if (endMs === Number.POSITIVE_INFINITY) return begun
  return `${begun} AND "timestamp" < ${dialect.fromMs(parameters.add(endMs))}`
}

/** Some events, by a condition, and whether they are to be added or taken away. */
export interface LoggedPart {
  readonly where: string
  readonly sign: 1 | -1
}

/**
 * The events of a period that its buckets do not have, or have too much: at its ends, in dirty hours, and above the
 * watermark.
 *
 * @param onlyRefused leaves out all others
 */
export function loggedParts(
  { dialect, sums }: Snapshot,
  { edges, dirty, hours }: PeriodParts,
  parameters: Parameters,
  onlyRefused = false,
): LoggedPart[] {
  // Values named, so that the index on (allowed, timestamp, outcome) is used, and answers alone where it can.
  const indexed = onlyRefused ? IS_REFUSED : 'allowed IN (true, false)'
  // Not by an equation, for which SQLite would take that index instead of the id.
  const isNew = onlyRefused ? "NOT allowed AND outcome <> 'denied' AND " : ''
  // An end that planners do not know lets them expect few.
  const lastId = `SELECT MAX(id) FROM ${dialect.table('rate_limit_event')}`
  const hour = `${dialect.minuteOf('"timestamp"')} / ${HOUR_SPAN}`
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

/** The last so many days, and whatever is dated later than now. */
export function windowOf(days: number, nowMs: number): Period {
  return { startMs: daysBefore(days, nowMs), endMs: Number.POSITIVE_INFINITY }
}

/** The period of the same length that ended where the window begins. */
export function windowBefore(days: number, nowMs: number): Period {
  return { startMs: daysBefore(2 * days, nowMs), endMs: daysBefore(days, nowMs) }
}

/** There is no event from before 1970, and PostgreSQL knows no year -300000. */
function daysBefore(days: number, nowMs: number): number {
  return Math.max(0, Math.ceil(nowMs - days * DAY_MS))
}

/** @throws InvalidSettingError unless `days` is a finite number above 0 */
export function checkDays(days: number): void {
  if (Number.isFinite(days) && days > 0) return
  throw new InvalidSettingError(`Option "days" is ${String(days)}: give a number of days above 0, such as 7 or 0.5`)
}

/** @throws InvalidSettingError unless `value` is an integer >= 1 */
export function checkAtLeastOne(option: string, value: number): void {
  if (Number.isSafeInteger(value) && value >= 1) return
  throw new InvalidSettingError(`Option "${option}" is ${String(value)}: give a whole number, 1 or more`)
}
