import type { Offender } from '../alerts/offender.js'
import { inRange, Parameters } from './filter.js'
import { type BucketRange, type Period, type SplitPeriod, splitPeriod } from './period.js'
import { type LogSnapshot, loggedRanges } from './window.js'

/** Buckets of one length, each by its number. */
export interface BucketList {
  readonly span: BucketRange['span']
  readonly buckets: readonly number[]
}

/** Counts how often each key was blocked, from whole buckets and from the events that these lack. */
export class BlockedCounts {
  readonly #snapshot: LogSnapshot
  readonly #table: string
  readonly #split: SplitPeriod

  constructor(snapshot: LogSnapshot, period: Period) {
    this.#snapshot = snapshot
    this.#table = snapshot.dialect.table('rate_limit_blocked_rollup')
    this.#split = splitPeriod(period, snapshot.sums)
  }

  /** Returns the buckets of the period that the rollup has; undefined where there are more than `atMost`. */
  async buckets(atMost: number): Promise<BucketList[] | undefined> {
    const lists: BucketList[] = []
    let left = atMost
    for (const range of this.#split.buckets) {
      const list = await this.#present(range, left)
      if (list === undefined) return undefined
      left -= list.buckets.length
      lists.push(list)
    }
    return lists
  }

  async #present({ span, from, to }: BucketRange, atMost: number): Promise<BucketList | undefined> {
    const where = `FROM ${this.#table} WHERE span = ${span} AND bucket >= $1 AND bucket < $2`
    const [ends] = await this.#snapshot.query<{ first: number | null; last: number | null }>(
      `SELECT (SELECT MIN(bucket) ${where}) AS first, (SELECT MAX(bucket) ${where}) AS last`,
      [from, to],
    )
    if (ends === undefined || ends.first === null || ends.last === null) return { span, buckets: [] }
    const { first, last } = ends
    if (last - first >= atMost) return undefined
    return { span, buckets: Array.from({ length: last - first + 1 }, (_, place) => first + place) }
  }

  /** Returns the most blocked keys of each bucket. */
  async topKeys(span: BucketRange['span'], buckets: readonly number[], limit: number): Promise<string[]> {
    if (buckets.length === 0) return []
    const parameters = new Parameters()
    const placeholder = parameters.add(limit)
    const tops = buckets.map(
      (bucket) =>
        `SELECT key FROM (SELECT key FROM ${this.#table} WHERE span = ${span} AND bucket = ${parameters.add(bucket)}
         ORDER BY blocked DESC LIMIT ${placeholder}) AS bucket_top`,
    )
    const rows = await this.#snapshot.query<{ key: string }>(tops.join(' UNION '), parameters.values)
    return rows.map(({ key }) => key)
  }

  /** Returns keys that were blocked at least `atLeast` times in one bucket, up to `limit` of them. */
  async keysAtLeast({ span, buckets }: BucketList, atLeast: number, limit: number): Promise<string[]> {
    if (buckets.length === 0) return []
    const { query, dialect } = this.#snapshot
    const rows = await query<{ key: string }>(
      `SELECT DISTINCT key FROM ${this.#table}
       WHERE span = ${span} AND ${dialect.isOneOf('bucket', '$1', 'bigint')} AND blocked >= $2 LIMIT $3`,
      [JSON.stringify(buckets), atLeast, limit],
    )
    return rows.map(({ key }) => key)
  }

  /** Returns the refusals of these keys in each of these buckets. */
  forKeys(
    keys: readonly string[],
    { span, buckets }: BucketList,
  ): Promise<{ key: string; bucket: number; blocked: number }[]> {
    const { query, dialect } = this.#snapshot
    return query(
      `SELECT key, bucket, blocked FROM ${this.#table}
       WHERE span = ${span} AND ${dialect.isOneOf('bucket', '$1', 'bigint')} AND ${dialect.isOneOf('key', '$2', 'text')}`,
      [JSON.stringify(buckets), JSON.stringify(keys)],
    )
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

  /** Ranks all keys, by reading the whole rollup. */
  rankAll(limit: number, atLeast: number): Promise<Offender[]> {
    const { query, dialect } = this.#snapshot
    const parameters = new Parameters()
    const ranges = this.#split.buckets.map(
      (range) =>
        `SELECT key, blocked FROM ${this.#table}
         WHERE span = ${range.span} AND ${inRange('bucket', range, parameters)}`,
    )
    return query<Offender>(
      `SELECT key, SUM(blocked) AS blocked_count
       FROM (${[...ranges, this.#restSql(parameters)].join(' UNION ALL ')}) AS blocked_counts
       GROUP BY key HAVING SUM(blocked) >= ${parameters.add(atLeast)}
       ORDER BY SUM(blocked) DESC, ${dialect.bytewise('key')} LIMIT ${parameters.add(limit)}`,
      parameters.values,
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
