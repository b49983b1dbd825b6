import type { Offender } from '../alerts/offender.js'
import { HOUR_SPAN } from '../rollups/counting.js'
import { DAY_MS, HOUR_MS } from '../time/clock.js'
import { filtered, isFiltering, oneByOne, Parameters, type ReportFilter } from './filter.js'
import { rankOffenders } from './offender-ranking.js'
import { type BarLengths, barsFor } from './over-time.js'
import { type Period, type SplitPeriod, splitPeriod } from './period.js'
import { readSplit, type SplitQueries } from './read-split.js'
import { duringPeriod, type LogSnapshot, loggedRanges, windowFor } from './window.js'

/** An offender, and when it was blocked: without gaps, oldest first. The first bar begins at or before the window. */
export interface OffenderOverTime extends Offender {
  /** The length of a bar, in milliseconds: 1 hour, 1 day or 7 days, by the length of the window. */
  readonly bar_ms: number
  readonly bars: readonly { readonly start_ms: number; readonly blocked: number }[]
}

interface BlockedBar {
  readonly key: string
  /** The number of bars since the epoch. */
  readonly bar: number
  readonly blocked: number
}

/** Whole days where the chart has split of days: each hour of each offender would be a lookup of its own. */
const OFFENDER_BARS: BarLengths = [
  [2, HOUR_MS],
  [120, DAY_MS],
]

/** Reads the top offenders. The rollup of keys has no other fields of a request, so a filter reads the events. */
export async function readOffendersOverTime(
  snapshot: LogSnapshot,
  days: number,
  filter: ReportFilter,
  limit: number,
): Promise<OffenderOverTime[]> {
  const isFiltered = isFiltering(filter)
  const offenders = isFiltered
    ? await rankFiltered(snapshot, days, filter, limit)
    : await rankOffenders(snapshot, windowFor(days, snapshot.nowMs), { limit, atLeast: 1 })
  if (offenders.length === 0) return []
  const { barMs, starts, period, span } = barsFor(OFFENDER_BARS, days, snapshot.nowMs)
  const keys = offenders.map(({ key }) => key)
  const bar = `hour / ${barMs / HOUR_MS}`
  const select = (hours: string) =>
    `SELECT key, ${bar} AS bar, SUM(blocked) AS blocked FROM (${hours}) AS hours GROUP BY key, ${bar}`
  const parameters = new Parameters()
  const rows = isFiltered
    ? await snapshot.query<BlockedBar>(
        select(eventHoursSql(snapshot, period, keys, filter, parameters)),
        parameters.values,
      )
    : await readSplit<BlockedBar>(snapshot, ...rollupHours(snapshot, period, keys, span, select))
  const blocked = new Map<string, number>()
  for (const row of rows) {
    const place = `${row.bar * barMs} ${row.key}`
    blocked.set(place, (blocked.get(place) ?? 0) + row.blocked)
  }
  return offenders.map((offender) => ({
    ...offender,
    bar_ms: barMs,
    bars: starts.map((start_ms) => ({ start_ms, blocked: blocked.get(`${start_ms} ${offender.key}`) ?? 0 })),
  }))
}

function rankFiltered(
  { query, dialect, nowMs }: LogSnapshot,
  days: number,
  filter: ReportFilter,
  limit: number,
): Promise<Offender[]> {
  const parameters = new Parameters()
  // `allowed = false` would use the index of all refusals, where the index of a key is shorter.
  const isBlocked = `${filter.key === undefined ? 'allowed = false' : 'NOT allowed'} AND outcome <> 'denied'`
  return query<Offender>(
    `SELECT key, COUNT(*) AS blocked_count FROM ${dialect.table('rate_limit_event')}
     WHERE ${isBlocked} AND ${duringPeriod(dialect, windowFor(days, nowMs), parameters)}${filtered(filter, parameters)}
     GROUP BY key ORDER BY COUNT(*) DESC, ${dialect.bytewise('key')} LIMIT ${parameters.add(limit)}`,
    parameters.values,
  )
}

function eventHoursSql(
  { dialect }: LogSnapshot,
  period: Period,
  keys: readonly string[],
  filter: ReportFilter,
  parameters: Parameters,
): string {
  return `SELECT key, ${dialect.toMinute('"timestamp"')} / ${HOUR_SPAN} AS hour, 1 AS blocked
    FROM ${dialect.table('rate_limit_event')} WHERE NOT allowed AND outcome <> 'denied' AND ${dialect.isOneOf('key', parameters.add(JSON.stringify(keys)), 'text')}
      AND ${duringPeriod(dialect, period, parameters)}${filtered(filter, parameters)}`
}

function rollupHours(
  snapshot: LogSnapshot,
  period: Period,
  keys: readonly string[],
  span: 60 | 1440,
  select: SplitQueries['select'],
): [SplitPeriod, SplitQueries] {
  const { dialect, sums } = snapshot
  const split = splitPeriod(period, { ...sums, longest: span })
  const offenders = JSON.stringify(keys)
  return [
    split,
    {
      select,
      buckets: (ranges, parameters) =>
        ranges.map(
          (range) =>
            `SELECT key, bucket * span / ${HOUR_SPAN} AS hour, blocked FROM ${dialect.table('rate_limit_blocked_rollup')}
             WHERE span = ${range.span} AND ${oneByOne(dialect, 'bucket', range, parameters)}
               AND ${dialect.isOneOf('key', parameters.add(offenders), 'text')}`,
        ),
      // An expression, for which no planner uses the index on the key: these events are few, and an offender has many.
      events: (parameters) =>
        loggedRanges(snapshot, split, parameters, true).map(
          ({ where, sign }) =>
            `SELECT key, ${dialect.toMinute('"timestamp"')} / ${HOUR_SPAN} AS hour, ${sign} AS blocked
             FROM ${dialect.table('rate_limit_event')}
             WHERE ${where} AND ${dialect.isOneOf("key || ''", parameters.add(offenders), 'text')}`,
        ),
    },
  ]
}
