import type { Offender } from '../alerts/offender.js'
import type { SqlValue } from '../db/dialect.js'
import { DAY_SPAN } from '../rollups/counting.js'
import { inRange, oneByOne, Parameters } from './filter.js'
import type { BucketRange, SplitPeriod } from './period.js'
import { type LogSnapshot, loggedRanges } from './window.js'

/** The keys with the most refusals of some buckets. */
export interface Leaders {
  /** The most refused first. */
  readonly counts: ReadonlyMap<string, number>
  /** The most refusals of any other key. */
  readonly others: number
}

interface KeyCount {
  readonly key: string
  readonly blocked: number
}

type QueryLeaders = (sql: string, values: readonly SqlValue[]) => Promise<readonly KeyCount[]>

/** Counts how often each key was blocked, from whole buckets and from the events that these lack. */
export class BlockedCounts {
  readonly #snapshot: LogSnapshot
  readonly #table: string
  readonly #split: SplitPeriod

  constructor(snapshot: LogSnapshot, split: SplitPeriod) {
    this.#snapshot = snapshot
    this.#table = snapshot.dialect.table('rate_limit_blocked_rollup')
    this.#split = split
  }

  /** Returns the `count` most blocked keys of some buckets of other days than the present one. */
  closedLeaders(ranges: readonly BucketRange[], count: number): Promise<Leaders> {
    const { closed } = this.#snapshot
    return this.leaders(ranges, count, (sql, values) => closed.query(this.#snapshot, sql, values))
  }

  /** Returns the `count` most blocked keys of some buckets. */
  async leaders(
    ranges: readonly BucketRange[],
    count: number,
    query: QueryLeaders = this.#snapshot.query,
  ): Promise<Leaders> {
    const parameters = new Parameters()
    const [only] = ranges
    // The index lists the keys of one day by their refusals.
    const isDay = ranges.length === 1 && only?.span === DAY_SPAN && only.to - only.from === 1
    const sql = isDay
      ? `SELECT key, blocked FROM ${this.#table} WHERE span = ${DAY_SPAN} AND bucket = ${parameters.add(only.from)} ORDER BY blocked DESC`
      : `SELECT key, SUM(blocked) AS blocked FROM (${this.#queries(ranges, parameters).join(' UNION ALL ')}) AS buckets GROUP BY key ORDER BY SUM(blocked) DESC`
    const rows = await query(`${sql} LIMIT ${parameters.add(count + 1)}`, parameters.values)
    return {
      counts: new Map(rows.slice(0, count).map(({ key, blocked }) => [key, blocked])),
      others: rows[count]?.blocked ?? 0,
    }
  }

  /** Returns the refusals of these keys in some buckets. */
  async forKeys(keys: readonly string[], ranges: readonly BucketRange[]): Promise<Map<string, number>> {
    if (keys.length === 0 || ranges.length === 0) return new Map()
    const { query, dialect } = this.#snapshot
    const parameters = new Parameters()
    const isOneOfThem = dialect.isOneOf('key', parameters.add(JSON.stringify(keys)), 'text')
    const buckets = ranges.map(
      (range) =>
        `SELECT key, blocked FROM ${this.#table}
         WHERE span = ${range.span} AND ${oneByOne(dialect, 'bucket', range, parameters)} AND ${isOneOfThem}`,
    )
    const rows = await query<{ key: string; blocked: number }>(
      `SELECT key, SUM(blocked) AS blocked FROM (${buckets.join(' UNION ALL ')}) AS buckets GROUP BY key`,
      parameters.values,
    )
    return new Map(rows.map(({ key, blocked }) => [key, blocked]))
  }

  /** Returns the difference between the period and its whole buckets, by key; it can be negative. */
  async rest(): Promise<Map<string, number>> {
    const parameters = new Parameters()
    const rows = await this.#snapshot.query<Offender>(
      `SELECT key, SUM(blocked) AS blocked_count FROM (${this.#restSql(parameters)}) AS rest GROUP BY key`,
      parameters.values,
    )
    return new Map(rows.map(({ key, blocked_count }) => [key, blocked_count]))
  }

  /** Ranks all keys, by reading all buckets. */
  rankAll(limit: number, atLeast: number): Promise<Offender[]> {
    const { query, dialect } = this.#snapshot
    const parameters = new Parameters()
    const queries = [...this.#queries(this.#split.buckets, parameters), this.#restSql(parameters)]
    return query<Offender>(
      `SELECT key, SUM(blocked) AS blocked_count FROM (${queries.join(' UNION ALL ')}) AS blocked_counts
       GROUP BY key HAVING SUM(blocked) >= ${parameters.add(atLeast)}
       ORDER BY SUM(blocked) DESC, ${dialect.bytewise('key')} LIMIT ${parameters.add(limit)}`,
      parameters.values,
    )
  }

  #queries(ranges: readonly BucketRange[], parameters: Parameters): string[] {
    return ranges.map(
      (range) =>
        `SELECT key, blocked FROM ${this.#table} WHERE span = ${range.span} AND ${inRange('bucket', range, parameters)}`,
    )
  }

  #restSql(parameters: Parameters): string {
    const { dialect } = this.#snapshot
    return loggedRanges(this.#snapshot, this.#split, parameters, true)
      .map(
        ({ where, sign }) => `SELECT key, ${sign} AS blocked FROM ${dialect.table('rate_limit_event')} WHERE ${where}`,
      )
      .join(' UNION ALL ')
  }
}
