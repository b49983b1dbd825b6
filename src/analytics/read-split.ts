import type { SqlValue } from '../db/dialect.js'
import { Parameters } from './filter.js'
import { type BucketRange, type SplitPeriod, splitAtToday } from './period.js'
import type { LogSnapshot } from './window.js'

/** What is read of the closed days, of the present one, and of the events that these lack. */
export interface SplitQueries {
  buckets(ranges: readonly BucketRange[], parameters: Parameters): readonly string[]
  events(parameters: Parameters): readonly string[]
  /** Returns the statement that sums the rows of a sub-select. */
  select(rows: string): string
}

/** Sums a period in up to three statements, of which the one of the closed days is mostly known. */
export async function readSplit<Row>(snapshot: LogSnapshot, split: SplitPeriod, queries: SplitQueries): Promise<Row[]> {
  const { closed, open } = splitAtToday(split.buckets, snapshot.nowMs)
  const read = (
    create: (parameters: Parameters) => readonly string[],
    query: (sql: string, values: readonly SqlValue[]) => Promise<readonly Row[]>,
  ) => {
    const parameters = new Parameters()
    const rows = create(parameters)
    return rows.length === 0 ? [] : query(queries.select(rows.join(' UNION ALL ')), parameters.values)
  }
  const parts = await Promise.all([
    read(
      (parameters) => queries.buckets(closed, parameters),
      (sql, values) => snapshot.closed.query<Row>(snapshot, sql, values),
    ),
    read(
      (parameters) => queries.buckets(open, parameters),
      (sql, values) => snapshot.query<Row>(sql, values),
    ),
    read(
      (parameters) => queries.events(parameters),
      (sql, values) => snapshot.query<Row>(sql, values),
    ),
  ])
  return parts.flat()
}
