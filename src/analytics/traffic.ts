import type { TrafficCounts } from './breakdown.js'
import { filtered, Parameters, type ReportFilter } from './filter.js'
import { type Period, partsOf } from './period.js'
import { duringPeriod, type Snapshot } from './window.js'

/** Requests that have path, rule and method in common. */
export interface Traffic extends TrafficCounts {
  /** Empty for those whose path found no room in a rollup. */
  readonly path: string
  /** Empty where no rule matched. */
  readonly rule_name: string
  readonly method: string
}

/** What an event adds to the counts. */
export const EVENT_COUNTS = `1 AS total, CASE WHEN allowed = false THEN 1 ELSE 0 END AS blocked,
  CASE WHEN allowed <> false AND count > "limit" THEN 1 ELSE 0 END AS would_block`

/** All in one, for which an index is enough. */
const COUNT_EVENTS = 'COUNT(*) AS total, COUNT(*) FILTER (WHERE allowed = false) AS blocked'
const COLUMNS = 'path, rule_name, method, total, blocked, would_block'

/** The traffic of a period, by path, rule and method. */
export function readTraffic(snapshot: Snapshot, period: Period, filter: ReportFilter = {}): Promise<Traffic[]> {
  const parameters = new Parameters()
  const eventColumns = `path, rule_name, method, ${EVENT_COUNTS}`
  const rows = trafficSql(snapshot, period, filter, parameters, COLUMNS, eventColumns)
  return snapshot.query<Traffic>(
    `SELECT path, rule_name, method, SUM(total) AS total, SUM(blocked) AS blocked, SUM(would_block) AS would_block
     FROM (${rows}) AS traffic GROUP BY path, rule_name, method`,
    parameters.values,
  )
}

/** How much was asked for in a period, and how much of it was refused. */
export async function countTraffic(
  snapshot: Snapshot,
  period: Period,
  filter: ReportFilter = {},
): Promise<Pick<TrafficCounts, 'total' | 'blocked'>> {
  const parameters = new Parameters()
  const rows = trafficSql(snapshot, period, filter, parameters, 'total, blocked', COUNT_EVENTS)
  const [counts] = await snapshot.query<Pick<TrafficCounts, 'total' | 'blocked'>>(
    `SELECT COALESCE(SUM(total), 0) AS total, COALESCE(SUM(blocked), 0) AS blocked FROM (${rows}) AS traffic`,
    parameters.values,
  )
  return counts ?? { total: 0, blocked: 0 }
}

/**
 * The rows to add up: whole buckets from the rollups, with what was not folded into them yet, and the events at the ends
 * of the period. The rollups know no keys of what was let through: with one in the filter, all is read from the events.
 */
function trafficSql(
  { dialect }: Snapshot,
  period: Period,
  filter: ReportFilter,
  parameters: Parameters,
  columns: string,
  eventColumns: string,
): string {
  const passes = () => filtered(filter, parameters)
  const eventsSql = (part: Period) =>
    // Both values named: that lets the index on (allowed, timestamp) answer alone, where it can.
    `SELECT ${eventColumns} FROM ${dialect.table('rate_limit_event')}
     WHERE allowed IN (true, false) AND ${duringPeriod(dialect, part, parameters)}${passes()}`
  if (filter.key !== undefined) return eventsSql(period)

  const { buckets, hours, edges } = partsOf(period)
  return [
    ...buckets.map(
      ({ span, from, to }) =>
        `SELECT ${columns} FROM ${dialect.table('rate_limit_traffic_rollup')}
         WHERE span = ${span} AND bucket >= ${parameters.add(from)} AND bucket < ${parameters.add(to)}${passes()}`,
    ),
    `SELECT ${columns} FROM ${dialect.table('rate_limit_rollup_delta')}
     WHERE hour >= ${parameters.add(hours.from)} AND hour < ${parameters.add(hours.to)}${passes()}`,
    ...edges.map(eventsSql),
  ].join(' UNION ALL ')
}
