/** The tables of sliding windows, token buckets and leaky buckets: every row lists its windows. */
import type { Dialect } from '../db/dialect.js'
import type { Algorithm, Settlement, Window } from '../limiter/algorithm.js'
import { windowStartMs } from '../limiter/period.js'
import { type WindowNumbers, writeBucket, writeSlidingWindow } from '../limiter/window-numbers.js'
import { WINDOW_CHECKS } from '../limiter/windows.js'
import { sameLimitAndCost, toAdmission } from './admission.js'
import { advanceGroups, byKey, type CounterTable, settlementRows, settlementSql } from './counter-table.js'
import { type ListedWindows, listedStatement, settledWindowSql } from './listed-windows.js'

type ListedAlgorithm = Exclude<Algorithm, 'fixed_window' | 'concurrency'>

export function listedTable(dialect: Dialect, algorithm: ListedAlgorithm): CounterTable {
  const name = `rate_limit_${algorithm}`
  const statement = listedStatement(dialect, {
    ...(algorithm === 'sliding_window' ? SLIDING_WINDOWS : BUCKETS),
    checkWindows: WINDOW_CHECKS[algorithm],
    insert: insertSql(dialect, name),
    stored: 'c.windows',
    checks: 'excluded.asked, excluded.cost',
    use: 'used',
    expiry: 'expires_at',
    toAsked: toAdmission,
    toInput(group, _nowMs, _lasting, expiresMs) {
      const { asked, cost, admitted } = toAdmission(group)
      return [admitted * cost, asked, cost, expiresMs]
    },
  })
  const settleSql = algorithm === 'sliding_window' ? settleSlidingWindowsSql(dialect, name) : undefined
  return {
    name,
    joins: sameLimitAndCost,
    async advance(database, groups, nowMs, decisions) {
      await advanceGroups(database, statement, [...groups].sort(byKey), nowMs, decisions)
    },
    async settle(database, groups, nowMs) {
      if (settleSql !== undefined) await database.execute(settleSql, [settlementRows(groups, forgottenMs), nowMs])
    },
  }
}

const SLIDING_WINDOWS: Pick<ListedWindows, 'advance' | 'open'> = {
  advance: 'rate_limit_sliding_windows',
  open({ periodMs }: Window, current: number, nowMs: number): [WindowNumbers, number] {
    const cellStartMs = windowStartMs(periodMs, nowMs)
    const counter = { periodMs, cellStartMs, checkedMs: nowMs, previous: 0, current }
    return [writeSlidingWindow(counter), cellStartMs + 2 * periodMs]
  },
}

const BUCKETS: Pick<ListedWindows, 'advance' | 'open'> = {
  advance: 'rate_limit_buckets',
  open({ limit, periodMs }: Window, used: number, nowMs: number): [WindowNumbers, number] {
    return [writeBucket({ periodMs, checkedMs: nowMs, drainLimit: limit, used, fraction: 0 }), nowMs + periodMs]
  },
}

/** Returns SQL that inserts new counters. */
function insertSql(dialect: Dialect, name: string): string {
  const field = (index: number) => dialect.jsonField(index, 'bigint')
  const now = dialect.fromMs('$2')
  return `INSERT INTO ${dialect.table(name)} AS c (key, used, asked, cost, expires_at, created_at, updated_at, windows)
    SELECT ${dialect.jsonField(0, 'text')}, ${field(1)}, ${field(2)}, ${field(3)}, ${dialect.fromMs(field(4))}, ${now}, ${now},
      ${dialect.jsonField(5, 'bigint[]')}
    FROM ${dialect.jsonRows()} WHERE ${dialect.lazily}`
}

/** Returns SQL with the rules of `settleSlidingWindow`. */
function settleSlidingWindowsSql(dialect: Dialect, name: string): string {
  const settledWindow = (windows: string, cells: number, number: number) => {
    const cellStart = `settled.forgotten - ${cells} * settled.period`
    return settledWindowSql(dialect, 'rate_limit_sliding_windows', windows, cellStart, number)
  }
  return settlementSql(dialect, name, [`windows = ${settledWindow(settledWindow('settled.windows', 1, 3), 2, 4)}`])
}

function forgottenMs({ forgottenAtMs = 0 }: Settlement): number {
  return forgottenAtMs
}
