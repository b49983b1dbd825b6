import type { Dialect } from '../database/dialect.js'
import { Parameters } from '../database/list.js'
import { IS_REFUSED } from '../log/event-sql.js'
import { watermarkSql } from '../log/rollups/fold.js'
import { type EventFilter, inRange } from './filter.js'
import { type BucketRange, type Edge, isClosed, type Period, type SplitPeriod, splitAtPresent } from './period.js'
import type { LogSnapshot } from './report.js'

/** Returns the condition that an event is in a period. */
export function duringPeriod(dialect: Dialect, { startMs, endMs }: Period, parameters: Parameters): string {
  return `"timestamp" >= ${dialect.fromMs(parameters.add(startMs))} AND "timestamp" < ${dialect.fromMs(parameters.add(endMs))}`
}

/** The condition of some events, and whether to add or subtract them. */
interface LoggedPart {
  readonly where: string
  readonly sign: 1 | -1
}

/** The conditions of events with certain decisions. */
export interface LoggedEvents {
  /**
   * The condition for periods. It names the values, so that the index on (allowed, timestamp, outcome) is used, and
   * covers the query where it can.
   */
  readonly during: string
  /**
   * The condition for ids and keys. It is not "allowed = false", for which SQLite would use that index instead of the
   * id.
   */
  readonly afterId: string
}

export const ALL_EVENTS: LoggedEvents = { during: 'allowed IN (true, false)', afterId: 'true' }
export const REFUSED_EVENTS: LoggedEvents = { during: IS_REFUSED, afterId: "NOT allowed AND outcome <> 'denied'" }
/** The events over a limit that blocks, or denied. */
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

/** The queries of whole buckets, and of the events that these lack. */
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
