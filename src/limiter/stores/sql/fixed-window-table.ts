/** The table of fixed windows, whose rows have columns for one window, and list several of them. */
import type { Dialect } from '../../../database/dialect.js'
import { latestStartMs } from '../../../ground/time/clock.js'
import { isPlain } from '../../algorithm.js'
import { decideFixedWindow } from '../../fixed-window.js'
import { windowEndMs, windowStartMs } from '../../period.js'
import { WINDOW_CHECKS, writeFixedWindow } from '../../windows.js'
import { samePeriod, totalCost } from '../groups.js'
import {
  type AdvanceStatement,
  advanceGroups,
  allDone,
  byKey,
  type CounterTable,
  type KeyedGroup,
  lockedRows,
} from './counter-statements.js'
import { settlementRows, settlementSql, type WindowsRow, type WindowsSql, windowsStatement } from './windows-table.js'
import { parseWindows, WINDOW_LAYOUTS } from './windows-text.js'

interface FixedWindowRow {
  readonly key: string
  readonly count: number
  readonly endMs: number
}

const NAME = 'rate_limit_counter'
/** The count at which a window stops counting, since an overflow of the column would fail the statement. */
const ENOUGH = Number.MAX_SAFE_INTEGER

/**
 * Creates the table of fixed windows. One window, the algorithm that most limits have, is advanced without the
 * database's function, in two thirds of the time.
 */
export function fixedWindowTable(dialect: Dialect): CounterTable {
  const plainStatements = [
    ...(dialect.writesUnchangedIndexes ? [createPlainStatement(goOnSql(dialect))] : []),
    createPlainStatement(advanceSql(dialect)),
  ]
  const windows = windowsSql(dialect)
  const severalStatement = windowsStatement(dialect, windows)
  const [plainSql, settleSql] = [makePlainSql(dialect), settlementSql(dialect, NAME, windows)]
  return {
    name: NAME,
    joins: samePeriod,
    async advance(database, groups, nowMs, decisions) {
      const sorted = [...groups].sort(byKey)
      const several = sorted.filter(([, { first }]) => !isPlain(first.policy))
      const advancePlain = async () => {
        let left = sorted.filter(([, { first }]) => isPlain(first.policy))
        for (const statement of plainStatements) {
          await allDone(byPeriod(left).map((alike) => advanceGroups(database, statement, alike, nowMs, decisions)))
          left = left.filter(([, { indexes }]) => indexes.some((index) => decisions[index] === undefined))
        }
        return left
      }
      const severalAdvanced = advanceGroups(database, severalStatement, several, nowMs, decisions)
      const plainAdvanced = advancePlain()
      await allDone([plainAdvanced, severalAdvanced])
      // Counters with one window now, and several in their rows from before.
      const left = await plainAdvanced
      const stored = await advanceGroups(database, severalStatement, left, nowMs, decisions)
      if (stored.length > 0) await database.execute(plainSql, [JSON.stringify(stored.map(toPlainRow))])
    },
    async settle(database, groups, nowMs) {
      await database.execute(settleSql, [settlementRows(groups), nowMs])
    },
  }
}

/** Splits counters by the lengths of their windows, which few of a batch differ in. */
function byPeriod(sorted: readonly KeyedGroup[]): KeyedGroup[][] {
  const alike = new Map<number, KeyedGroup[]>()
  for (const keyed of sorted) {
    const { periodMs } = keyed[1].first.policy
    const others = alike.get(periodMs)
    if (others === undefined) alike.set(periodMs, [keyed])
    else others.push(keyed)
  }
  return [...alike.values()]
}

/** Refused checks count too, so that a statement adds the sum of all costs. Its counters have windows of one length. */
function createPlainStatement(sql: string): AdvanceStatement<FixedWindowRow> {
  return {
    sql,
    toParameters(sorted, nowMs) {
      const periodMs = sorted[0]?.[1].first.policy.periodMs ?? 0
      const startMs = windowStartMs(periodMs, nowMs)
      // The members are a text, since an object moves names that look like numbers to its front.
      const costs = sorted.map(([key, group]) => `${JSON.stringify(key)}:${totalCost(group)}`)
      return [`{${costs.join(',')}}`, nowMs, startMs, windowEndMs(periodMs, startMs), latestStartMs(nowMs, periodMs)]
    },
    answer({ count, endMs }, group, nowMs) {
      let counted = count - totalCost(group)
      return group.checks.map(({ policy, cost }) => {
        counted += cost
        return decideFixedWindow(policy, counted, endMs, cost, nowMs)
      })
    },
  }
}

function windowsSql(dialect: Dialect): WindowsSql {
  return {
    advance: 'rate_limit_fixed_windows',
    checkWindows: WINDOW_CHECKS.fixed_window,
    insert: insertSql(dialect, dialect.jsonRows(), {
      key: dialect.jsonField(0, 'text'),
      count: dialect.jsonField(1, 'bigint'),
      startMs: dialect.jsonField(2, 'bigint'),
      endMs: dialect.jsonField(3, 'bigint'),
      windows: dialect.jsonField(4, 'bigint[]'),
    }),
    stored(row) {
      const [start, end] = [dialect.toMs(`${row}.window_start`), dialect.toMs(`${row}.window_end`)]
      return `COALESCE(${row}.windows, ${dialect.list(['0', '0', `(${end} - ${start})`, start, `${row}.count`])})`
    },
    settled: (list) => `CASE WHEN settled.windows IS NOT NULL THEN ${list} END`,
    checks: '1, excluded.count',
    use: 'count',
    expiry: 'window_end',
    toAdmission: (group) => ({ checkCount: 1, admitted: 1, cost: totalCost(group) }),
    open({ periodMs }, count, nowMs) {
      const startMs = windowStartMs(periodMs, nowMs)
      return [writeFixedWindow({ startMs, count }, periodMs), windowEndMs(periodMs, startMs)]
    },
    toInput: (group, nowMs, { periodMs }, expiresMs) => [totalCost(group), windowStartMs(periodMs, nowMs), expiresMs],
  }
}

/** The values of a new counter, as expressions. */
interface NewCounter {
  readonly key: string
  readonly count: string
  readonly startMs: string
  readonly endMs: string
  readonly windows?: string
}

/** Returns SQL that inserts new counters, one for each row of `source`. */
function insertSql(dialect: Dialect, source: string, values: NewCounter): string {
  const { key, count, startMs, endMs, windows = 'NULL' } = values
  const now = dialect.fromMs('$2')
  return `INSERT INTO ${dialect.table(NAME)} AS c (key, count, window_start, window_end, created_at, updated_at, windows)
    SELECT ${key}, ${count}, ${dialect.fromMs(startMs)}, ${dialect.fromMs(endMs)}, ${now}, ${now}, ${windows}
    FROM ${source} WHERE ${dialect.asynchronousCommit}`
}

/** Returns SQL for whether a counter's window goes on. */
function goesOnSql({ fromMs }: Dialect): string {
  return `(c.window_end - c.window_start = excluded.window_end - excluded.window_start
      AND c.window_start >= excluded.window_start AND c.window_start <= ${fromMs('$5')})`
}

const COUNTED_ON = `CASE WHEN c.count >= ${ENOUGH} THEN c.count ELSE c.count + excluded.count END`

/** Returns SQL with the rules of `advanceFixedWindow`, for many counters at once. It leaves out rows with `windows`. */
function advanceSql(dialect: Dialect): string {
  const goesOn = goesOnSql(dialect)
  return advancedSql(
    dialect,
    [
      `count = CASE WHEN ${goesOn} THEN ${COUNTED_ON} ELSE excluded.count END`,
      `window_start = CASE WHEN ${goesOn} THEN c.window_start ELSE excluded.window_start END`,
      `window_end = CASE WHEN ${goesOn} THEN c.window_end ELSE excluded.window_end END`,
    ],
    'c.windows IS NULL',
  )
}

/**
 * Returns the same for new counters and for those whose window goes on, in three quarters of the time on SQLite. A window
 * that begins anew takes both statements, and 1.3 times as long as with one.
 */
function goOnSql(dialect: Dialect): string {
  return advancedSql(dialect, [`count = ${COUNTED_ON}`], `c.windows IS NULL AND ${goesOnSql(dialect)}`)
}

function advancedSql(dialect: Dialect, assignments: readonly string[], condition: string): string {
  const values = { key: 'element.key', count: dialect.memberNumber, startMs: '$3', endMs: '$4' }
  return `${insertSql(dialect, dialect.jsonMembers, values)}
    ON CONFLICT (key) DO UPDATE SET ${assignments.join(', ')}, updated_at = excluded.updated_at
    WHERE ${condition}
    RETURNING key, count, window_end AS "endMs"`
}

/**
 * Returns a statement that makes rows which list one window rows with columns for it, which the plain statements take. It
 * leaves out those that have been advanced since.
 */
function makePlainSql(dialect: Dialect): string {
  const field = (index: number) => dialect.jsonField(index, 'bigint')
  const fields = `${dialect.jsonField(2, 'text')} AS seen, ${field(3)} AS period, ${field(4)} AS started, ${field(5)} AS counted`
  return `UPDATE ${dialect.table(NAME)} AS c SET windows = NULL, window_start = ${dialect.fromMs('rows.started')},
      count = rows.counted, window_end = ${dialect.fromMs('rows.started + rows.period')}
    FROM ${lockedRows(dialect, NAME, fields)} AS rows
    WHERE c.key = rows.key AND ${dialect.listText('rows.windows')} = rows.seen`
}

function toPlainRow({ key, windows }: WindowsRow, index: number): readonly (number | string)[] {
  const [first = []] = parseWindows(WINDOW_LAYOUTS.rate_limit_fixed_windows, windows).windows
  return [key, index, windows, ...first]
}
