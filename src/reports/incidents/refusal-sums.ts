/** Reads refusals from the sums of clients, and from the events that these lack. */

import { MINUTE_MS } from '../../ground/time/clock.js'
import { CLIENT, IS_DENIED, IS_REFUSED, POLICY } from '../../log/event-sql.js'
import { CLIENTS, HOUR_SPAN, type Span } from '../../log/rollups/counting.js'
import { inRange, oneByOne, Parameters } from '../filter.js'
import { loggedEvents, readSplit, type SplitQueries, TURNED_AWAY_EVENTS } from '../logged-events.js'
import { type Period, splitPeriod } from '../period.js'
import type { LogSnapshot } from '../report.js'
import type { RefusedRow } from './incident.js'
import type { HourSpan } from './usual.js'

/** A condition of rows by their columns, which are expressions of an event or of a row of the sums. */
export type RowCondition = (columns: RefusedColumns, parameters: Parameters) => string

interface RefusedColumns {
  readonly client: string
  readonly policy: string
}

/** What a statement makes of the rows of an hour: `client`, `policy`, `refused` and `denied`. */
interface HourQuery {
  readonly select: string
  readonly end: string
  readonly condition: RowCondition
}

const SUM_COLUMNS: RefusedColumns = { client: 'client', policy: 'policy' }
const EVENT_COLUMNS: RefusedColumns = { client: `(${CLIENT})`, policy: `(${POLICY})` }
const EVENT_ROW = `${CLIENT} AS client, ${POLICY} AS policy,
  CASE WHEN ${IS_REFUSED} AND outcome <> 'unavailable' THEN 1 ELSE 0 END AS refused, CASE WHEN ${IS_DENIED} THEN 1 ELSE 0 END AS denied`
/** More clients than these are found by reading the buckets, not by looking each up in each of them. */
const MAX_LOOKUPS = 200

/** Splits whole hours or minutes: no event is read for their ends. */
function splitWhole({ sums }: LogSnapshot, span: Span, { from, to }: HourSpan) {
  const period: Period = { startMs: from * span * MINUTE_MS, endMs: to * span * MINUTE_MS }
  const minutesFrom = span === 1 ? sums.minutesFrom : Number.POSITIVE_INFINITY
  return splitPeriod(period, { dirty: sums.dirty, minutesFrom, longest: HOUR_SPAN })
}

/** Runs a query of all rows of one hour that pass a condition. */
export function readHour<Row>(snapshot: LogSnapshot, hour: number, query: HourQuery): Promise<Row[]> {
  const { dialect } = snapshot
  const split = splitWhole(snapshot, HOUR_SPAN, { from: hour, to: hour + 1 })
  const parameters = new Parameters()
  const rows = [
    ...split.buckets.map(
      (range) =>
        `SELECT client, policy, over_limit AS refused, denied FROM ${dialect.table(CLIENTS.table)}
         WHERE span = ${range.span} AND bucket = ${parameters.add(range.from)} AND ${query.condition(SUM_COLUMNS, parameters)}`,
    ),
    ...loggedEvents(snapshot, split)(parameters, TURNED_AWAY_EVENTS).map(
      ({ where }) =>
        `SELECT ${EVENT_ROW} FROM ${dialect.table('rate_limit_event')} WHERE ${where} AND ${query.condition(EVENT_COLUMNS, parameters)}`,
    ),
  ]
  if (rows.length === 0) return Promise.resolve([])
  return snapshot.query<Row>(
    `SELECT ${query.select} FROM (${rows.join(' UNION ALL ')}) AS rows ${query.end}`,
    parameters.values,
  )
}

/** Reads the refusals of some clients, or of those of a network, by hour or by minute. */
export function readRefusals(
  snapshot: LogSnapshot,
  span: 1 | 60,
  range: HourSpan,
  condition: RowCondition,
  isFew = true,
): Promise<RefusedRow[]> {
  const { dialect } = snapshot
  const split = splitWhole(snapshot, span, range)
  const queries: SplitQueries = {
    select: (rows) =>
      `SELECT at, client, policy, SUM(refused) AS refused, SUM(denied) AS denied FROM (${rows}) AS rows GROUP BY at, client, policy`,
    buckets: (ranges, parameters) =>
      ranges.map((buckets) => {
        const isWithin = isFew
          ? oneByOne(dialect, 'bucket', buckets, parameters)
          : inRange('bucket', buckets, parameters)
        return `SELECT bucket AS at, client, policy, over_limit AS refused, denied FROM ${dialect.table(CLIENTS.table)}
          WHERE span = ${buckets.span} AND ${isWithin} AND ${condition(SUM_COLUMNS, parameters)}`
      }),
    events: (logged, parameters) =>
      logged(parameters, TURNED_AWAY_EVENTS).map(
        ({ where }) =>
          `SELECT ${dialect.toMinute('"timestamp"')} / ${span} AS at, ${EVENT_ROW} FROM ${dialect.table('rate_limit_event')}
           WHERE ${where} AND ${condition(EVENT_COLUMNS, parameters)}`,
      ),
  }
  return readSplit<RefusedRow>(snapshot, split, queries).then(sumRows)
}

/** Reads the refusals of clients and of networks, whose clients it reads all. */
export async function readClients(
  snapshot: LogSnapshot,
  span: 1 | 60,
  range: HourSpan,
  { clients, networks }: { readonly clients: readonly string[]; readonly networks: readonly ClientRange[] },
): Promise<RefusedRow[]> {
  if (range.from >= range.to) return []
  const { dialect } = snapshot
  const names = JSON.stringify(clients)
  const ofClients =
    clients.length === 0
      ? []
      : await readRefusals(
          snapshot,
          span,
          range,
          ({ client }, parameters) => dialect.isOneOf(client, parameters.add(names), 'text'),
          clients.length <= MAX_LOOKUPS,
        )
  const ofNetworks: RefusedRow[] = []
  for (const { from, to, isMeant } of networks) {
    const rows = await readRefusals(snapshot, span, range, ({ client }, parameters) => {
      const name = dialect.bytewise(client)
      return `${name} >= ${parameters.add(from)} AND ${name} < ${parameters.add(to)}`
    })
    ofNetworks.push(...rows.filter(({ client }) => isMeant(client)))
  }
  return [...ofClients, ...ofNetworks]
}

/** The spellings among which the clients of a network are. */
export interface ClientRange {
  readonly from: string
  readonly to: string
  isMeant(client: string): boolean
}

/** Adds up the rows of several statements. */
function sumRows(rows: readonly RefusedRow[]): RefusedRow[] {
  const sums = new Map<string, RefusedRow>()
  for (const row of rows) {
    const key = JSON.stringify([row.at, row.client, row.policy])
    const before = sums.get(key)
    const refused = row.refused + (before?.refused ?? 0)
    sums.set(key, { ...row, refused, denied: row.denied + (before?.denied ?? 0) })
  }
  return [...sums.values()]
}
