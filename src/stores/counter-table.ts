import type { Query } from '../db/dialect.js'
import type { Check, Decision } from '../limiter/algorithm.js'

/** The checks on one counter that one statement can take together, in the order of their arrival. */
export interface Group {
  readonly first: Check
  readonly checks: Check[]
  /** Where their decisions belong in the batch. */
  readonly places: number[]
}

/** What one algorithm does in the database. */
export interface CounterTable {
  readonly name: string
  /** Whether a check can go into the statement that `first`, on the same counter, is in. */
  joins(first: Check, next: Check): boolean
  /** Advances a batch of counters, by their keys, in one statement. */
  advance(query: Query, groups: ReadonlyMap<string, Group>, nowMs: number, decisions: Decision[]): Promise<void>
}

interface Definition<Row> {
  readonly name: string
  /** Takes the counters as JSON in `$1`, and now in `$2`. */
  readonly sql: string
  readonly joins: CounterTable['joins']
  /** What the statement is told of one counter, after its key. */
  readonly asked: (group: Group, nowMs: number) => readonly number[]
  /** Answers the checks of a group from what the statement left in the table. */
  readonly answer: (row: Row, group: Group, nowMs: number) => readonly Decision[]
}

export function defineCounterTable<Row extends { readonly key: string }>(definition: Definition<Row>): CounterTable {
  const { name, sql, joins, asked, answer } = definition
  return {
    name,
    joins,
    async advance(query, groups, nowMs, decisions) {
      // In the order of their keys, so that concurrent writers cannot deadlock.
      const rows = [...groups].sort(byKey).map(([key, group]) => [key, ...asked(group, nowMs)])
      for (const row of await query<Row>(sql, [JSON.stringify(rows), nowMs])) {
        const group = groups.get(row.key)
        if (group === undefined) continue
        for (const [index, decision] of answer(row, group, nowMs).entries()) {
          const place = group.places[index]
          if (place !== undefined) decisions[place] = decision
        }
      }
    },
  }
}

function byKey([a]: readonly [string, unknown], [b]: readonly [string, unknown]): number {
  return a < b ? -1 : 1
}
