import { Parameters } from '../database/list.js'
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../ground/time/clock.js'
import { eventCounts } from '../log/event-sql.js'
import { DAY_SPAN, HOUR_SPAN, type Span } from '../log/rollups/counting.js'
import { NO_TRAFFIC, type TrafficCounts } from './breakdown.js'
import { type EventFilter, filtered, inRange, isFiltering, type ReportFilter } from './filter.js'
import { duringPeriod, loggedEvents } from './logged-events.js'
import { type Period, splitPeriod } from './period.js'
import { report } from './registration.js'
import type { LogSnapshot } from './report.js'
import { type ReportWindow, type WindowOptions, windowDays, windowFor } from './report-window.js'
import { bucketQueries, COUNTS, eventQueries, SUMS } from './traffic.js'

export interface Bar extends TrafficCounts {
  /**
   * The start in milliseconds since the epoch: a whole minute, hour, day or week (from Thursday, as the epoch's) in
   * UTC.
   */
  readonly start_ms: number
}

/** The traffic of a window, bar by bar, without gaps, oldest first. The first bar begins at or before the window, and has of a range only what is in it. */
export interface OverTime {
  /** The length of a bar, in milliseconds: 1 minute, 1 hour, 6 hours, 1 day or 7 days, by the length of the window. */
  readonly bar_ms: number
  readonly bars: readonly Bar[]
}

/** The length of bars for windows of up to `days`; 7 days for longer windows. */
export type BarLengths = readonly (readonly [days: number, barMs: number])[]

/** The lengths make 25 to 61 bars, up to 121 in between, and 16 in a quarter of an hour. */
export const CHART_BARS: BarLengths = [
  [1 / 24, MINUTE_MS],
  [2, HOUR_MS],
  [14, 6 * HOUR_MS],
  [120, DAY_MS],
]
const LONGEST_BAR_MS = 7 * DAY_MS

export interface Bars {
  readonly barMs: number
  /** The start of each bar, in milliseconds since the epoch. */
  readonly starts: readonly number[]
  /** The period that the bars count: whole ones of the last days, and of a range exactly what is in it. */
  readonly period: Period
  /** The longest buckets that bars are made of, in minutes. */
  readonly span: Span
}

/** Returns the bars of a window; the last one contains the current time, or the end of a range. */
export function barsFor(lengths: BarLengths, window: ReportWindow, nowMs: number): Bars {
  const days = windowDays(window, nowMs)
  const [, barMs] = lengths.find(([most]) => days <= most) ?? [days, LONGEST_BAR_MS]
  const { startMs, endMs } = windowFor(window, nowMs)
  const first = Math.floor(startMs / barMs)
  const last = Math.floor(Math.min(nowMs, endMs - 1) / barMs)
  const bars = { startMs: first * barMs, endMs: (last + 1) * barMs }
  return {
    barMs,
    starts: Array.from({ length: Math.max(0, last - first + 1) }, (_, index) => (first + index) * barMs),
    period: window.since === undefined ? bars : { startMs, endMs: Math.max(startMs, Math.min(bars.endMs, endMs)) },
    span: barMs < HOUR_MS ? 1 : barMs < DAY_MS ? HOUR_SPAN : DAY_SPAN,
  }
}

/**
 * Reads the traffic bar by bar. Without a filter bars of an hour or more come from the trend, which includes events
 * deleted from the log.
 */
export async function readOverTime(
  snapshot: LogSnapshot,
  window: ReportWindow,
  filter: EventFilter,
): Promise<OverTime> {
  const bars = barsFor(CHART_BARS, window, snapshot.nowMs)
  const { barMs, starts } = bars
  const parameters = new Parameters()
  const bar = `minute / ${barMs / MINUTE_MS}`
  const minutes = minutesSql(snapshot, bars, filter, parameters)
  const rows =
    minutes === ''
      ? []
      : await snapshot.query<TrafficCounts & { bar: number }>(
          `SELECT ${bar} AS bar, ${SUMS} FROM (${minutes}) AS minutes GROUP BY ${bar}`,
          parameters.values,
        )
  const countsByBar = new Map(rows.map(({ bar, ...counts }) => [bar * barMs, counts]))
  return { bar_ms: barMs, bars: starts.map((start_ms) => ({ start_ms, ...NO_TRAFFIC, ...countsByBar.get(start_ms) })) }
}

/** Reports the traffic of a window, bar by bar. */
export const trafficOverTime = report<
  WindowOptions & Omit<ReportFilter, 'key'>,
  OverTime & { readonly days: number }
>()({
  name: 'getTraffic',
  summary: 'Show the requests over time',
  window: 7,
  options: ({ optional }) => ({
    rule: optional(100, 'Only requests that this rule decided; empty for those that no rule decided.'),
    path: optional(500, 'Only requests whose path begins with this.'),
    method: optional(10, 'Only requests with this method.'),
  }),
  answer: ({ type, number, listOf, counts }) => ({
    days: number,
    bar_ms: type.Integer({ description: 'The length of a bar.' }),
    bars: listOf(counts('start_ms', 'total', 'blocked', 'would_block', 'denied')),
  }),
  read: async ({ window, rule, path, method }, snapshot) => ({
    days: windowDays(window, snapshot.nowMs),
    ...(await readOverTime(snapshot, window, { rule, path, method })),
  }),
})

/**
 * Selects counts by `minute`, from the table with the fewest rows to read. The period consists of whole bars. Returns an
 * empty text where there is nothing to read: in a range that is yet to come.
 */
function minutesSql(
  snapshot: LogSnapshot,
  { period, span }: Bars,
  filter: EventFilter,
  parameters: Parameters,
): string {
  const { dialect, sums } = snapshot
  const minute = `${dialect.toMinute('"timestamp"')} AS minute`
  if (filter.key !== undefined) {
    return `SELECT ${minute}, ${eventCounts()} FROM ${dialect.table('rate_limit_event')}
      WHERE ${duringPeriod(dialect, period, parameters)}${filtered(dialect, filter, parameters)}`
  }
  if (isFiltering(filter) || span === 1) {
    const split = splitPeriod(period, { ...sums, longest: span })
    return [
      ...bucketQueries(dialect, split.buckets, filter, parameters, `bucket * span AS minute, ${COUNTS}`),
      ...eventQueries(
        snapshot,
        loggedEvents(snapshot, split),
        filter,
        parameters,
        (sign) => `${minute}, ${eventCounts(sign)}`,
      ),
    ].join(' UNION ALL ')
  }
  // The trend counts each event as it is folded: none of its hours is out of date.
  const split = splitPeriod(period, { dirty: [], minutesFrom: Number.POSITIVE_INFINITY, longest: HOUR_SPAN })
  return [
    ...split.buckets.map(
      (hours) =>
        `SELECT hour * ${HOUR_SPAN} AS minute, ${COUNTS} FROM ${dialect.table('rate_limit_trend')} WHERE ${inRange('hour', hours, parameters)}`,
    ),
    ...eventQueries(
      snapshot,
      loggedEvents(snapshot, split),
      {},
      parameters,
      (sign) => `${minute}, ${eventCounts(sign)}`,
    ),
  ].join(' UNION ALL ')
}
