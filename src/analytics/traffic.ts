import type { Dialect } from '../db/dialect.js'
import type { TrafficCounts } from './breakdown.js'
import { filtered, inRange, Parameters, type ReportFilter } from './filter.js'
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

/** Counts added up. */
export const SUMS = 'SUM(total) AS total, SUM(blocked) AS blocked, SUM(would_block) AS would_block'
/** All in one, for which an index is enough. */
const COUNT_EVENTS = 'COUNT(*) AS total, COUNT(*) FILTER (WHERE allowed = false) AS blocked'

/**
 * The traffic of a period, by path, rule and method. What the rollups have and what they have not is added up each by
 * itself, and can come twice: together they would be sorted together, most of them once more.
 */
export async function readTraffic(
  { query, dialect }: Snapshot,
  period: Period,
  filter: ReportFilter = {},
): Promise<readonly Traffic[]> {
  const read = async (parts: readonly string[], { values }: Parameters): Promise<Traffic[]> => {
    if (parts.length === 0) return []
    return query<Traffic>(
      `SELECT path, rule_name, method, ${SUMS}
       FROM (${parts.join(' UNION ALL ')}) AS traffic GROUP BY path, rule_name, method`,
      values,
    )
  }
  const [ofRollups, ofEvents] = [new Parameters(), new Parameters()]
  const columns = 'path, rule_name, method'
  const rollups = rollupParts(dialect, period, filter, ofRollups, `${columns}, total, blocked, would_block`)
  const events = eventParts(dialect, period, filter, ofEvents, `${columns}, ${EVENT_COUNTS}`)
  return [...(await read(rollups, ofRollups)), ...(await read(events, ofEvents))]
}

/** How much was asked for in a period, and how much of it was refused. */
export async function countTraffic(
  { query, dialect }: Snapshot,
  period: Period,
  filter: ReportFilter = {},
): Promise<Pick<TrafficCounts, 'total' | 'blocked'>> {
  const parameters = new Parameters()
  const parts = [
    ...rollupParts(dialect, period, filter, parameters, 'total, blocked'),
    ...eventParts(dialect, period, filter, parameters, COUNT_EVENTS),
  ]
  const [counts] = await query<Pick<TrafficCounts, 'total' | 'blocked'>>(
    `SELECT COALESCE(SUM(total), 0) AS total, COALESCE(SUM(blocked), 0) AS blocked
     FROM (${parts.join(' UNION ALL ')}) AS traffic`,
    parameters.values,
  )
  return counts ?? { total: 0, blocked: 0 }
}

/** Queries of the whole buckets of a period, and of what was not folded into them yet. */
function rollupParts(
  dialect: Dialect,
  period: Period,
  filter: ReportFilter,
  parameters: Parameters,
  columns: string,
): string[] {
  if (filter.key !== undefined) return []
  const { buckets, hours } = partsOf(period)
  return [
    ...buckets.map(
      (range) =>
        `SELECT ${columns} FROM ${dialect.table('rate_limit_traffic_rollup')}
         WHERE span = ${range.span} AND ${inRange('bucket', range, parameters)}${filtered(filter, parameters)}`,
    ),
    `SELECT ${columns} FROM ${dialect.table('rate_limit_rollup_delta')}
     WHERE ${inRange('hour', hours, parameters)}${filtered(filter, parameters)}`,
  ]
}

/** Queries of the events at the ends of a period; with a key, which the rollups do not know, of all in between too. */
function eventParts(
  dialect: Dialect,
  period: Period,
  filter: ReportFilter,
  parameters: Parameters,
  columns: string,
): string[] {
  const parts = filter.key === undefined ? partsOf(period).edges : [period]
  return parts.map(
    // Both values named: that lets the index on (allowed, timestamp) answer alone, where it can.
    (part) =>
      `SELECT ${columns} FROM ${dialect.table('rate_limit_event')}
       WHERE allowed IN (true, false) AND ${duringPeriod(dialect, part, parameters)}${filtered(filter, parameters)}`,
  )
}
