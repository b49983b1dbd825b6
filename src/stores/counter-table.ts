import type { Dialect, Query, SqlConnection } from '../db/dialect.js'
import { type Decision, isPlain, type Settlement } from '../limiter/algorithm.js'
import type { WindowsCounter } from '../limiter/windows.js'
import { MAX_COST } from './admission.js'
import { type CheckGroup, type Joins, placeDecisions } from './groups.js'

/** The table of one algorithm's counters. */
export interface CounterTable {
  readonly name: string
  readonly joins: Joins
  /**
   * Advances a batch of counters, by their keys: in one statement those whose policies have one window, and in one those
   * whose policies list their windows.
   */
  advance(query: Query, groups: ReadonlyMap<string, CheckGroup>, nowMs: number, decisions: Decision[]): Promise<void>
  /** Settles counters, by their keys, in one statement. */
  settle(
    database: Pick<SqlConnection, 'execute'>,
    groups: ReadonlyMap<string, CheckGroup<Settlement>>,
    nowMs: number,
  ): Promise<void>
}

interface TableDefinition<Row> {
  readonly name: string
  /** A statement that takes the counters as JSON in `$1`, and the time in `$2`. It leaves out rows with `windows`. */
  readonly sql: string
  /** A statement that takes any policies in the same way, and advances any rows. */
  readonly windowsSql: string
  /** A statement that takes settlements in the same way. */
  readonly settleSql: string
  readonly joins: Joins
  /** Returns the statement's input for one counter, after its key. */
  readonly asked: (group: CheckGroup, nowMs: number) => readonly number[]
  /** Returns the input of the statement that takes any policies: its windows as a new counter has them are the last. */
  readonly askedWindows: (group: CheckGroup, nowMs: number) => readonly (number | WindowsCounter)[]
  /** Decides the checks of a group from the row that the statement stored. */
  readonly answer: (row: Row, group: CheckGroup, nowMs: number) => readonly Decision[]
}

export function defineCounterTable<Row extends { readonly key: string }>(
  definition: TableDefinition<Row>,
): CounterTable {
  const { name, sql, windowsSql, settleSql, joins, asked, askedWindows, answer } = definition
  return {
    name,
    joins,
    async advance(query, groups, nowMs, decisions) {
      async function run(statement: string, rows: readonly unknown[]): Promise<void> {
        if (rows.length === 0) return
        for (const row of await query<Row>(statement, [JSON.stringify(rows), nowMs])) {
          const group = groups.get(row.key)
          if (group !== undefined) placeDecisions(group, answer(row, group, nowMs), decisions)
        }
      }
      // Sorted by key, so that concurrent writers cannot deadlock.
      const sorted = [...groups].sort(byKey)
      const plain = sorted.filter(([, { first }]) => isPlain(first.policy))
      const listed = sorted.filter(([, { first }]) => !isPlain(first.policy))
      const plainRows = plain.map(([key, group]) => [key, ...asked(group, nowMs)])
      const toRow = ([key, group]: (typeof sorted)[number]) => [key, ...askedWindows(group, nowMs)]
      await Promise.all([run(sql, plainRows), run(windowsSql, listed.map(toRow))])
      // Those with one window now, whose row has several from before.
      const left = plain.filter(([, { places }]) => places.some((place) => decisions[place] === undefined))
      await run(windowsSql, left.map(toRow))
    },
    async settle(database, groups, nowMs) {
      const rows = [...groups].sort(byKey).map(([key, { first }]) => {
        const { policy, cost, forgottenAtMs } = first
        return [key, policy.periodMs, policy.limit, Math.min(cost, MAX_COST), forgottenAtMs]
      })
      await database.execute(settleSql, [JSON.stringify(rows), nowMs])
    },
  }
}

function byKey([a]: readonly [string, unknown], [b]: readonly [string, unknown]): number {
  return a < b ? -1 : 1
}

/** The SQL in which the settlements of one table differ. */
interface SettlementSql {
  /** Returns a subquery with all columns of `rows`, and more. */
  readonly read?: (rows: string) => string
  /** The assignments, from the columns of `settled`. */
  readonly set: string
  /** Whether the counter still knows the use. */
  readonly where: string
}

/**
 * Returns a statement that settles counters. The table `settled` has the columns of the counter, and the settlement's
 * `period`, `most` (its limit), `given` and `forgotten`. Rows are locked in the order of keys, as other writers do.
 */
export function settlementSql(dialect: Dialect, name: string, { read = String, set, where }: SettlementSql): string {
  const field = (index: number) => dialect.jsonField(index, 'bigint')
  const rows = `(SELECT locked.*, ${field(1)} AS period, ${field(2)} AS most, ${field(3)} AS given,
        ${field(4)} AS forgotten
      FROM ${dialect.jsonRows()} JOIN ${dialect.table(name)} AS locked ON locked.key = ${dialect.jsonField(0, 'text')}
      WHERE ${dialect.lazily} ORDER BY ${dialect.bytewise('locked.key')} ${dialect.lockRows})`
  return `UPDATE ${dialect.table(name)} AS c SET ${set}, updated_at = ${dialect.fromMs(dialect.whole('$2'))}
    FROM ${read(rows)} AS settled WHERE c.key = settled.key AND ${where}`
}

/** Returns SQL for what is left of a column that a settlement lowers. */
export function loweredSql(column: string, by = 'settled.given'): string {
  return `CASE WHEN ${column} > ${by} THEN ${column} - ${by} ELSE 0 END`
}
