import type { Dialect } from '../db/dialect.js'
import { windowStartMs } from '../limiter/period.js'
import type { SlidingWindowCounter } from '../limiter/sliding-window.js'
import { WINDOW_CHECKS, writeSlidingWindow } from '../limiter/windows.js'
import { admittedSql, productSql, replayChecks, sameLimitAndCost, toAdmission } from './admission.js'
import { type CounterTable, defineCounterTable, loweredSql, settlementSql } from './counter-table.js'
import { ONE_WINDOW, readWindows, type WindowNames, windowNames, windowsSql } from './listed-windows.js'

interface SlidingWindowRow extends SlidingWindowCounter {
  readonly key: string
  readonly cost: number
  readonly admitted: number
  readonly windows: string | null
}

const NAME = 'rate_limit_sliding_window'

export function slidingWindowTable(dialect: Dialect): CounterTable {
  return defineCounterTable<SlidingWindowRow>({
    name: NAME,
    sql: advanceSql(dialect),
    windowsSql: advanceWindowsSql(dialect),
    settleSql: settleSql(dialect),
    joins: sameLimitAndCost,
    asked(group, nowMs) {
      const { limit, periodMs } = group.first.policy
      const { asked, cost, admitted } = toAdmission(group)
      return [periodMs, windowStartMs(periodMs, nowMs), admitted * cost, limit, asked, cost, admitted]
    },
    askedWindows(group, nowMs) {
      const { policy } = group.first
      const { asked, cost, admitted } = toAdmission(group)
      const windows = (policy.windows ?? [policy]).map(({ limit, periodMs }) => {
        const cellStartMs = windowStartMs(periodMs, nowMs)
        const counter = { periodMs, cellStartMs, checkedMs: nowMs, previous: 0, current: admitted * cost }
        return [...writeSlidingWindow(counter), limit]
      })
      const longestMs = Math.max(...windows.map(([periodMs = 0]) => periodMs))
      return [longestMs, windowStartMs(longestMs, nowMs), admitted * cost, policy.limit, asked, cost, admitted, windows]
    },
    answer({ windows, cost, admitted, ...only }, group, nowMs) {
      const stored = windows === null ? [writeSlidingWindow(only)] : readWindows(windows)
      const locked = stored.map(([periodMs = 0, cellStartMs = 0, checkedMs = 0, previous = 0, current = 0]) =>
        writeSlidingWindow({ periodMs, cellStartMs, checkedMs, previous, current: current - admitted * cost }),
      )
      return replayChecks(WINDOW_CHECKS.sliding_window, locked, group, nowMs)
    },
  })
}

/** Returns SQL for the window as it is at the time of the check, and for what is in use of it. */
function usedSql({ stored: c, asked, goesOn, from }: WindowNames): string {
  const sameCell = `${goesOn} AND ${c}.cell_start_ms >= ${asked}.cell_start_ms`
  const slid = `(SELECT ${asked}.period_ms AS period, ${asked}."limit" AS most,
        CASE WHEN ${sameCell} THEN ${c}.cell_start_ms ELSE ${asked}.cell_start_ms END AS cell,
        CASE WHEN ${goesOn} AND ${c}.checked_ms > ${asked}.checked_ms THEN ${c}.checked_ms
          ELSE ${asked}.checked_ms END AS checked,
        CASE WHEN ${sameCell} THEN ${c}.previous_count
          WHEN ${goesOn} AND ${c}.cell_start_ms + ${c}.period_ms = ${asked}.cell_start_ms THEN ${c}.current_count
          ELSE 0 END AS before_cell,
        CASE WHEN ${sameCell} THEN ${c}.current_count ELSE 0 END AS this_cell ${from})`
  const overlapping = `(SELECT slid.*, cell + period - checked AS overlap FROM ${slid} AS slid)`
  return `(SELECT product.*, this_cell + quotient + CASE WHEN remainder > 0 THEN 1 ELSE 0 END AS in_use
      FROM ${productSql(overlapping, 'before_cell', 'overlap', 'period')})`
}

/** Returns SQL with the rules of `checkSlidingWindow`, for many counters at once. */
function advanceSql(dialect: Dialect): string {
  const field = (index: number) => dialect.jsonField(index, 'bigint')
  const expires = (cellStart: string, period: string) => dialect.fromMs(`${cellStart} + 2 * ${period}`)
  const now = dialect.fromMs('$2')
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
       FROM (SELECT used.*, ${admittedSql('most')} AS granted FROM ${usedSql(ONE_WINDOW)} AS used) AS decided)
    WHERE c.windows IS NULL
    RETURNING ${RETURNED}`
}

const RETURNED = `key, period_ms AS "periodMs", cell_start_ms AS "cellStartMs", checked_ms AS "checkedMs",
      previous_count AS "previous", current_count AS "current", cost, admitted, windows`

/** Returns SQL that does the same for counters with several windows: each admits what all of them admit. */
function advanceWindowsSql(dialect: Dialect): string {
  const field = (index: number) => dialect.jsonField(index, 'bigint')
  const expires = (cellStart: string, period: string) => dialect.fromMs(`MAX(${cellStart} + 2 * ${period})`)
  const now = dialect.fromMs('$2')
  const columns = ['period_ms', 'cell_start_ms', 'checked_ms', 'previous_count', 'current_count', '"limit"']
  const names = windowNames(
    dialect,
    columns,
    columns.map((column) => `c.${column}`),
  )
  const current = 'this_cell + granted * excluded.cost'
  const listed = `period, cell, checked, before_cell, ${current}, most`
  return `INSERT INTO ${dialect.table(NAME)} AS c
      (key, period_ms, cell_start_ms, previous_count, current_count, checked_ms, "limit", asked, cost, admitted,
       expires_at, created_at, updated_at, windows)
    SELECT ${dialect.jsonField(0, 'text')}, ${field(1)}, ${field(2)}, 0, ${field(3)}, ${dialect.whole('$2')}, ${field(4)},
      ${field(5)}, ${field(6)}, ${field(7)}, ${dialect.fromMs(`${field(2)} + 2 * ${field(1)}`)}, ${now}, ${now},
      ${dialect.jsonField(8, 'text')}
    FROM ${dialect.jsonRows()} WHERE ${dialect.lazily}
    ON CONFLICT (key) DO UPDATE SET
      (period_ms, cell_start_ms, previous_count, current_count, checked_ms, "limit", asked, cost, admitted,
       expires_at, updated_at, windows) =
      (${names.withRows} SELECT MAX(period), MAX(cell), MAX(before_cell), MAX(${current}), MAX(checked), excluded."limit", excluded.asked,
        excluded.cost, MAX(granted), ${expires('cell', 'period')}, excluded.updated_at, ${windowsSql(dialect, listed)}
       FROM (SELECT admitting.*, MIN(admits) OVER () AS granted
         FROM (SELECT used.*, ${admittedSql('most')} AS admits FROM ${usedSql(names)} AS used) AS admitting) AS decided)
    RETURNING ${RETURNED}`
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
