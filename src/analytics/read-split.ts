import { Parameters } from './filter.js'
import { type BucketRange, type SplitPeriod, splitAtPresent } from './period.js'
import { closedMinutes, type LoggedParts, type LogSnapshot, openEvents } from './window.js'

/** What is read of whole buckets, and of the events that these lack. */
export interface SplitQueries {
  buckets(ranges: readonly BucketRange[], parameters: Parameters): readonly string[]
  events(logged: LoggedParts, parameters: Parameters): readonly string[]
  /** Returns the statement that sums the rows of a sub-select. */
  select(rows: string): string
}

/** Sums a period. The statements of all hours but the present one are mostly known: one statement is left. */
export async function readSplit<Row>(snapshot: LogSnapshot, split: SplitPeriod, queries: SplitQueries): Promise<Row[]> {
  const { closed, open } = splitAtPresent(split.buckets, snapshot.nowMs)
  const read = async (create: (parameters: Parameters) => readonly string[], isClosed: boolean) => {
    const parameters = new Parameters()
    const rows = create(parameters)
    if (rows.length === 0) return []
    const sql = queries.select(rows.join(' UNION ALL '))
    return isClosed
      ? snapshot.closed.query<Row>(snapshot, sql, parameters.values)
      : snapshot.query<Row>(sql, parameters.values)
  }
  const parts = await Promise.all([
    read((parameters) => queries.buckets(closed, parameters), true),
    ...closedMinutes(snapshot, split).map((minutes) => read((parameters) => queries.events(minutes, parameters), true)),
    read(
      (parameters) => [
        // PostgreSQL refuses parameters that no statement uses.
        ...(open.length === 0 ? [] : queries.buckets(open, parameters)),
        ...queries.events(openEvents(snapshot, split), parameters),
      ],
      false,
    ),
  ])
  return parts.flat()
}
