import type { SqlValue } from '../database/dialect.js'
import { Parameters } from '../database/list.js'
import { CLIENT, countedRequests } from '../log/event-sql.js'
import type { Sums } from '../log/rollups/sums.js'
import { splitForClients } from './client-counts.js'
import type { RankingName } from './closed-hour-cache.js'
import { inRange, oneByOne } from './filter.js'
import {
  ALL_EVENTS,
  closedMinutes,
  type LoggedEvents,
  type LoggedParts,
  loggedEvents,
  openEvents,
  REFUSED_EVENTS,
  TURNED_AWAY_EVENTS,
} from './logged-events.js'
import { type BucketRange, type Period, type SplitPeriod, splitPeriod } from './period.js'
import type { LogSnapshot } from './report.js'

/** The subject of a ranking, and its measure. Each expression is one of a rollup's columns, or of an event's. */
export interface Ranking {
  readonly name: RankingName
  readonly rollup: { readonly table: string; readonly name: string; readonly count: string }
  readonly event: { readonly name: string; readonly counted: LoggedEvents }
  /** Whether the names include the empty one. */
  readonly hasEmptyName: boolean
  split(period: Period, sums: Sums): SplitPeriod
}

/** Keys by their refusals. */
export const KEYS_BY_REFUSALS: Ranking = {
  name: 'offenders',
  rollup: { table: 'rate_limit_blocked_rollup', name: 'key', count: 'blocked' },
  event: { name: 'key', counted: REFUSED_EVENTS },
  hasEmptyName: true,
  split: splitPeriod,
}

/** Clients by what was refused them, denials too; not what no store could decide. */
export const CLIENTS_BY_REFUSALS: Ranking = {
  name: 'refused',
  rollup: { table: 'rate_limit_client_rollup', name: 'client', count: 'over_limit + denied' },
  event: { name: CLIENT, counted: TURNED_AWAY_EVENTS },
  hasEmptyName: false,
  split: splitPeriod,
}

/** Clients by all their requests. */
export const CLIENTS_BY_REQUESTS: Ranking = {
  name: 'requests',
  rollup: { table: 'rate_limit_request_rollup', name: 'client', count: 'requests' },
  event: { name: CLIENT, counted: ALL_EVENTS },
  hasEmptyName: false,
  split: splitForClients,
}

export interface Ranked {
  readonly name: string
  readonly count: number
}

/** The names with the highest counts of some buckets. */
export interface Leaders {
  /** The highest first. */
  readonly counts: ReadonlyMap<string, number>
  /** The highest count of any other name. */
  readonly others: number
}

type QueryRows = <Row extends Ranked>(sql: string, values: readonly SqlValue[]) => Promise<readonly Row[]>

/** A name of the first ones, with the highest count of any that is not among them. */
interface Leading extends Ranked {
  readonly others: number
}

/** The leaders by the rows that `ClosedHourCache` keeps, which are the same array each time. */
const LEADERS = new WeakMap<readonly Ranked[], Leaders>()

/** Counts by name, from whole buckets and from the events that these lack. */
export class RankedCounts {
  readonly split: SplitPeriod
  readonly #snapshot: LogSnapshot
  readonly #ranking: Ranking
  readonly #table: string

  constructor(snapshot: LogSnapshot, ranking: Ranking, period: Period) {
    this.split = ranking.split(period, snapshot.sums)
    this.#snapshot = snapshot
    this.#ranking = ranking
    this.#table = snapshot.dialect.table(ranking.rollup.table)
  }

  /** Returns the first names of some buckets of other hours than the present one. */
  closedLeaders(ranges: readonly BucketRange[], count: number): Promise<Leaders> {
    const { closed } = this.#snapshot
    return this.leaders(ranges, count, (sql, values) => closed.query(this.#snapshot, sql, values))
  }

  /** Returns the first names of some buckets: at most `count`, and only those that have more than the next one. */
  async leaders(
    ranges: readonly BucketRange[],
    count: number,
    query: QueryRows = this.#snapshot.query,
  ): Promise<Leaders> {
    if (ranges.length === 0) return { counts: new Map(), others: 0 }
    const parameters = new Parameters()
    // Thousands of names can share the least count: they are left out, and each row has that count.
    const rows = await query<Leading>(
      `SELECT name, count, others FROM (
         SELECT name, count, ROW_NUMBER() OVER (ORDER BY count DESC) AS rank,
           CASE WHEN COUNT(*) OVER () > ${parameters.add(count)} THEN MIN(count) OVER () ELSE 0 END AS others
         FROM (${sumByName(this.#queries(ranges, parameters))} ORDER BY SUM(count) DESC LIMIT ${parameters.add(count + 1)}) AS named
       ) AS placed WHERE rank = 1 OR count > others ORDER BY rank`,
      parameters.values,
    )
    const kept = LEADERS.get(rows)
    if (kept !== undefined) return kept
    const others = rows[0]?.others ?? 0
    const leading = rows.filter((row) => row.count > others)
    const leaders = { counts: new Map(leading.map((row) => [row.name, row.count])), others }
    LEADERS.set(rows, leaders)
    return leaders
  }

  /** Returns the counts of these names in some buckets of other hours than the present one. */
  closedForNames(names: readonly string[], ranges: readonly BucketRange[]): Promise<Map<string, number>> {
    const { closed } = this.#snapshot
    const key = JSON.stringify([this.#table, this.#ranking.rollup.count, ranges])
    return closed.count(this.#snapshot, key, names, (unknown) => this.forNames(unknown, ranges))
  }

  /** Returns the counts of these names in some buckets. */
  async forNames(names: readonly string[], ranges: readonly BucketRange[]): Promise<Map<string, number>> {
    if (names.length === 0 || ranges.length === 0) return new Map()
    const { query, dialect } = this.#snapshot
    const { name, count } = this.#ranking.rollup
    const parameters = new Parameters()
    const isOneOfThem = dialect.isOneOf(name, parameters.add(JSON.stringify(names)), 'text')
    const buckets = ranges.map(
      (range) =>
        `SELECT ${name} AS name, ${count} AS count FROM ${this.#table}
         WHERE span = ${range.span} AND ${oneByOne(dialect, 'bucket', range, parameters)} AND ${isOneOfThem}`,
    )
    return sumRanked(await query<Ranked>(sumByName(buckets), parameters.values))
  }

  /** Returns the difference between the period and its whole buckets, by name; it can be negative. */
  async rest(): Promise<Map<string, number>> {
    const { closed, query } = this.#snapshot
    const read = async (logged: LoggedParts, run: QueryRows) => {
      const parameters = new Parameters()
      const rest = this.#eventQueries(logged, parameters)
      return rest.length === 0 ? [] : run<Ranked>(sumByName(rest), parameters.values)
    }
    const parts = await Promise.all([
      ...closedMinutes(this.#snapshot, this.split).map((minutes) =>
        read(minutes, (sql, values) => closed.query(this.#snapshot, sql, values)),
      ),
      read(openEvents(this.#snapshot, this.split), query),
    ])
    return sumRanked(parts.flat())
  }

  /** Ranks all names, by reading all buckets. */
  async rankAll(limit: number, atLeast: number): Promise<Ranked[]> {
    const { query, dialect } = this.#snapshot
    const parameters = new Parameters()
    const queries = [
      ...this.#queries(this.split.buckets, parameters),
      ...this.#eventQueries(loggedEvents(this.#snapshot, this.split), parameters),
    ]
    if (queries.length === 0) return []
    return query<Ranked>(
      `${sumByName(queries)} HAVING SUM(count) >= ${parameters.add(atLeast)}
       ORDER BY SUM(count) DESC, ${dialect.bytewise('name')} LIMIT ${parameters.add(limit)}`,
      parameters.values,
    )
  }

  #queries(ranges: readonly BucketRange[], parameters: Parameters): string[] {
    const { name, count } = this.#ranking.rollup
    return ranges.map(
      (range) =>
        `SELECT ${name} AS name, ${count} AS count FROM ${this.#table}
         WHERE span = ${range.span} AND ${inRange('bucket', range, parameters)}${this.#named(name)}`,
    )
  }

  #eventQueries(logged: LoggedParts, parameters: Parameters): string[] {
    const { dialect } = this.#snapshot
    const { name, counted } = this.#ranking.event
    return logged(parameters, counted).map(
      ({ where, sign }) =>
        `SELECT ${name} AS name, ${countedRequests('true', sign)} AS count FROM ${dialect.table('rate_limit_event')} WHERE ${where}${this.#named(name)}`,
    )
  }

  #named(name: string): string {
    return this.#ranking.hasEmptyName ? '' : ` AND ${name} <> ''`
  }
}

function sumByName(queries: readonly string[]): string {
  return `SELECT name, SUM(count) AS count FROM (${queries.join(' UNION ALL ')}) AS counts GROUP BY name`
}

function sumRanked(rows: readonly Ranked[]): Map<string, number> {
  const counts = new Map<string, number>()
  for (const { name, count } of rows) counts.set(name, (counts.get(name) ?? 0) + count)
  return counts
}
