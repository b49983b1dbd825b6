import { eventCounts } from '../events/readings.js'
import { DAY_SPAN, HOUR_SPAN } from '../rollups/counting.js'
import { DAY_MS, HOUR_MS } from '../time/clock.js'
import type { TrafficCounts } from './breakdown.js'
import { filtered, inRange, isFiltering, Parameters, type ReportFilter } from './filter.js'
import { type Period, splitPeriod } from './period.js'
import { bucketQueries, eventQueries, SUMS } from './traffic.js'
import { duringPeriod, type LogSnapshot, windowFor } from './window.js'

export interface Bar extends TrafficCounts {
  /** Milliseconds since the epoch: a whole hour, day or week (from Thursday, as the epoch's) in UTC. */
  readonly start_ms: number
}

/** The traffic of a window, bar by bar, without gaps, oldest first. The first bar begins at or before the window. */
export interface OverTime {
  /** The length of a bar, in milliseconds: 1 hour, 6 hours, 1 day or 7 days, by the length of the window. */
  readonly bar_ms: number
  readonly bars: readonly Bar[]
}

/** The length of bars for windows of up to `days`; 7 days for longer windows. */
export type BarLengths = readonly (readonly [days: number, barMs: number])[]

/** There are 25 to 57 bars at these lengths, and up to 121 in between. */
const CHART_BARS: BarLengths = [
  [2, HOUR_MS],
  [14, 6 * HOUR_MS],
  [120, DAY_MS],
]
const LONGEST_BAR_MS = 7 * DAY_MS

export interface Bars {
  readonly barMs: number
  /** The start of each bar, in milliseconds since the epoch. */
  readonly starts: readonly number[]
  /** From the start of the first bar to the end of the last. */
  readonly period: Period
  /** The longest buckets that bars are made of, in minutes. */
  readonly span: 60 | 1440
}

/** Returns the bars of a window; the last one contains the current time. */
export function barsFor(lengths: BarLengths, days: number, nowMs: number): Bars {
  const [, barMs] = lengths.find(([most]) => days <= most) ?? [days, LONGEST_BAR_MS]
  const { startMs } = windowFor(days, nowMs)
  const first = Math.floor(startMs / barMs)
  const last = Math.floor(nowMs / barMs)
  return {
    barMs,
    starts: Array.from({ length: last - first + 1 }, (_, place) => (first + place) * barMs),
    period: { startMs: first * barMs, endMs: (last + 1) * barMs },
    span: barMs < DAY_MS ? HOUR_SPAN : DAY_SPAN,
  }
}

/**
 * Reads the traffic bar by bar. Without a filter it comes from the trend, which includes events deleted from the log.
 */
export async function readOverTime(snapshot: LogSnapshot, days: number, filter: ReportFilter): Promise<OverTime> {
  const bars = barsFor(CHART_BARS, days, snapshot.nowMs)
  const { barMs, starts } = bars
  const parameters = new Parameters()
  const bar = `hour / ${barMs / HOUR_MS}`
  const rows = await snapshot.query<TrafficCounts & { bar: number }>(
    `SELECT ${bar} AS bar, ${SUMS}
     FROM (${hoursSql(snapshot, bars, filter, parameters)}) AS hours GROUP BY ${bar}`,
    parameters.values,
  )
  const counts = new Map(rows.map(({ bar, ...its }) => [bar * barMs, its]))
  return {
    bar_ms: barMs,
    bars: starts.map((start_ms) => ({ start_ms, total: 0, blocked: 0, would_block: 0, ...counts.get(start_ms) })),
  }
}

/** Selects counts by `hour`, from the table with the fewest rows to read. The period consists of whole bars. */
function hoursSql(snapshot: LogSnapshot, { period, span }: Bars, filter: ReportFilter, parameters: Parameters): string {
  const { dialect, sums } = snapshot
  const counts = 'total, blocked, would_block'
  const hour = `${dialect.toMinute('"timestamp"')} / ${HOUR_SPAN} AS hour`
  if (filter.key !== undefined) {
    return `SELECT ${hour}, ${eventCounts()} FROM ${dialect.table('rate_limit_event')}
      WHERE ${duringPeriod(dialect, period, parameters)}${filtered(filter, parameters)}`
  }
  if (isFiltering(filter)) {
    const split = splitPeriod(period, { ...sums, longest: span })
    return [
      ...bucketQueries(
        dialect,
        split.buckets,
        filter,
        parameters,
        `bucket * span / ${HOUR_SPAN} AS hour, ${counts}, denied`,
      ),
      ...eventQueries(snapshot, split, filter, parameters, (sign) => `${hour}, ${eventCounts(sign)}`),
    ].join(' UNION ALL ')
  }
  const hours = { from: period.startMs / HOUR_MS, to: period.endMs / HOUR_MS }
  const [added] = eventQueries(
    snapshot,
    { buckets: [], edges: [], dirty: [], hours },
    {},
    parameters,
    () => `${hour}, ${eventCounts()}`,
  )
  return `SELECT hour, ${counts}, denied FROM ${dialect.table('rate_limit_trend')} WHERE ${inRange('hour', hours, parameters)}
    UNION ALL ${added}`
}
