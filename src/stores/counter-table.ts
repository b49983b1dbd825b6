import type { Query } from '../db/dialect.js'
import type { Decision } from '../limiter/algorithm.js'
import { type CheckGroup, type Joins, placeDecisions } from './groups.js'

/** The table of one algorithm's counters. */
export interface CounterTable {
  readonly name: string
  readonly joins: Joins
  /** Advances a batch of counters, by their keys, in one statement. */
  advance(query: Query, groups: ReadonlyMap<string, CheckGroup>, nowMs: number, decisions: Decision[]): Promise<void>
}

interface TableDefinition<Row> {
  readonly name: string
  /** A statement that takes the counters as JSON in `$1`, and the time in `$2`. */
  readonly sql: string
  readonly joins: Joins
  /** Returns the statement's input for one counter, after its key. */
  readonly asked: (group: CheckGroup, nowMs: number) => readonly number[]
  /** Decides the checks of a group from the row that the statement stored. */
  readonly answer: (row: Row, group: CheckGroup, nowMs: number) => readonly Decision[]
}

export function defineCounterTable<Row extends { readonly key: string }>(
  definition: TableDefinition<Row>,
): CounterTable {
  const { name, sql, joins, asked, answer } = definition
  return {
    name,
    joins,
    async advance(query, groups, nowMs, decisions) {
      // Sorted by key, so that concurrent writers cannot deadlock.
      const rows = [...groups].sort(byKey).map(([key, group]) => [key, ...asked(group, nowMs)])
      for (const row of await query<Row>(sql, [JSON.stringify(rows), nowMs])) {
        const group = groups.get(row.key)
        if (group !== undefined) placeDecisions(group, answer(row, group, nowMs), decisions)
      }
    },
  }
}

function byKey([a]: readonly [string, unknown], [b]: readonly [string, unknown]): number {
  return a < b ? -1 : 1
}
