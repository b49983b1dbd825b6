import type { Dialect } from '../db/dialect.js'
import { eventCounts, IS_REFUSED } from '../events/readings.js'
import type { TrafficCounts } from './breakdown.js'
import { filtered, inRange, type Parameters, type ReportFilter } from './filter.js'
import { type BucketRange, type Period, type SplitPeriod, splitPeriod } from './period.js'
import { readSplit } from './read-split.js'
import { type LogSnapshot, loggedRanges } from './window.js'

/** Requests that have path, rule and method in common. */
export interface Traffic extends TrafficCounts {
  /** Empty for requests whose path had no room in a rollup. */
  readonly path: string
  /** Empty where no rule matched. */
  readonly rule_name: string
  readonly method: string
}

/** The sums of all counts. */
export const SUMS = 'SUM(total) AS total, SUM(blocked) AS blocked, SUM(would_block) AS would_block'
/** Counts events in one expression, for which an index is enough. */
function countEvents(sign: 1 | -1): string {
  return `${sign} * COUNT(*) FILTER (WHERE outcome <> 'denied') AS total,
    ${sign} * COUNT(*) FILTER (WHERE ${IS_REFUSED}) AS blocked`
}

/**
 * Reads the traffic of a period, by path, rule and method. Closed days, the present one, and events are summed
 * separately, so an entry can occur several times: in one statement, most of them would be sorted a second time.
 */
export async function readTraffic(
  snapshot: LogSnapshot,
  period: Period,
  filter: ReportFilter = {},
): Promise<readonly Traffic[]> {
  const columns = 'path, rule_name, method'
  // A path for which a bucket had no room cannot be subtracted from it.
  const split = splitFor(snapshot, filter, period, false)
  return readSplit<Traffic>(snapshot, split, {
    buckets: (ranges, parameters) =>
      bucketQueries(snapshot.dialect, ranges, filter, parameters, `${columns}, total, blocked, would_block`),
    events: (parameters) =>
      eventQueries(snapshot, split, filter, parameters, (sign) => `${columns}, ${eventCounts(sign)}`),
    select: (traffic) => `SELECT ${columns}, ${SUMS} FROM (${traffic}) AS traffic GROUP BY ${columns}`,
  })
}

/** Counts the requests of a period, and those refused. */
export async function countTraffic(
  snapshot: LogSnapshot,
  period: Period,
  filter: ReportFilter = {},
): Promise<Pick<TrafficCounts, 'total' | 'blocked'>> {
  const split = splitFor(snapshot, filter, period, filter.path === undefined)
  const parts = await readSplit<Pick<TrafficCounts, 'total' | 'blocked'>>(snapshot, split, {
    buckets: (ranges, parameters) => bucketQueries(snapshot.dialect, ranges, filter, parameters, 'total, blocked'),
    events: (parameters) => eventQueries(snapshot, split, filter, parameters, countEvents),
    select: (traffic) =>
      `SELECT COALESCE(SUM(total), 0) AS total, COALESCE(SUM(blocked), 0) AS blocked FROM (${traffic}) AS traffic`,
  })
  return {
    total: parts.reduce((sum, { total }) => sum + total, 0),
    blocked: parts.reduce((sum, { blocked }) => sum + blocked, 0),
  }
}

/** Divides a period. A filter by key reads events only: the rollups of traffic have no keys. */
function splitFor({ sums }: LogSnapshot, { key }: ReportFilter, period: Period, takesAway: boolean): SplitPeriod {
  if (key === undefined) return splitPeriod(period, { ...sums, takesAway })
  return { buckets: [], edges: [{ ...period, sign: 1 }], hours: { from: 0, to: 0 }, dirty: [] }
}

/** Creates the queries of the whole buckets of a period. */
export function bucketQueries(
  dialect: Dialect,
  buckets: readonly BucketRange[],
  filter: ReportFilter,
  parameters: Parameters,
  columns: string,
): string[] {
  return buckets.map(
    (range) =>
      `SELECT ${columns} FROM ${dialect.table('rate_limit_traffic_rollup')}
       WHERE span = ${range.span} AND ${inRange('bucket', range, parameters)}${filtered(filter, parameters)}`,
  )
}

/** Creates the queries of the events that the buckets of a period lack, or have in excess. */
export function eventQueries(
  snapshot: LogSnapshot,
  split: SplitPeriod,
  filter: ReportFilter,
  parameters: Parameters,
  columns: (sign: 1 | -1) => string,
): string[] {
  return loggedRanges(snapshot, split, parameters).map(
    ({ where, sign }) =>
      `SELECT ${columns(sign)} FROM ${snapshot.dialect.table('rate_limit_event')}
       WHERE ${where}${filtered(filter, parameters)}`,
  )
}
