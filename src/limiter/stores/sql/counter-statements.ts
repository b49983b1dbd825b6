/** The interface of a table of counters, and the statements that the tables share. */
import type { Dialect, SqlConnection, SqlValue } from '../../../database/dialect.js'
import type { Decision, Settlement } from '../../algorithm.js'
import { assignDecisions, type CheckGroup, type Joins } from '../groups.js'

/** The table of one algorithm's counters. */
export interface CounterTable {
  readonly name: string
  readonly joins: Joins
  /** Advances a batch of counters, by their keys. */
  advance(
    database: Pick<SqlConnection, 'query' | 'execute'>,
    groups: ReadonlyMap<string, CheckGroup>,
    nowMs: number,
    decisions: Decision[],
  ): Promise<void>
  /** Settles counters, by their keys, in one statement. */
  settle(
    database: Pick<SqlConnection, 'execute'>,
    groups: ReadonlyMap<string, CheckGroup<Settlement>>,
    nowMs: number,
  ): Promise<void>
}

export type KeyedGroup = readonly [string, CheckGroup]

/** A statement that advances counters. */
export interface AdvanceStatement<Row> {
  readonly sql: string
  /** Returns the parameters for counters that are sorted by their keys. */
  readonly toParameters: (sorted: readonly KeyedGroup[], nowMs: number) => readonly SqlValue[]
  /** Decides the checks of a group from the row that the statement stored. */
  readonly answer: (row: Row, group: CheckGroup, nowMs: number) => readonly Decision[]
  /** Decides the checks of a group without a row, which take nothing; undefined where another statement may have their row. */
  readonly answerNew?: (group: CheckGroup, nowMs: number) => readonly Decision[]
}

/** Advances counters, sorted by their keys, by one statement, and returns its rows. */
export async function advanceGroups<Row extends { readonly key: string }>(
  database: Pick<SqlConnection, 'query'>,
  { sql, toParameters, answer, answerNew }: AdvanceStatement<Row>,
  sorted: readonly KeyedGroup[],
  nowMs: number,
  decisions: Decision[],
): Promise<Row[]> {
  if (sorted.length === 0) return []
  const groups = new Map(sorted)
  const stored = await database.query<Row>(sql, toParameters(sorted, nowMs))
  for (const row of stored) {
    const group = groups.get(row.key)
    if (group === undefined) continue
    assignDecisions(group, answer(row, group, nowMs), decisions)
    groups.delete(row.key)
  }
  if (answerNew !== undefined) {
    for (const group of groups.values()) assignDecisions(group, answerNew(group, nowMs), decisions)
  }
  return stored
}

/**
 * Returns a query for those of the counters with the keys `$1` whose rows another transaction has locked at the moment.
 */
export function lockedKeysSql(dialect: Dialect, name: string): string {
  const hasKey = `key IN (SELECT ${dialect.jsonField(0, 'text')} FROM ${dialect.jsonRows()})`
  return `WITH free AS MATERIALIZED (SELECT key FROM ${dialect.table(name)} WHERE ${hasKey} ${dialect.skipLocked})
    SELECT key FROM ${dialect.table(name)} WHERE ${hasKey} AND key NOT IN (SELECT key FROM free)`
}

/**
 * Returns the condition under which a statement writes the row of a counter: looks, which ask for nothing, create none.
 *
 * @param asked SQL for what the checks ask for; 0 for looks
 */
export function writesRow({ asynchronousCommit, table }: Dialect, name: string, key: string, asked: string): string {
  // For EXISTS, PostgreSQL may read the whole table. A subquery for a value runs for looks alone, and uses the index.
  const isThere = `(SELECT true FROM ${table(name)} AS there WHERE there.key = ${key})`
  return `${asynchronousCommit} AND (${asked} <> 0 OR ${isThere})`
}

/** Sorts counters, so that concurrent writers lock them in the same order. */
export function byKey([a]: readonly [string, unknown], [b]: readonly [string, unknown]): number {
  return a < b ? -1 : 1
}

/**
 * Returns a subquery of the rows of some keys, with more fields of the JSON in `$1`: its elements are the key, its index
 * by `byKey`, and these fields. The rows are locked in the order of their keys, as other writers do.
 */
export function lockedRows(dialect: Dialect, name: string, fields: string): string {
  return `(SELECT locked.*, ${fields}
      FROM ${dialect.jsonRows()} JOIN ${dialect.table(name)} AS locked ON locked.key = ${dialect.jsonField(0, 'text')}
      WHERE ${dialect.asynchronousCommit} ORDER BY ${dialect.jsonField(1, 'bigint')} ${dialect.lockRows})`
}
