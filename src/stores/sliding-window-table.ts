import type { Dialect } from '../db/dialect.js'
import { windowStartMs } from '../limiter/fixed-window.js'
import { checkSlidingWindow, type SlidingWindowCounter } from '../limiter/sliding-window.js'
import { admittedSql, productSql, replayChecks, sameLimitAndCost, toAdmission } from './admission.js'
import { type CounterTable, defineCounterTable, loweredSql, settlementSql } from './counter-table.js'

interface SlidingWindowRow extends SlidingWindowCounter {
  readonly key: string
  readonly cost: number
  readonly admitted: number
}

const NAME = 'rate_limit_sliding_window'

export function slidingWindowTable(dialect: Dialect): CounterTable {
  return defineCounterTable<SlidingWindowRow>({
    name: NAME,
    sql: advanceSql(dialect),
    settleSql: settleSql(dialect),
    joins: sameLimitAndCost,
    asked(group, nowMs) {
      const { limit, periodMs } = group.first.policy
      const { asked, cost, admitted } = toAdmission(group)
      return [periodMs, windowStartMs(periodMs, nowMs), admitted * cost, limit, asked, cost, admitted]
    },
    answer({ periodMs, cellStartMs, checkedMs, previous, current, cost, admitted }, group, nowMs) {
      const locked = { periodMs, cellStartMs, checkedMs, previous, current: current - admitted * cost }
      return replayChecks(checkSlidingWindow, locked, group, nowMs)
    },
  })
}

/** Returns SQL with the rules of `checkSlidingWindow`, for many counters at once. */
function advanceSql(dialect: Dialect): string {
  const field = (index: number) => dialect.jsonField(index, 'bigint')
  const expires = (cellStart: string, period: string) => dialect.fromMs(`${cellStart} + 2 * ${period}`)
  const now = dialect.fromMs('$2')
  const goesOn = 'c.period_ms = excluded.period_ms'
  const sameCell = `${goesOn} AND c.cell_start_ms >= excluded.cell_start_ms`
  const slid = `(SELECT excluded.period_ms AS period,
        CASE WHEN ${sameCell} THEN c.cell_start_ms ELSE excluded.cell_start_ms END AS cell,
        CASE WHEN ${goesOn} AND c.checked_ms > excluded.checked_ms THEN c.checked_ms ELSE excluded.checked_ms END AS checked,
        CASE WHEN ${sameCell} THEN c.previous_count
          WHEN ${goesOn} AND c.cell_start_ms + c.period_ms = excluded.cell_start_ms THEN c.current_count
          ELSE 0 END AS before_cell,
        CASE WHEN ${sameCell} THEN c.current_count ELSE 0 END AS this_cell)`
  const overlapping = `(SELECT slid.*, cell + period - checked AS overlap FROM ${slid} AS slid)`
  const used = `(SELECT product.*, this_cell + quotient + CASE WHEN remainder > 0 THEN 1 ELSE 0 END AS in_use
      FROM ${productSql(overlapping, 'before_cell', 'overlap', 'period')})`
  return `INSERT INTO ${dialect.table(NAME)} AS c
      (key, period_ms, cell_start_ms, previous_count, current_count, checked_ms, "limit", asked, cost, admitted,
       expires_at, created_at, updated_at)
    SELECT ${dialect.jsonField(0, 'text')}, ${field(1)}, ${field(2)}, 0, ${field(3)}, ${dialect.whole('$2')}, ${field(4)},
      ${field(5)}, ${field(6)}, ${field(7)}, ${expires(field(2), field(1))}, ${now}, ${now}
    FROM ${dialect.jsonRows()} WHERE ${dialect.lazily}
    ON CONFLICT (key) DO UPDATE SET
      (period_ms, cell_start_ms, previous_count, current_count, checked_ms, "limit", asked, cost, admitted,
       expires_at, updated_at) =
      (SELECT period, cell, before_cell, this_cell + granted * excluded.cost, checked, excluded."limit", excluded.asked,
        excluded.cost, granted, ${expires('cell', 'period')}, excluded.updated_at
       FROM (SELECT used.*, ${admittedSql('excluded."limit"')} AS granted FROM ${used} AS used) AS decided)
    RETURNING key, period_ms AS "periodMs", cell_start_ms AS "cellStartMs", checked_ms AS "checkedMs",
      previous_count AS "previous", current_count AS "current", cost, admitted`
}

/** Returns SQL with the rules of `settleSlidingWindow`. */
function settleSql(dialect: Dialect): string {
  const lowered = (column: string, cells: number) =>
    `${column} = CASE WHEN settled.forgotten - settled.cell_start_ms = ${cells} * settled.period
      THEN ${loweredSql(`settled.${column}`)} ELSE settled.${column} END`
  return settlementSql(dialect, NAME, {
    set: `${lowered('previous_count', 1)}, ${lowered('current_count', 2)}`,
    where: 'settled.period_ms = settled.period',
  })
}
