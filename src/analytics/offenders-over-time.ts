import type { Offender } from '../alerts/offender.js'
import { HOUR_MS } from '../clock.js'
import { filtered, inRange, isFiltering, Parameters, type ReportFilter } from './filter.js'
import { rankOffenders } from './offender-ranking.js'
import { barsOf } from './over-time.js'
import type { Period } from './period.js'
import { duringPeriod, type Snapshot, windowOf } from './window.js'

/** An offender, and when it was blocked: one number per bar of the traffic over time. */
export interface OffenderOverTime extends Offender {
  readonly blocked_by_bar: readonly number[]
}

/** The top offenders. The rollup of keys knows nothing else of a request: what a filter needs is read from the events. */
export async function readOffendersOverTime(
  snapshot: Snapshot,
  days: number,
  filter: ReportFilter,
  limit: number,
): Promise<OffenderOverTime[]> {
  const isFiltered = isFiltering(filter)
  const offenders = isFiltered
    ? await rankFiltered(snapshot, days, filter, limit)
    : await rankOffenders(snapshot, windowOf(days, snapshot.nowMs), { limit, atLeast: 1 })
  if (offenders.length === 0) return []
  const { barMs, starts, period, span } = barsOf(days, snapshot.nowMs)
  const keys = offenders.map(({ key }) => key)
  const parameters = new Parameters()
  const hours = isFiltered
    ? eventHoursSql(snapshot, period, keys, filter, parameters)
    : rollupHoursSql(snapshot, period, keys, span, parameters)
  const bar = `hour / ${barMs / HOUR_MS}`
  const rows = await snapshot.query<{ key: string; bar: number; blocked: number }>(
    `SELECT key, ${bar} AS bar, SUM(blocked) AS blocked FROM (${hours}) AS hours GROUP BY key, ${bar}`,
    parameters.values,
  )
  const blocked = new Map(rows.map((row) => [`${row.bar * barMs} ${row.key}`, row.blocked]))
  return offenders.map((offender) => ({
    ...offender,
    blocked_by_bar: starts.map((start) => blocked.get(`${start} ${offender.key}`) ?? 0),
  }))
}

function rankFiltered(
  { query, dialect, nowMs }: Snapshot,
  days: number,
  filter: ReportFilter,
  limit: number,
): Promise<Offender[]> {
  const parameters = new Parameters()
  // Spelled otherwise, it leads through the index of everything blocked, where that of a key is shorter.
  const isBlocked = filter.key === undefined ? 'allowed = false' : 'NOT allowed'
  return query<Offender>(
    `SELECT key, COUNT(*) AS blocked_count FROM ${dialect.table('rate_limit_event')}
     WHERE ${isBlocked} AND ${duringPeriod(dialect, windowOf(days, nowMs), parameters)}${filtered(filter, parameters)}
     GROUP BY key ORDER BY COUNT(*) DESC, ${dialect.bytewise('key')} LIMIT ${parameters.add(limit)}`,
    parameters.values,
  )
}

function eventHoursSql(
  { dialect }: Snapshot,
  period: Period,
  keys: readonly string[],
  filter: ReportFilter,
  parameters: Parameters,
): string {
  return `SELECT key, ${dialect.hourOf('"timestamp"')} AS hour, 1 AS blocked FROM ${dialect.table('rate_limit_event')}
    WHERE NOT allowed AND ${dialect.oneOf('key', parameters.add(JSON.stringify(keys)), 'text')}
      AND ${duringPeriod(dialect, period, parameters)}${filtered(filter, parameters)}`
}

/** Whole buckets, asked for one by one: between them lie all other keys. */
function rollupHoursSql(
  { dialect }: Snapshot,
  period: Period,
  keys: readonly string[],
  span: 1 | 24,
  parameters: Parameters,
): string {
  const [first, end] = [period.startMs / HOUR_MS, period.endMs / HOUR_MS]
  const buckets = Array.from({ length: (end - first) / span }, (_, place) => first / span + place)
  const isOffender = dialect.oneOf('key', parameters.add(JSON.stringify(keys)), 'text')
  return `SELECT key, bucket * ${span} AS hour, blocked FROM ${dialect.table('rate_limit_blocked_rollup')}
    WHERE span = ${span} AND ${dialect.oneOf('bucket', parameters.add(JSON.stringify(buckets)), 'bigint')} AND ${isOffender}
    UNION ALL SELECT key, hour, blocked FROM ${dialect.table('rate_limit_rollup_delta')}
    WHERE ${inRange('hour', { from: first, to: end }, parameters)} AND ${isOffender}`
}
