/** Reads refusals from the sums of clients, and from the events that these lack. */
import { Parameters } from '../../database/list.js'
import { MINUTE_MS } from '../../ground/time/clock.js'
import { CLIENT, countedRequests, IS_DENIED, IS_REFUSED, POLICY } from '../../log/event-sql.js'
import { CLIENTS, HOUR_SPAN } from '../../log/rollups/counting.js'
import { inRange, oneByOne } from '../filter.js'
import { loggedEvents, readSplit, type SplitQueries, TURNED_AWAY_EVENTS } from '../logged-events.js'
import { type Period, splitPeriod } from '../period.js'
import type { LogSnapshot } from '../report.js'
import { networkFor, type RefusedRow } from './incident.js'
import type { HourSpan } from './usual.js'

/** A condition of rows by their columns, which are expressions of an event or of a row of the sums. */
export type RowCondition = (columns: RefusedColumns, parameters: Parameters) => string

interface RefusedColumns {
  readonly client: string
  readonly policy: string
}

/** A statement that makes `client`, `policy`, `refused` and `denied` of the rows of hours. */
interface HourQuery {
  readonly select: string
  readonly end: string
  readonly condition: RowCondition
}

const SUM_COLUMNS: RefusedColumns = { client: 'client', policy: 'policy' }
const EVENT_COLUMNS: RefusedColumns = { client: `(${CLIENT})`, policy: `(${POLICY})` }
const EVENT_ROW = `${CLIENT} AS client, ${POLICY} AS policy,
  ${countedRequests(`${IS_REFUSED} AND outcome <> 'unavailable'`)} AS refused, ${countedRequests(IS_DENIED)} AS denied`
/** The number of clients above which the buckets are read, instead of looking each up in each of them. */
const MAX_LOOKUPS = 200
/** The most hours of a statement: each may be a part of it. */
const MAX_HOURS = 200
/** The most conditions of a statement: each is a part of it, and SQLite takes 500. */
const MAX_CONDITIONS = 50

/** The unit of a range: minutes, hours, or milliseconds. The rows of milliseconds have no moment of their own. */
export type RangeUnit = 1 | 60 | 'ms'

export function unitMs(span: RangeUnit): number {
  return span === 'ms' ? 1 : span * MINUTE_MS
}

/** Splits a range. Only one of milliseconds has ends whose events are read: those of a minute, where the sums have its minutes. */
function splitRange({ sums }: LogSnapshot, span: RangeUnit, { from, to }: HourSpan) {
  const period: Period = { startMs: from * unitMs(span), endMs: to * unitMs(span) }
  const minutesFrom = span === HOUR_SPAN ? Number.POSITIVE_INFINITY : sums.minutesFrom
  return splitPeriod(period, { dirty: sums.dirty, minutesFrom, longest: HOUR_SPAN, takesAway: false })
}

/** Runs a query of all rows of some hours that pass a condition: each has its hour as `at`. */
export async function readHours<Row>(
  snapshot: LogSnapshot,
  hours: readonly number[],
  query: HourQuery,
): Promise<Row[]> {
  let found: Row[] = []
  for (let start = 0; start < hours.length; start += MAX_HOURS) {
    const parameters = new Parameters()
    const rows = hourRows(snapshot, hours.slice(start, start + MAX_HOURS), query, parameters)
    const sql = `SELECT ${query.select} FROM (${rows.join(' UNION ALL ')}) AS rows ${query.end}`
    if (rows.length > 0) found = found.concat(await snapshot.query<Row>(sql, parameters.values))
  }
  return found
}

/** Creates the queries of the rows of some hours: one of their sums, and one of the events of each that these lack. */
function hourRows(
  snapshot: LogSnapshot,
  hours: readonly number[],
  { condition }: HourQuery,
  parameters: Parameters,
): string[] {
  const { dialect } = snapshot
  const splits = hours.map((hour) => ({ hour, split: splitRange(snapshot, HOUR_SPAN, { from: hour, to: hour + 1 }) }))
  const summed = splits.flatMap(({ hour, split }) => (split.buckets.length > 0 ? [hour] : []))
  const buckets = () =>
    `SELECT bucket AS at, client, policy, over_limit AS refused, denied FROM ${dialect.table(CLIENTS.table)}
     WHERE span = ${HOUR_SPAN} AND ${dialect.isOneOf('bucket', parameters.add(JSON.stringify(summed)), 'bigint')}
       AND ${condition(SUM_COLUMNS, parameters)}`
  return [
    ...(summed.length > 0 ? [buckets()] : []),
    ...splits.flatMap(({ hour, split }) =>
      loggedEvents(snapshot, split)(parameters, TURNED_AWAY_EVENTS).map(
        ({ where }) =>
          `SELECT ${hour} AS at, ${EVENT_ROW} FROM ${dialect.table('rate_limit_event')}
           WHERE ${where} AND ${condition(EVENT_COLUMNS, parameters)}`,
      ),
    ),
  ]
}

/** Reads the refusals of a policy, by hour or by minute: of each client, or of all together as those of the client "". */
export function readPolicy(
  snapshot: LogSnapshot,
  span: RangeUnit,
  range: HourSpan,
  policy: string,
  byClient: boolean,
): Promise<RefusedRow[]> {
  const isOfPolicy: RowCondition = (columns, parameters) => `${columns.policy} = ${parameters.add(policy)}`
  return readRefusals(snapshot, span, range, [isOfPolicy], { isFew: false, byClient })
}

interface RefusalOptions {
  /** Whether few rows of a bucket pass the conditions: they are looked up in each. */
  readonly isFew: boolean
  /** Whether the rows are those of each client: they are unless given. */
  readonly byClient?: boolean
}

/**
 * Reads the refusals that pass one of some conditions, which no row may pass twice, by hour or by minute. Those of an hour
 * or a minute that is not over may be several rows.
 */
async function readRefusals(
  snapshot: LogSnapshot,
  span: RangeUnit,
  range: HourSpan,
  conditions: readonly RowCondition[],
  { isFew, byClient = true }: RefusalOptions,
): Promise<RefusedRow[]> {
  if (range.from >= range.to || conditions.length === 0) return []
  const { dialect } = snapshot
  const queries: SplitQueries = {
    select: (rows) =>
      `SELECT at, ${byClient ? 'client' : "'' AS client"}, policy, SUM(refused) AS refused, SUM(denied) AS denied
       FROM (${rows}) AS rows GROUP BY at, ${byClient ? 'client, ' : ''}policy`,
    buckets: (ranges, parameters) =>
      ranges.flatMap((buckets) =>
        conditions.map((condition) => {
          const isWithin = isFew
            ? oneByOne(dialect, 'bucket', buckets, parameters)
            : inRange('bucket', buckets, parameters)
          return `SELECT bucket AS at, client, policy, over_limit AS refused, denied FROM ${dialect.table(CLIENTS.table)}
            WHERE span = ${buckets.span} AND ${isWithin} AND ${condition(SUM_COLUMNS, parameters)}`
        }),
      ),
    events: (logged, parameters) =>
      logged(parameters, TURNED_AWAY_EVENTS).map(
        ({ where }) =>
          `SELECT ${span === 'ms' ? '0' : `${dialect.toMinute('"timestamp"')} / ${span}`} AS at, ${EVENT_ROW} FROM ${dialect.table('rate_limit_event')}
           WHERE ${where} AND (${conditions.map((condition) => condition(EVENT_COLUMNS, parameters)).join(' OR ')})`,
      ),
  }
  return readSplit<RefusedRow>(snapshot, splitRange(snapshot, span, range), queries)
}

/** Reads the refusals of clients and of networks, whose clients it reads all. */
export async function readClients(
  snapshot: LogSnapshot,
  span: RangeUnit,
  range: HourSpan,
  { clients, networks }: { readonly clients: readonly string[]; readonly networks: readonly ClientRange[] },
): Promise<RefusedRow[]> {
  const { dialect } = snapshot
  const ranges = widestRanges(networks)
  // The beginning of a network's spelling is read with it.
  const beginnings = new Set(ranges.map(({ from }) => from))
  const names = clients.filter((client) => !beginsWithOneOf(beginnings, client))
  const isNamed: RowCondition = ({ client }, parameters) =>
    dialect.isOneOf(client, parameters.add(JSON.stringify(names)), 'text')
  const conditions = [
    ...(names.length > 0 ? [isNamed] : []),
    ...ranges.map(
      ({ from, to }): RowCondition =>
        ({ client }, parameters) =>
          `(${dialect.bytewise(client)} >= ${parameters.add(from)} AND ${dialect.bytewise(client)} < ${parameters.add(to)})`,
    ),
  ]
  let found: RefusedRow[] = []
  for (let start = 0; start < conditions.length; start += MAX_CONDITIONS) {
    const some = conditions.slice(start, start + MAX_CONDITIONS)
    found = found.concat(await readRefusals(snapshot, span, range, some, { isFew: names.length <= MAX_LOOKUPS }))
  }
  const wanted = new Set([...clients, ...networks.map(({ network }) => network)])
  return sumRows(found.filter(({ client }) => wanted.has(client) || wanted.has(networkFor(client) ?? '')))
}

/** Returns the ranges without those that another one contains: no row is read twice. */
function widestRanges(networks: readonly ClientRange[]): ClientRange[] {
  const ranges = new Map(networks.map((network) => [network.from, network]))
  const beginnings = new Set(ranges.keys())
  return [...ranges.values()].filter(({ from }) => !beginsWithOneOf(beginnings, from.slice(0, -1)))
}

/** Looks up each beginning of a text: there may be thousands of ranges, but few characters. */
function beginsWithOneOf(beginnings: ReadonlySet<string>, text: string): boolean {
  for (let length = text.length; length > 0; length--) if (beginnings.has(text.slice(0, length))) return true
  return false
}

/** The spellings among which the clients of a network are: those that begin with `from`. */
export interface ClientRange {
  readonly network: string
  readonly from: string
  readonly to: string
}

/** Adds up the rows of several statements. */
function sumRows(rows: readonly RefusedRow[]): RefusedRow[] {
  const sums = new Map<string, RefusedRow>()
  for (const row of rows) {
    const key = `${row.at} ${row.policy.length} ${row.policy}${row.client}`
    const before = sums.get(key)
    const refused = row.refused + (before?.refused ?? 0)
    sums.set(key, { ...row, refused, denied: row.denied + (before?.denied ?? 0) })
  }
  return [...sums.values()]
}
