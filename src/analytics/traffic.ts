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

const SUMS =
  'COALESCE(SUM(total), 0) AS total, COALESCE(SUM(blocked), 0) AS blocked, COALESCE(SUM(would_block), 0) AS would_block'

/** The traffic of a period, by path, rule and method. */
export function readTraffic(snapshot: Snapshot, period: Period, filter: ReportFilter = {}): Promise<Traffic[]> {
  const parameters = new Parameters()
  return snapshot.query<Traffic>(
    `SELECT path, rule_name, method, ${SUMS} FROM (${trafficSql(snapshot, period, filter, parameters)}) AS traffic
     GROUP BY path, rule_name, method`,
    parameters.values,
  )
}

/** The traffic of a period, all in one. */
export async function countTraffic(
  snapshot: Snapshot,
  period: Period,
  filter: ReportFilter = {},
): Promise<TrafficCounts> {
  const parameters = new Parameters()
  const [counts] = await snapshot.query<TrafficCounts>(
    `SELECT ${SUMS} FROM (${trafficSql(snapshot, period, filter, parameters)}) AS traffic`,
    parameters.values,
  )
  return counts ?? { total: 0, blocked: 0, would_block: 0 }
}

/**
 * The rows to add up: whole buckets from the rollups, with what was not folded into them yet, and the events at the ends
 * of the period. The rollups know no keys of what was let through: with one in the filter, all is read from the events.
 */
function trafficSql({ dialect }: Snapshot, period: Period, filter: ReportFilter, parameters: Parameters): string {
  const columns = 'path, rule_name, method, total, blocked, would_block'
  const passes = () => filtered(filter, parameters)
  const eventsSql = (part: Period) =>
    `SELECT path, rule_name, method, ${EVENT_COUNTS} FROM ${dialect.table('rate_limit_event')}
     WHERE ${duringPeriod(dialect, part, parameters)}${passes()}`
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
