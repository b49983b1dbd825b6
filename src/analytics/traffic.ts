import { HOUR_MS } from '../clock.js'
import type { Dialect } from '../db/dialect.js'
import type { TrafficCounts } from './breakdown.js'
import { filtered, inRange, Parameters, type ReportFilter } from './filter.js'
import { type BucketRange, NO_END, type Period, type PeriodParts, partsOf } from './period.js'
import { duringPeriod, type Snapshot } from './window.js'

/** Requests that have path, rule and method in common. */
export interface Traffic extends TrafficCounts {
  /** Empty for those whose path found no room in a rollup. */
  readonly path: string
  /** Empty where no rule matched. */
  readonly rule_name: string
  readonly method: string
}

/** What an event adds to the counts, or takes from them. */
export function eventCounts(sign: 1 | -1 = 1): string {
  return `${sign} AS total, CASE WHEN allowed = false THEN ${sign} ELSE 0 END AS blocked,
    CASE WHEN allowed <> false AND count > "limit" THEN ${sign} ELSE 0 END AS would_block`
}

/** Counts added up. */
export const SUMS = 'SUM(total) AS total, SUM(blocked) AS blocked, SUM(would_block) AS would_block'
/** All in one, for which an index is enough. */
function countEvents(sign: 1 | -1): string {
  return `${sign} * COUNT(*) AS total, ${sign} * COUNT(*) FILTER (WHERE allowed = false) AS blocked`
}

/**
 * The traffic of a period, by path, rule and method. What the rollups have and what they have not is added up each by
 * itself, and can come twice: together they would be sorted together, most of them once more.
 */
export async function readTraffic(
  snapshot: Snapshot,
  period: Period,
  filter: ReportFilter = {},
): Promise<readonly Traffic[]> {
  const { query, dialect } = snapshot
  const parts = await partsByPath(snapshot, period, filter)
  const read = async (queries: readonly string[], { values }: Parameters): Promise<Traffic[]> => {
    if (queries.length === 0) return []
    return query<Traffic>(
      `SELECT path, rule_name, method, ${SUMS}
       FROM (${queries.join(' UNION ALL ')}) AS traffic GROUP BY path, rule_name, method`,
      values,
    )
  }
  const [ofRollups, ofEvents] = [new Parameters(), new Parameters()]
  const columns = 'path, rule_name, method'
  const rollups = rollupQueries(dialect, parts, filter, ofRollups, `${columns}, total, blocked, would_block`)
  const events = edgeQueries(dialect, parts, filter, ofEvents, (sign) => `${columns}, ${eventCounts(sign)}`)
  return [...(await read(rollups, ofRollups)), ...(await read(events, ofEvents))]
}

/** How much was asked for in a period, and how much of it was refused. */
export async function countTraffic(
  { query, dialect }: Snapshot,
  period: Period,
  filter: ReportFilter = {},
): Promise<Pick<TrafficCounts, 'total' | 'blocked'>> {
  const parameters = new Parameters()
  // A path that found no room in a bucket is not there to be taken away.
  const parts = partsFor(filter, period, filter.path === undefined)
  const queries = [
    ...rollupQueries(dialect, parts, filter, parameters, 'total, blocked'),
    ...edgeQueries(dialect, parts, filter, parameters, countEvents),
  ]
  // The window before one that begins with the epoch.
  if (queries.length === 0) return { total: 0, blocked: 0 }
  const [counts] = await query<Pick<TrafficCounts, 'total' | 'blocked'>>(
    `SELECT COALESCE(SUM(total), 0) AS total, COALESCE(SUM(blocked), 0) AS blocked
     FROM (${queries.join(' UNION ALL ')}) AS traffic`,
    parameters.values,
  )
  return counts ?? { total: 0, blocked: 0 }
}

/** A filter by key is about events alone: the rollups of traffic do not know keys. */
function partsFor({ key }: ReportFilter, period: Period, takesAway: boolean): PeriodParts {
  if (key === undefined) return partsOf(period, takesAway)
  return { buckets: [], edges: [{ ...period, sign: 1 }], hours: { span: 1, from: 0, to: 0 } }
}

/** The parts of a period by which its traffic can be told apart by path. */
async function partsByPath(snapshot: Snapshot, period: Period, filter: ReportFilter): Promise<PeriodParts> {
  const parts = partsFor(filter, period, true)
  for (const { sign, startMs } of parts.edges) {
    // What is not there by its path cannot be taken away by its path.
    if (sign < 0 && (await hasUnknownPaths(snapshot, parts.buckets, Math.floor(startMs / HOUR_MS)))) {
      return partsFor(filter, period, false)
    }
  }
  return parts
}

/** Whether the bucket that an hour is in has traffic whose paths found no room. */
async function hasUnknownPaths(
  { query, dialect }: Snapshot,
  buckets: readonly BucketRange[],
  hour: number,
): Promise<boolean> {
  const range = buckets.find(({ span, from, to }) => from * span <= hour && hour < to * span)
  if (range === undefined) return false
  const rows = await query(
    `SELECT 1 FROM ${dialect.table('rate_limit_traffic_rollup')}
     WHERE span = ${range.span} AND bucket = $1 AND path = '' LIMIT 1`,
    [Math.floor(hour / range.span)],
  )
  return rows.length > 0
}

/** Queries of the whole buckets of a period, and of what was not folded into them yet. */
function rollupQueries(
  dialect: Dialect,
  { buckets }: PeriodParts,
  filter: ReportFilter,
  parameters: Parameters,
  columns: string,
): string[] {
  return buckets.flatMap((range) => bucketQueries(dialect, range, filter, parameters, columns))
}

/** The rows of whole buckets, and what will be folded into them, with their `bucket`. */
export function bucketQueries(
  dialect: Dialect,
  range: BucketRange,
  filter: ReportFilter,
  parameters: Parameters,
  columns: string,
): readonly string[] {
  const { span, from, to } = range
  const rollup = dialect.table('rate_limit_traffic_rollup')
  const hours = inRange('hour', { from: from * span, to: Math.min(to * span, NO_END) }, parameters)
  // What takes away where its path found no room has to do so where that was counted: as the fold does it.
  const path = `CASE WHEN SUM(total) <= 0 AND NOT EXISTS (
      SELECT 1 FROM ${rollup} AS known WHERE known.span = ${span} AND known.bucket = delta.bucket AND known.path = delta.path
        AND known.rule_name = delta.rule_name AND known.method = delta.method
    ) THEN '' ELSE path END`
  return [
    `SELECT ${columns} FROM (
       SELECT bucket, ${path} AS path, rule_name, method, ${SUMS} FROM (
         SELECT hour / ${span} AS bucket, path, rule_name, method, total, blocked, would_block
         FROM ${dialect.table('rate_limit_rollup_delta')} WHERE ${hours}
       ) AS delta GROUP BY bucket, path, rule_name, method
     ) AS deltas WHERE true${filtered(filter, parameters)}`,
    `SELECT ${columns} FROM ${rollup}
     WHERE span = ${span} AND ${inRange('bucket', range, parameters)}${filtered(filter, parameters)}`,
  ]
}

/** Queries of the events at the ends of a period. */
function edgeQueries(
  dialect: Dialect,
  { edges }: PeriodParts,
  filter: ReportFilter,
  parameters: Parameters,
  columns: (sign: 1 | -1) => string,
): string[] {
  return edges.map(
    // Both values named: that lets the index on (allowed, timestamp) answer alone, where it can.
    (edge) =>
      `SELECT ${columns(edge.sign)} FROM ${dialect.table('rate_limit_event')}
       WHERE allowed IN (true, false) AND ${duringPeriod(dialect, edge, parameters)}${filtered(filter, parameters)}`,
  )
}
