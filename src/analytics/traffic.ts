import type { Dialect } from '../db/dialect.js'
import { eventCounts, IS_DENIED, IS_REFUSED } from '../events/readings.js'
import { sumTraffic, type TrafficCounts } from './breakdown.js'
import { type EventFilter, filtered, inRange, type Parameters } from './filter.js'
import { type BucketRange, type Period, type SplitPeriod, splitPeriod, unsplit } from './period.js'
import { readSplit } from './read-split.js'
import type { LoggedEvents, LoggedParts, LogSnapshot } from './window.js'

/** Requests that have path, rule and method in common. */
export interface Traffic extends TrafficCounts {
  /** Empty for requests whose path had no room in a rollup. */
  readonly path: string
  /** Empty where no rule matched. */
  readonly rule_name: string
  readonly method: string
}

/** All counts, and their sums. */
export const COUNTS = 'total, blocked, would_block, denied'
export const SUMS =
  'SUM(total) AS total, SUM(blocked) AS blocked, SUM(would_block) AS would_block, SUM(denied) AS denied'
const ALL_SUMS = COUNTS.split(', ')
  .map((count) => `COALESCE(SUM(${count}), 0) AS ${count}`)
  .join(', ')

/** Counts events in one expression, for which an index is enough. */
function countEvents(sign: 1 | -1): string {
  return `${sign} * COUNT(*) FILTER (WHERE outcome <> 'denied') AS total,
    ${sign} * COUNT(*) FILTER (WHERE ${IS_REFUSED}) AS blocked,
    ${sign} * COUNT(*) FILTER (WHERE outcome = 'over_limit' AND allowed <> false) AS would_block,
    ${sign} * COUNT(*) FILTER (WHERE ${IS_DENIED}) AS denied`
}

/** Counts what `countEvents` cannot see: the would-be refusals that others wrote, without an outcome. */
function countForeign(sign: 1 | -1): string {
  return `0, 0, ${sign} * COUNT(*) FILTER (WHERE count > "limit"), 0`
}
const FOREIGN_EVENTS: LoggedEvents = {
  during: "allowed = true AND outcome = ''",
  afterId: "allowed <> false AND outcome = ''",
}

/**
 * Reads the traffic of a period, by path, rule and method. Past hours, the present one, and events are summed
 * separately, so an entry can occur several times.
 */
export async function readTraffic(
  snapshot: LogSnapshot,
  period: Period,
  filter: EventFilter = {},
): Promise<readonly Traffic[]> {
  const columns = 'path, rule_name, method'
  // A path for which a bucket had no room cannot be subtracted from it.
  const split = splitFor(snapshot, filter, period, false)
  return readSplit<Traffic>(snapshot, split, {
    buckets: (ranges, parameters) =>
      bucketQueries(snapshot.dialect, ranges, filter, parameters, `${columns}, ${COUNTS}`),
    events: (logged, parameters) =>
      eventQueries(snapshot, logged, filter, parameters, (sign) => `${columns}, ${eventCounts(sign)}`),
    select: (traffic) => `SELECT ${columns}, ${SUMS} FROM (${traffic}) AS traffic GROUP BY ${columns}`,
  })
}

/** Counts the requests of a period, by outcome. */
export async function countTraffic(
  snapshot: LogSnapshot,
  period: Period,
  filter: EventFilter = {},
): Promise<TrafficCounts> {
  const split = splitFor(snapshot, filter, period, filter.path === undefined)
  return sumTraffic(
    await readSplit<TrafficCounts>(snapshot, split, {
      buckets: (ranges, parameters) => bucketQueries(snapshot.dialect, ranges, filter, parameters, COUNTS),
      events: (logged, parameters) => [
        ...eventQueries(snapshot, logged, filter, parameters, countEvents),
        ...eventQueries(snapshot, logged, filter, parameters, countForeign, FOREIGN_EVENTS),
      ],
      select: (traffic) => `SELECT ${ALL_SUMS} FROM (${traffic}) AS traffic`,
    }),
  )
}

/** Divides a period. A filter by key reads events only: the rollups of traffic have no keys. */
function splitFor({ sums }: LogSnapshot, { key }: EventFilter, period: Period, takesAway: boolean): SplitPeriod {
  return key === undefined ? splitPeriod(period, { ...sums, takesAway }) : unsplit(period)
}

/** Creates the queries of the whole buckets of a period. */
export function bucketQueries(
  dialect: Dialect,
  buckets: readonly BucketRange[],
  filter: EventFilter,
  parameters: Parameters,
  columns: string,
): string[] {
  return buckets.map(
    (range) =>
      `SELECT ${columns} FROM ${dialect.table('rate_limit_traffic_rollup')}
       WHERE span = ${range.span} AND ${inRange('bucket', range, parameters)}${filtered(dialect, filter, parameters)}`,
  )
}

/** Creates the queries of the events that the buckets of a period lack, or have in excess. */
export function eventQueries(
  { dialect }: LogSnapshot,
  logged: LoggedParts,
  filter: EventFilter,
  parameters: Parameters,
  columns: (sign: 1 | -1) => string,
  events?: LoggedEvents,
): string[] {
  return logged(parameters, events).map(
    ({ where, sign }) =>
      `SELECT ${columns(sign)} FROM ${dialect.table('rate_limit_event')}
       WHERE ${where}${filtered(dialect, filter, parameters)}`,
  )
}
