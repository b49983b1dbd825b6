import type { Dialect } from '../db/dialect.js'
import { decideFixedWindow, windowStartMs } from '../limiter/fixed-window.js'
import { samePeriod } from './admission.js'
import { type CounterTable, defineCounterTable, loweredSql, settlementSql } from './counter-table.js'
import { totalCost } from './groups.js'

interface FixedWindowRow {
  readonly key: string
  readonly count: number
  readonly endMs: number
}

const NAME = 'rate_limit_counter'
/** The count at which a window stops counting, since an overflow of the column would fail the statement. */
const ENOUGH = Number.MAX_SAFE_INTEGER

/** Creates the table of fixed windows. Refused checks count too, so that a statement adds the sum of all costs. */
export function fixedWindowTable(dialect: Dialect): CounterTable {
  return defineCounterTable<FixedWindowRow>({
    name: NAME,
    sql: advanceSql(dialect),
    settleSql: settlementSql(dialect, NAME, {
      set: `count = ${loweredSql('settled.count')}`,
      where: `settled.window_end = ${dialect.fromMs('settled.forgotten')}
        AND settled.window_start = ${dialect.fromMs('settled.forgotten - settled.period')}`,
    }),
    joins: samePeriod,
    asked(group, nowMs) {
      const { periodMs } = group.first.policy
      const startMs = windowStartMs(periodMs, nowMs)
      return [totalCost(group), startMs, startMs + periodMs]
    },
    answer({ count, endMs }, group, nowMs) {
      let counted = count - totalCost(group)
      return group.checks.map(({ policy, cost }) => {
        counted += cost
        return decideFixedWindow(policy, counted, endMs, cost, nowMs)
      })
    },
  })
}

/** Returns SQL with the rules of `advanceFixedWindow`, for many counters at once. */
function advanceSql(dialect: Dialect): string {
  const now = dialect.fromMs('$2')
  const goesOn = `(c.window_end - c.window_start = excluded.window_end - excluded.window_start
      AND c.window_start >= excluded.window_start)`
  return `INSERT INTO ${dialect.table(NAME)} AS c (key, count, window_start, window_end, created_at, updated_at)
    SELECT ${dialect.jsonField(0, 'text')}, ${dialect.jsonField(1, 'bigint')},
      ${dialect.fromMs(dialect.jsonField(2, 'bigint'))}, ${dialect.fromMs(dialect.jsonField(3, 'bigint'))}, ${now}, ${now}
    FROM ${dialect.jsonRows()} WHERE ${dialect.lazily}
    ON CONFLICT (key) DO UPDATE SET
      count = CASE WHEN NOT ${goesOn} THEN excluded.count WHEN c.count >= ${ENOUGH} THEN c.count
        ELSE c.count + excluded.count END,
      window_start = CASE WHEN ${goesOn} THEN c.window_start ELSE excluded.window_start END,
      window_end = CASE WHEN ${goesOn} THEN c.window_end ELSE excluded.window_end END,
      updated_at = excluded.updated_at
    RETURNING key, count, window_end AS "endMs"`
}
