import type { Dialect } from '../database/dialect.js'
import type { Parameters } from '../database/list.js'
import { CooperativeYield } from '../ground/time/cooperative-yield.js'
import { eventCounts, IS_DENIED, IS_REFUSED } from '../log/event-sql.js'
import { allRequests, busiest, sumTraffic, type TrafficCounts } from './breakdown.js'
import { type EventFilter, filtered, filteredSums, inRange } from './filter.js'
import { ALL_EVENTS, conditionFor, type LoggedEvents, type LoggedParts, readSplit } from './logged-events.js'
import { type BucketRange, type Period, type SplitPeriod, splitPeriod, unsplit } from './period.js'
import { report } from './registration.js'
import type { Coverage, LogSnapshot, Report } from './report.js'
import { toWindow, type WindowOptions, windowDays, windowFor } from './report-window.js'

/** Requests that have path, rule and method in common. */
export interface Traffic extends TrafficCounts {
  /** The path; empty for requests whose path had no room in a rollup. */
  readonly path: string
  /** The rule that decided; empty where none did. Of requests that another rule decided than the filter's it is any other. */
  readonly rule_name: string
  readonly method: string
}

/** All counts, and their sums. */
export const COUNTS = 'total, blocked, would_block, denied'
export const SUMS =
  'SUM(total) AS total, SUM(blocked) AS blocked, SUM(would_block) AS would_block, SUM(denied) AS denied'
const ALL_SUMS = COUNTS.split(', ')
  .map((count) => `COALESCE(SUM(${count}), 0) AS ${count}`)
  .join(', ')

/** Counts events in one expression, for which an index is enough. */
function countEvents(sign: 1 | -1): string {
  const sum = (condition: string) => `COALESCE(${sign} * SUM(weight) FILTER (WHERE ${condition}), 0)`
  return `${sum("outcome <> 'denied'")} AS total, ${sum(IS_REFUSED)} AS blocked,
    ${sum("outcome = 'over_limit' AND allowed <> false")} AS would_block, ${sum(IS_DENIED)} AS denied`
}

/** Counts what `countEvents` cannot see: the would-be refusals that others wrote, without an outcome. */
function countForeign(sign: 1 | -1): string {
  return `0, 0, COALESCE(${sign} * SUM(weight) FILTER (WHERE count > "limit"), 0), 0`
}
const FOREIGN_EVENTS: LoggedEvents = {
  during: "allowed = true AND outcome = ''",
  afterId: "allowed <> false AND outcome = ''",
}

/**
 * Reads the traffic of a period, by path, rule and method: each request once. Past hours, the present one, and events are summed
 * separately, so an entry can occur several times.
 */
export async function readTraffic(
  snapshot: LogSnapshot,
  period: Period,
  filter: EventFilter = {},
): Promise<readonly Traffic[]> {
  const columns = 'path, rule_name, method'
  // A path for which a bucket had no room cannot be subtracted from it.
  const split = splitFor(snapshot, filter, period, false)
  return readSplit<Traffic>(snapshot, split, {
    buckets: (ranges, parameters) =>
      bucketQueries(snapshot.dialect, ranges, filter, parameters, `${columns}, ${COUNTS}`),
    events: (logged, parameters) =>
      eventQueries(snapshot, logged, filter, parameters, (sign) => `${columns}, ${eventCounts(sign)}`),
    select: (traffic) => `SELECT ${columns}, ${SUMS} FROM (${traffic}) AS traffic GROUP BY ${columns}`,
  })
}

/** Counts the requests of a period, by outcome. */
export async function countTraffic(
  snapshot: LogSnapshot,
  period: Period,
  filter: EventFilter = {},
): Promise<TrafficCounts> {
  const split = splitFor(snapshot, filter, period, filter.path === undefined)
  return sumTraffic(
    await readSplit<TrafficCounts>(snapshot, split, {
      buckets: (ranges, parameters) => bucketQueries(snapshot.dialect, ranges, filter, parameters, COUNTS),
      events: (logged, parameters) => [
        ...eventQueries(snapshot, logged, filter, parameters, countEvents),
        ...eventQueries(snapshot, logged, filter, parameters, countForeign, FOREIGN_EVENTS),
      ],
      select: (traffic) => `SELECT ${ALL_SUMS} FROM (${traffic}) AS traffic`,
    }),
  )
}

/** Divides a period. A filter by key reads events only: the rollups of traffic have no keys. */
export function splitFor({ sums }: LogSnapshot, { key }: EventFilter, period: Period, takesAway: boolean): SplitPeriod {
  return key === undefined ? splitPeriod(period, { ...sums, takesAway }) : unsplit(period)
}

/**
 * Creates the queries of the whole buckets of a period. Of a rule they read also the requests to which it applied beside
 * the one that decided, as if no rule had.
 */
export function bucketQueries(
  dialect: Dialect,
  buckets: readonly BucketRange[],
  filter: EventFilter,
  parameters: Parameters,
  columns: string,
): string[] {
  const { rule, ...others } = filter
  return buckets.flatMap((range) => {
    const isInRange = () => `span = ${range.span} AND ${inRange('bucket', range, parameters)}`
    const traffic = `SELECT ${columns} FROM ${dialect.table('rate_limit_traffic_rollup')}
      WHERE ${isInRange()}${filteredSums(filter, parameters)}`
    if (rule === undefined) return [traffic]
    return [
      traffic,
      `SELECT ${columns} FROM (
         SELECT span, bucket, path, '' AS rule_name, method, total, blocked, would_block, 0 AS denied
         FROM ${dialect.table('rate_limit_rule_rollup')} WHERE rule_name = ${parameters.add(rule)}
       ) AS beside WHERE ${isInRange()}${filteredSums(others, parameters)}`,
    ]
  })
}

/** Creates the queries of the events that the buckets of a period lack, or have in excess. */
export function eventQueries(
  { dialect }: LogSnapshot,
  logged: LoggedParts,
  filter: EventFilter,
  parameters: Parameters,
  columns: (sign: 1 | -1) => string,
  events = ALL_EVENTS,
): string[] {
  return logged(parameters, { ...events, during: conditionFor(events, filter) }).map(
    ({ where, sign }) =>
      `SELECT ${columns(sign)} FROM ${dialect.table('rate_limit_event')}
       WHERE ${where}${filtered(dialect, filter, parameters)}`,
  )
}

export interface TrafficSummary extends Coverage {
  readonly days: number
  /** Requests that a limit was asked about: without the denied ones, of which no limit knows. */
  readonly total: number
  readonly allowed: number
  readonly blocked: number
  /** `blocked / total`, unrounded; 0 without traffic. */
  readonly block_rate: number
  /** Requests that the deny list, an override or a ban refused; they are in none of the other numbers. */
  readonly denied: number
}

/** Reports the number of requests, and of those refused. */
export const trafficSummary = report<WindowOptions, TrafficSummary>()({
  name: 'getSummary',
  summary: 'Sum up the requests',
  window: 1,
  answer: ({ number, counts, coverage }) => ({
    days: number,
    ...counts('total', 'allowed', 'blocked'),
    block_rate: number,
    ...counts('denied'),
    ...coverage,
  }),
  async read({ window }, snapshot) {
    const counts = await countTraffic(snapshot, windowFor(window, snapshot.nowMs))
    return { ...toSummary(windowDays(window, snapshot.nowMs), counts), ...snapshot.coverage }
  },
})

export function toSummary(
  days: number,
  { total, blocked, denied }: Pick<TrafficCounts, 'total' | 'blocked' | 'denied'>,
): TrafficSummary {
  return { days, total, allowed: total - blocked, blocked, block_rate: blockRate(blocked, total), denied }
}

export function blockRate(blocked: number, total: number): number {
  return total === 0 ? 0 : blocked / total
}

/** A path or a rule of the log, with its requests. */
export interface FoundTraffic extends TrafficCounts {
  readonly name: string
}

interface TrafficSearch {
  /** The paths, the busiest first; those for which the sums had no room are not among them. */
  readonly paths: readonly FoundTraffic[]
  /** The names of rules that decided, the busiest first, also of those that were deleted since. */
  readonly rules: readonly FoundTraffic[]
}

/**
 * Finds the paths and rules of a window whose name contains a text, in any case. The sums of the dashboard are read, so
 * the work is bounded whatever the size of the log.
 */
export function searchTraffic({ text, ...options }: WindowOptions & { readonly text: string }): Report<TrafficSearch> {
  const window = toWindow(options, 7)
  const searched = text.toLowerCase()
  return async (snapshot) => {
    const traffic = await readTraffic(snapshot, windowFor(window, snapshot.nowMs))
    const slices = new CooperativeYield()
    const find = async (nameFor: (counts: (typeof traffic)[number]) => string) => {
      await slices.pause()
      const found = traffic.filter((counts) => nameFor(counts).toLowerCase().includes(searched))
      return busiest(found, nameFor, allRequests).filter(({ name }) => name !== '')
    }
    return { paths: await find(({ path }) => path), rules: await find(({ rule_name }) => rule_name) }
  }
}
