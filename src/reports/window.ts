import type { AddressPrivacy } from '../clients/address-privacy.js'
import type { Database } from '../database/database.js'
import type { Dialect, Query } from '../database/dialect.js'
import { InvalidSettingError } from '../ground/errors.js'
import { type Clock, DAY_MS, HOUR_MS, latestStartMs } from '../ground/time/clock.js'
import { IS_REFUSED } from '../log/event-sql.js'
import { foldForReport } from '../log/rollups/catch-up.js'
import { watermarkSql } from '../log/rollups/fold.js'
import { readSums, type Sums } from '../log/rollups/sums.js'
import { ClosedHours } from './closed-hours.js'
import { type EventFilter, inRange, Parameters } from './filter.js'
import { type BucketRange, type Edge, isClosed, type Period, type SplitPeriod, splitAtPresent } from './period.js'

/** The event log as of one moment, which a report reads. */
export interface LogSnapshot {
  readonly query: Query
  readonly dialect: Dialect
  readonly nowMs: number
  /** The state of the rollups. */
  readonly sums: Sums
  /** What this process knows of all hours but the present one. */
  readonly closed: ClosedHours
  /** Whether the log holds only refusals and would-be refusals: `logEvents: 'blocked'`. */
  readonly onlyBlocked: boolean
  /** How addresses are stored; undefined where they are stored in full, or this process does not know. */
  readonly privacy?: AddressPrivacy | undefined
}

/** Returns a client or a key, as an operator spells it, as the log has it. */
export function toLogged({ privacy }: Pick<LogSnapshot, 'privacy'>, text: string): string {
  return privacy === undefined ? text : privacy.toLogged(text)
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

const closedHours = new WeakMap<Database, ClosedHours>()

/** Returns what this process knows of all hours but the present one. */
export function closedHoursFor(database: Database): ClosedHours {
  const known = closedHours.get(database)
  if (known !== undefined) return known
  const closed = new ClosedHours()
  closedHours.set(database, closed)
  database.replacedListeners.add(() => closed.clear())
  return closed
}

/** Returns a function that runs reports on a database; they include what this process has served so far. */
export function createReportRunner(database: Database, clock: Clock, onlyBlocked = false, privacy?: AddressPrivacy) {
  const { dialect } = database
  const closed = closedHoursFor(database)
  return async <Result>(report: Report<Result>): Promise<Result> => {
    await foldForReport(database, clock.now())
    return database.report(async (query) => {
      const nowMs = clock.now()
      const sums = await readSums(query, dialect, nowMs)
      return report({ query, dialect, nowMs, onlyBlocked, closed, sums, privacy })
    })
  }
}

/** Returns the condition that an event is in a period. */
export function duringPeriod(dialect: Dialect, { startMs, endMs }: Period, parameters: Parameters): string {
  return `"timestamp" >= ${dialect.fromMs(parameters.add(startMs))} AND "timestamp" < ${dialect.fromMs(parameters.add(endMs))}`
}

/** The condition of some events, and whether to add or subtract them. */
interface LoggedPart {
  readonly where: string
  readonly sign: 1 | -1
}

/** Some events by their decision, as conditions. */
export interface LoggedEvents {
  /** For periods. It names the values, so that the index on (allowed, timestamp, outcome) is used, and covers the query where it can. */
  readonly during: string
  /** For ids and keys. Not "allowed = false", for which SQLite would use that index instead of the id. */
  readonly afterId: string
}

export const ALL_EVENTS: LoggedEvents = { during: 'allowed IN (true, false)', afterId: 'true' }
export const REFUSED_EVENTS: LoggedEvents = { during: IS_REFUSED, afterId: "NOT allowed AND outcome <> 'denied'" }
/** Over a limit that blocks, or denied. */
export const TURNED_AWAY_EVENTS: LoggedEvents = {
  during: "allowed = false AND outcome <> 'unavailable'",
  afterId: "NOT allowed AND outcome <> 'unavailable'",
}

/** Returns the condition of some events of a period. The index of a client's keys is shorter than the one for `during`. */
export function conditionFor({ during, afterId }: LoggedEvents, { key }: EventFilter): string {
  return key === undefined ? during : afterId
}

/** Creates the conditions of some events. Others than `events` are left out: by default, none. */
export type LoggedParts = (parameters: Parameters, events?: LoggedEvents) => readonly LoggedPart[]

/**
 * Returns the whole minutes by which a period differs from its buckets, each for a statement of its own: their rows are
 * known until a late event is folded.
 */
export function closedMinutes({ dialect, sums, nowMs }: LogSnapshot, { wholeMinutes }: SplitPeriod): LoggedParts[] {
  return wholeMinutes
    .filter((part) => isClosed(part, sums.dirty, nowMs))
    .map(
      ({ sign, ...part }): LoggedParts =>
        (parameters, events = ALL_EVENTS) => [
          // The watermark is no parameter, which would change with it.
          {
            sign,
            where: `${events.during} AND ${duringPeriod(dialect, part, parameters)} AND id <= ${watermarkSql({ dialect })}`,
          },
        ],
    )
}

/**
 * Returns the other events of a period that its buckets lack, or have in excess: at its ends, in dirty hours, and above
 * the watermark.
 */
export function openEvents(snapshot: LogSnapshot, split: SplitPeriod): LoggedParts {
  return (parameters, events) => openParts(snapshot, split, parameters, events)
}

/** Returns all events of a period that its buckets lack, or have in excess. */
export function loggedEvents(snapshot: LogSnapshot, split: SplitPeriod): LoggedParts {
  return (parameters, events) =>
    [...closedMinutes(snapshot, split), openEvents(snapshot, split)].flatMap((logged) => logged(parameters, events))
}

function openParts(
  { dialect, sums, nowMs }: LogSnapshot,
  { edges, dirty, minutes, wholeMinutes }: SplitPeriod,
  parameters: Parameters,
  events = ALL_EVENTS,
): LoggedPart[] {
  // An end that planners do not know makes them expect few rows.
  const lastId = `SELECT MAX(id) FROM ${dialect.table('rate_limit_event')}`
  const minute = dialect.toMinute('"timestamp"')
  const { unfolded } = sums
  return [
    ...edges.map(({ sign, ...edge }) => ({
      sign,
      where: `${events.during} AND ${duringPeriod(dialect, edge, parameters)}`,
    })),
    ...[
      ...dirty.map((period): Edge => ({ ...period, sign: 1 })),
      ...wholeMinutes.filter((part) => !isClosed(part, sums.dirty, nowMs)),
    ].map(({ sign, ...part }) => ({
      sign,
      where: `${events.during} AND ${duringPeriod(dialect, part, parameters)} AND id <= ${parameters.add(sums.watermark)}`,
    })),
    ...(unfolded !== undefined && Math.max(minutes.from, unfolded.from) < Math.min(minutes.to, unfolded.to)
      ? [
          {
            sign: 1 as const,
            where: `${events.afterId} AND id > ${parameters.add(sums.watermark)} AND id <= (${lastId}) AND ${inRange(minute, minutes, parameters)}`,
          },
        ]
      : []),
  ]
}

/**
 * Returns the last `days` days, and what the faster clocks of other servers have recorded since: up to the end of the hour
 * in an hour, so that no events are read at that end.
 */
export function windowFor(days: number, nowMs: number): Period {
  return { startMs: daysBefore(days, nowMs), endMs: (Math.floor(latestStartMs(nowMs) / HOUR_MS) + 1) * HOUR_MS }
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

/** What is read of whole buckets, and of the events that these lack. */
export interface SplitQueries {
  buckets(ranges: readonly BucketRange[], parameters: Parameters): readonly string[]
  events(logged: LoggedParts, parameters: Parameters): readonly string[]
  /** Returns the statement that sums the rows of a sub-select. */
  select(rows: string): string
}

/** Sums a period. The statements of all hours but the present one are mostly known: one statement is left. */
export async function readSplit<Row>(snapshot: LogSnapshot, split: SplitPeriod, queries: SplitQueries): Promise<Row[]> {
  const { closed, open } = splitAtPresent(split.buckets, snapshot.nowMs)
  const read = async (create: (parameters: Parameters) => readonly string[], isClosed: boolean) => {
    const parameters = new Parameters()
    const rows = create(parameters)
    if (rows.length === 0) return []
    const sql = queries.select(rows.join(' UNION ALL '))
    return isClosed
      ? snapshot.closed.query<Row>(snapshot, sql, parameters.values)
      : snapshot.query<Row>(sql, parameters.values)
  }
  const parts = await Promise.all([
    read((parameters) => queries.buckets(closed, parameters), true),
    ...closedMinutes(snapshot, split).map((minutes) => read((parameters) => queries.events(minutes, parameters), true)),
    read(
      (parameters) => [
        // PostgreSQL refuses parameters that no statement uses.
        ...(open.length === 0 ? [] : queries.buckets(open, parameters)),
        ...queries.events(openEvents(snapshot, split), parameters),
      ],
      false,
    ),
  ])
  return parts.flat()
}

/** The range of JavaScript's dates. */
const MAX_DATE_MS = 8.64e15

/** Formats a timestamp. Raw SQL may have written an invalid one, which becomes the earliest or latest date. */
export function clampedIsoTime(ms: number): string {
  const time = Number.isNaN(Number(ms)) ? 0 : Number(ms)
  return new Date(Math.max(-MAX_DATE_MS, Math.min(MAX_DATE_MS, time))).toISOString()
}
