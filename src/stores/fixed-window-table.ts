import type { Dialect } from '../db/dialect.js'
import { decideFixedWindow } from '../limiter/fixed-window.js'
import { MONTH_MS, windowEndMs, windowStartMs } from '../limiter/period.js'
import { readFixedWindow, WINDOW_CHECKS, writeFixedWindow } from '../limiter/windows.js'
import { replayChecks, samePeriod } from './admission.js'
import { type CounterTable, defineCounterTable, loweredSql, settlementSql } from './counter-table.js'
import { totalCost } from './groups.js'
import { readWindows, windowNames, windowsSql } from './listed-windows.js'

interface FixedWindowRow {
  readonly key: string
  readonly count: number
  readonly startMs: number
  readonly endMs: number
  readonly windows: string | null
}

const NAME = 'rate_limit_counter'
/** The count at which a window stops counting, since an overflow of the column would fail the statement. */
const ENOUGH = Number.MAX_SAFE_INTEGER

/** Creates the table of fixed windows. Refused checks count too, so that a statement adds the sum of all costs. */
export function fixedWindowTable(dialect: Dialect): CounterTable {
  return defineCounterTable<FixedWindowRow>({
    name: NAME,
    sql: advanceSql(dialect),
    windowsSql: advanceWindowsSql(dialect),
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
    askedWindows(group, nowMs) {
      const { policy } = group.first
      const count = totalCost(group)
      const windows = (policy.windows ?? [policy]).map(({ periodMs }) => {
        const startMs = windowStartMs(periodMs, nowMs)
        return { periodMs, startMs, count, endMs: windowEndMs(periodMs, startMs) }
      })
      const startMs = Math.min(...windows.map((window) => window.startMs))
      const endMs = Math.max(...windows.map((window) => window.endMs))
      return [count, startMs, endMs, windows.map((window) => writeFixedWindow(window, window.periodMs))]
    },
    answer({ count, startMs, endMs, windows }, group, nowMs) {
      const total = totalCost(group)
      if (windows !== null || group.first.policy.windows !== undefined) {
        const stored =
          windows === null ? [writeFixedWindow({ count, startMs, endMs }, endMs - startMs)] : readWindows(windows)
        const locked = stored.map((numbers) => {
          const window = readFixedWindow(numbers)
          return writeFixedWindow({ ...window, count: window.count - total }, numbers[0] ?? 0)
        })
        return replayChecks(WINDOW_CHECKS.fixed_window, locked, group, nowMs)
      }
      let counted = count - total
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
    WHERE c.windows IS NULL
    RETURNING ${RETURNED}`
}

const RETURNED = 'key, count, window_start AS "startMs", window_end AS "endMs", windows'

/** Returns SQL that does the same for counters with several windows, or with a month. */
function advanceWindowsSql(dialect: Dialect): string {
  const field = (index: number) => dialect.jsonField(index, 'bigint')
  const now = dialect.fromMs('$2')
  const [start, end] = [dialect.toMs('c.window_start'), dialect.toMs('c.window_end')]
  const {
    withRows,
    from,
    goesOn: isKnown,
  } = windowNames(dialect, ['period_ms', 'start_ms', 'used', 'end_ms'], [`${end} - ${start}`, start, 'c.count', end])
  const goesOn = `${isKnown} AND stored.start_ms >= asked.start_ms`
  const advanced = `(SELECT asked.period_ms AS period,
        CASE WHEN ${goesOn} THEN stored.start_ms ELSE asked.start_ms END AS started,
        CASE WHEN NOT (${goesOn}) THEN asked.used WHEN stored.used >= ${ENOUGH} THEN stored.used
          ELSE stored.used + asked.used END AS total,
        CASE WHEN ${goesOn} THEN stored.end_ms ELSE asked.end_ms END AS ends ${from})`
  const isListed = `COUNT(*) > 1 OR MAX(period) = ${MONTH_MS}`
  return `INSERT INTO ${dialect.table(NAME)} AS c
      (key, count, window_start, window_end, created_at, updated_at, windows)
    SELECT ${dialect.jsonField(0, 'text')}, ${field(1)}, ${dialect.fromMs(field(2))}, ${dialect.fromMs(field(3))}, ${now},
      ${now}, ${dialect.jsonField(4, 'text')}
    FROM ${dialect.jsonRows()} WHERE ${dialect.lazily}
    ON CONFLICT (key) DO UPDATE SET (count, window_start, window_end, updated_at, windows) =
      (${withRows} SELECT MAX(total), ${dialect.fromMs('MIN(started)')}, ${dialect.fromMs('MAX(ends)')}, excluded.updated_at,
        ${windowsSql(dialect, 'period, started, total, ends', isListed)}
       FROM ${advanced} AS advanced)
    RETURNING ${RETURNED}`
}
