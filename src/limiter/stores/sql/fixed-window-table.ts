/** The table of fixed windows, whose rows have columns for one window, and list several of them. */
import type { Dialect } from '../../../database/dialect.js'
import { allDone } from '../../../ground/all-done.js'
import { HOUR_MS, latestStartMs } from '../../../ground/time/clock.js'
import { isPlain } from '../../algorithm.js'
import { decideFixedWindow } from '../../fixed-window.js'
import { windowEndMs, windowStartMs } from '../../period.js'
import { WINDOW_CHECKS, writeFixedWindow } from '../../windows.js'
import { joinsRate, toAdmission, totalCost } from '../groups.js'
import {
  type AdvanceStatement,
  advanceGroups,
  byKey,
  type CounterTable,
  type KeyedGroup,
  lockedRows,
  writesRow,
} from './counter-statements.js'
import { settlementRows, settlementSql, type WindowsRow, type WindowsSql, windowsStatement } from './windows-table.js'
import { parseWindows, WINDOW_LAYOUTS } from './windows-text.js'

interface FixedWindowRow {
  readonly key: string
  readonly count: number
  readonly endMs: number
}

const NAME = 'rate_limit_counter'
/** The most lengths of windows that one statement advances. */
const MAX_PERIODS = 8
/** The count at which a window stops counting, since an overflow of the column would fail the statement. */
const ENOUGH = Number.MAX_SAFE_INTEGER

/**
 * Creates the table of fixed windows. One window, the algorithm that most limits have, is advanced without the
 * database's function, in two thirds of the time.
 */
export function fixedWindowTable(dialect: Dialect): CounterTable {
  const plainStatements = [...(dialect.writesUnchangedIndexes ? [goOnSql] : []), advanceSql].map((toSql) => {
    // By the number of periods: a batch mostly has one.
    return Array.from({ length: MAX_PERIODS }, (_, index) => createPlainStatement(toSql(dialect, index + 1)))
  })
  const windows = windowsSql(dialect)
  const severalStatement = windowsStatement(dialect, windows)
  const [plainSql, settleSql] = [makePlainSql(dialect), settlementSql(dialect, NAME, windows)]
  return {
    name: NAME,
    joins: joinsRate,
    async advance(database, groups, nowMs, decisions) {
      const sorted = [...groups].sort(byKey)
      const several = sorted.filter(([, { first }]) => !isPlain(first.policy))
      const advancePlain = async () => {
        let left = sorted.filter(([, { first }]) => isPlain(first.policy))
        for (const statements of plainStatements) {
          await allDone(
            byPeriods(left).map(async ([count, alike]) => {
              const statement = statements[count - 1]
              if (statement !== undefined) await advanceGroups(database, statement, alike, nowMs, decisions)
            }),
          )
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

/**
 * Splits counters, sorted by their keys, so that the windows of each part have few lengths. Returns the number of lengths
 * with each part.
 */
function byPeriods(sorted: readonly KeyedGroup[]): [number, readonly KeyedGroup[]][] {
  const periods = periodsOf(sorted)
  if (periods.length <= MAX_PERIODS) return periods.length === 0 ? [] : [[periods.length, sorted]]
  const some = new Set(periods.slice(0, MAX_PERIODS))
  const isAmong = ([, { first }]: KeyedGroup) => some.has(first.policy.periodMs)
  return [[MAX_PERIODS, sorted.filter(isAmong)], ...byPeriods(sorted.filter((keyed) => !isAmong(keyed)))]
}

/** Returns the lengths of the windows of some counters, each once. */
function periodsOf(groups: readonly KeyedGroup[]): number[] {
  const periods: number[] = []
  let last = 0
  for (const [, { first }] of groups) {
    const { periodMs } = first.policy
    if (periodMs !== last && !periods.includes(periodMs)) periods.push(periodMs)
    last = periodMs
  }
  return periods
}

/**
 * Refused checks count too, so that a statement adds the sum of all costs. Its input has that of each counter, times
 * `MAX_PERIODS` and with the position of its period where these are several.
 */
function createPlainStatement(sql: string): AdvanceStatement<FixedWindowRow> {
  return {
    sql,
    toParameters(sorted, nowMs) {
      const periods = periodsOf(sorted)
      const isOne = periods.length === 1
      // The members are a text, since an object moves names that look like numbers to its front.
      const costs = sorted.map(([key, group]) => {
        const cost = totalCost(group)
        const number = isOne ? cost : cost * MAX_PERIODS + periods.indexOf(group.first.policy.periodMs)
        return `${JSON.stringify(key)}:${number}`
      })
      const windows = periods.flatMap((periodMs) => {
        const startMs = windowStartMs(periodMs, nowMs)
        const window = [startMs, windowEndMs(periodMs, startMs)]
        return isOne ? [...window, latestStartMs(nowMs, periodMs)] : window
      })
      return [`{${costs.join(',')}}`, nowMs, ...windows]
    },
    answer({ count, endMs }, group, nowMs) {
      let counted = count - totalCost(group)
      return group.checks.map(({ policy, cost, charges }) => {
        counted += cost
        return decideFixedWindow(policy, counted, endMs, cost, nowMs, charges)
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
      asked: dialect.jsonField(2, 'bigint'),
      startMs: dialect.jsonField(3, 'bigint'),
      endMs: dialect.jsonField(4, 'bigint'),
      windows: dialect.jsonField(5, 'bigint[]'),
    }),
    stored(row) {
      const [start, end] = [dialect.toMs(`${row}.window_start`), dialect.toMs(`${row}.window_end`)]
      return `COALESCE(${row}.windows, ${dialect.list(['0', '0', `(${end} - ${start})`, start, `${row}.count`, '0'])})`
    },
    settled: (list) => `CASE WHEN settled.windows IS NOT NULL THEN ${list} END`,
    cost: 'excluded.count',
    use: 'count',
    expiry: 'window_end',
    open({ periodMs }, count, nowMs) {
      const startMs = windowStartMs(periodMs, nowMs)
      return [writeFixedWindow({ startMs, count }, periodMs), windowEndMs(periodMs, startMs)]
    },
    toInput(group, nowMs, { periodMs }, expiresMs) {
      const { admitted, checkCount, cost } = toAdmission(group)
      return [Math.abs(admitted) * cost, checkCount * cost, windowStartMs(periodMs, nowMs), expiresMs]
    },
  }
}

/** The values of a new counter, as expressions. */
interface NewCounter {
  readonly key: string
  readonly count: string
  readonly startMs: string
  readonly endMs: string
  /** What the checks ask for, whether it is taken or not; the count unless given. */
  readonly asked?: string
  readonly windows?: string
}

/** Returns SQL that inserts new counters, one for each row of `source`. */
function insertSql(dialect: Dialect, source: string, values: NewCounter): string {
  const { key, count, startMs, endMs, asked = count, windows = 'NULL' } = values
  const now = dialect.fromMs('$2')
  return `INSERT INTO ${dialect.table(NAME)} AS c (key, count, window_start, window_end, created_at, updated_at, windows)
    SELECT ${key}, ${count}, ${dialect.fromMs(startMs)}, ${dialect.fromMs(endMs)}, ${now}, ${now}, ${windows}
    FROM ${source} WHERE ${writesRow(dialect, NAME, key, asked)}`
}

/** Returns SQL for whether a counter's window goes on: as `latestStartMs` says, not where it begins too late. */
function goesOnSql({ fromMs }: Dialect, periods: number): string {
  const [length, hour] = ['excluded.window_end - excluded.window_start', `${fromMs(String(HOUR_MS))} - ${fromMs('0')}`]
  const latest = `${fromMs('$2')} + CASE WHEN ${length} > ${hour} THEN ${length} ELSE ${hour} END`
  return `(c.window_end - c.window_start = ${length} AND c.window_start >= excluded.window_start
      AND c.window_start <= ${periods === 1 ? fromMs('$5') : latest})`
}

const COUNTED_ON = `CASE WHEN c.count >= ${ENOUGH} THEN c.count ELSE c.count + excluded.count END`

/** Returns SQL with the rules of `advanceFixedWindow`, for many counters at once. It leaves out rows with `windows`. */
function advanceSql(dialect: Dialect, periods: number): string {
  const goesOn = goesOnSql(dialect, periods)
  return advancedSql(
    dialect,
    periods,
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
function goOnSql(dialect: Dialect, periods: number): string {
  return advancedSql(
    dialect,
    periods,
    [`count = ${COUNTED_ON}`],
    `c.windows IS NULL AND ${goesOnSql(dialect, periods)}`,
  )
}

/**
 * @param periods the number of lengths of windows: from `$3` on the parameters have the start and the end of each, and where
 * there is one its latest start
 */
function advancedSql(dialect: Dialect, periods: number, assignments: readonly string[], condition: string): string {
  const number = dialect.memberNumber
  const pick = (first: number) => {
    const choices = Array.from(
      { length: periods },
      (_, index) => `WHEN ${index} THEN ${dialect.whole(`$${first + 2 * index}`)}`,
    )
    return `CASE ${number} % ${MAX_PERIODS} ${choices.join(' ')} END`
  }
  const values =
    periods === 1
      ? { key: 'element.key', count: number, startMs: '$3', endMs: '$4' }
      : { key: 'element.key', count: `${number} / ${MAX_PERIODS}`, startMs: pick(3), endMs: pick(4) }
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
