import { Parameters } from '../database/list.js'
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../ground/time/clock.js'
import { CLIENT, countedRequests, IS_DENIED } from '../log/event-sql.js'
import { CLIENTS } from '../log/rollups/counting.js'
import type { ClientCounts } from './client-counts.js'
import { type EventFilter, filtered, isFiltering, oneByOne } from './filter.js'
import { conditionFor, duringPeriod, readSplit, type SplitQueries, TURNED_AWAY_EVENTS } from './logged-events.js'
import { type BarLengths, type Bars, barsFor } from './over-time.js'
import { type SplitPeriod, splitPeriod } from './period.js'
import type { LogSnapshot } from './report.js'
import type { ReportWindow } from './report-window.js'

/**
 * The times when a client was refused, by a limit or a denial: without gaps, oldest first. The first bar begins at or
 * before the window.
 */
export interface RefusedOverTime {
  /** The length of a bar, in milliseconds: 1 minute, 1 hour, 1 day or 7 days, by the length of the window. */
  readonly bar_ms: number
  readonly bars: readonly (Refusals & { readonly start_ms: number })[]
}

type Refusals = Pick<ClientCounts, 'over_limit' | 'denied'>

interface RefusedBar extends Refusals {
  readonly client: string
  /** The number of bars since the epoch. */
  readonly bar: number
}

/** Whole days where the chart has parts of days: each hour of each client would be a lookup of its own. */
const CLIENT_BARS: BarLengths = [
  [1 / 24, MINUTE_MS],
  [2, HOUR_MS],
  [120, DAY_MS],
]

const NONE: Refusals = { over_limit: 0, denied: 0 }

/** Reads when some clients were refused. The rollup of clients has no other fields of a request, so a filter reads the events. */
export async function readRefusedOverTime(
  snapshot: LogSnapshot,
  window: ReportWindow,
  filter: EventFilter,
  clients: readonly string[],
): Promise<ReadonlyMap<string, RefusedOverTime>> {
  if (clients.length === 0) return new Map()
  const bars = barsFor(CLIENT_BARS, window, snapshot.nowMs)
  const bar = `minute / ${bars.barMs / MINUTE_MS}`
  const select = (minutes: string) =>
    `SELECT client, ${bar} AS bar, SUM(over_limit) AS over_limit, SUM(denied) AS denied
     FROM (${minutes}) AS minutes GROUP BY client, ${bar}`
  const parameters = new Parameters()
  const rows = isFiltering(filter)
    ? await snapshot.query<RefusedBar>(
        select(eventMinutesSql(snapshot, bars, clients, filter, parameters)),
        parameters.values,
      )
    : await readSplit<RefusedBar>(snapshot, ...rollupMinutes(snapshot, bars, clients, select))
  const refused = new Map<string, Refusals>()
  for (const { client, bar, over_limit, denied } of rows) {
    const barKey = `${bar * bars.barMs} ${client}`
    const before = refused.get(barKey) ?? NONE
    refused.set(barKey, { over_limit: before.over_limit + over_limit, denied: before.denied + denied })
  }
  const overTime = (client: string): RefusedOverTime => ({
    bar_ms: bars.barMs,
    bars: bars.starts.map((start_ms) => ({ start_ms, ...(refused.get(`${start_ms} ${client}`) ?? NONE) })),
  })
  return new Map(clients.map((client) => [client, overTime(client)]))
}

function eventMinutesSql(
  { dialect }: LogSnapshot,
  { period }: Bars,
  clients: readonly string[],
  filter: EventFilter,
  parameters: Parameters,
): string {
  return `SELECT ${CLIENT} AS client, ${dialect.toMinute('"timestamp"')} AS minute, ${eventRefusals(1)}
    FROM ${dialect.table('rate_limit_event')}
    WHERE ${conditionFor(TURNED_AWAY_EVENTS, filter)} AND ${dialect.isOneOf(`(${CLIENT})`, parameters.add(JSON.stringify(clients)), 'text')}
      AND ${duringPeriod(dialect, period, parameters)}${filtered(dialect, filter, parameters)}`
}

/** Returns what a refused event adds to the counts of its client, or takes away. */
function eventRefusals(sign: 1 | -1): string {
  return `${countedRequests(`NOT (${IS_DENIED})`, sign)} AS over_limit, ${countedRequests(IS_DENIED, sign)} AS denied`
}

function rollupMinutes(
  snapshot: LogSnapshot,
  { period, span }: Bars,
  clients: readonly string[],
  select: SplitQueries['select'],
): [SplitPeriod, SplitQueries] {
  const { dialect, sums } = snapshot
  const split = splitPeriod(period, { ...sums, longest: span })
  const names = JSON.stringify(clients)
  const isOneOfThem = (client: string, parameters: Parameters) => dialect.isOneOf(client, parameters.add(names), 'text')
  return [
    split,
    {
      select,
      buckets: (ranges, parameters) =>
        ranges.map(
          (range) =>
            `SELECT client, bucket * span AS minute, over_limit, denied FROM ${dialect.table(CLIENTS.table)}
             WHERE span = ${range.span} AND ${oneByOne(dialect, 'bucket', range, parameters)} AND ${isOneOfThem('client', parameters)}`,
        ),
      events: (logged, parameters) =>
        logged(parameters, TURNED_AWAY_EVENTS).map(
          ({ where, sign }) =>
            `SELECT ${CLIENT} AS client, ${dialect.toMinute('"timestamp"')} AS minute, ${eventRefusals(sign)}
             FROM ${dialect.table('rate_limit_event')} WHERE ${where} AND ${isOneOfThem(`(${CLIENT})`, parameters)}`,
        ),
    },
  ]
}
