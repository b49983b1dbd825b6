/** The tables of sliding windows, token buckets and leaky buckets: every row lists its windows. */
import type { Dialect } from '../../../database/dialect.js'
import { type Algorithm, type Decision, MAX_USED, type Policy, type Settlement, type Window } from '../../algorithm.js'
import { drainingLimit, emptyAtMs, mostUsed, TAKEN_MODULUS } from '../../bucket.js'
import { windowStartMs } from '../../period.js'
import { settledNumbers } from '../../settlement.js'
import { WINDOW_CHECKS, type WindowNumbers, writeBucket, writeSlidingWindow } from '../../windows.js'
import { type CheckGroup, joinsRate, replayChecks, toAdmission } from '../groups.js'
import {
  type AdvanceStatement,
  advanceGroups,
  byKey,
  type CounterTable,
  lockedRows,
  writesRow,
} from './counter-statements.js'
import { formatWindows, parseWindows, WINDOW_LAYOUTS, type WindowsFunction } from './windows-text.js'

type WindowsAlgorithm = Exclude<Algorithm, 'fixed_window' | 'concurrency'>

export function windowsTable(dialect: Dialect, algorithm: WindowsAlgorithm): CounterTable {
  const name = `rate_limit_${algorithm}`
  const windows: WindowsSql = {
    ...FORMS[algorithm],
    checkWindows: WINDOW_CHECKS[algorithm],
    insert: insertSql(dialect, name),
    stored: (row) => `${row}.windows`,
    cost: 'excluded.cost',
    use: 'used',
    expiry: 'expires_at',
    toInput(group, _nowMs, _lasting, expiresMs) {
      const { checkCount, cost, admitted } = toAdmission(group)
      return [Math.min(MAX_USED, Math.abs(admitted) * cost), checkCount, cost, expiresMs]
    },
  }
  const [statement, settleSql] = [windowsStatement(dialect, windows), settlementSql(dialect, name, windows)]
  return {
    name,
    joins: joinsRate,
    async advance(database, groups, nowMs, decisions) {
      await advanceGroups(database, statement, [...groups].sort(byKey), nowMs, decisions)
    },
    async settle(database, groups, nowMs) {
      await database.execute(settleSql, [settlementRows(groups), nowMs])
    },
  }
}

const SLIDING_WINDOWS: Pick<WindowsSql, 'advance' | 'open'> = {
  advance: 'rate_limit_sliding_windows',
  open({ periodMs }: Window, used: number, nowMs: number): [WindowNumbers, number] {
    const current = Math.min(MAX_USED, used)
    const cellStartMs = windowStartMs(periodMs, nowMs)
    const counter = { periodMs, cellStartMs, checkedMs: nowMs, previous: 0, current }
    return [writeSlidingWindow(counter), cellStartMs + 2 * periodMs]
  },
}

const BUCKETS: Pick<WindowsSql, 'advance' | 'open' | 'lasts'> = {
  advance: 'rate_limit_buckets',
  lasts: 'rate_limit_buckets_last',
  open(window: Window, taken: number, nowMs: number): [WindowNumbers, number] {
    const { limit, periodMs } = window
    const used = Math.min(mostUsed(window), taken)
    const drainLimit = used > 0 ? drainingLimit(limit) : limit
    const counter = { periodMs, checkedMs: nowMs, drainLimit, used, fraction: 0, taken }
    return [writeBucket(counter), Math.max(nowMs + periodMs, emptyAtMs(counter))]
  },
}

const FORMS: Readonly<Record<WindowsAlgorithm, typeof SLIDING_WINDOWS | typeof BUCKETS>> = {
  sliding_window: SLIDING_WINDOWS,
  token_bucket: BUCKETS,
  leaky_bucket: BUCKETS,
}

/** Returns SQL that inserts new counters. */
function insertSql(dialect: Dialect, name: string): string {
  const field = (index: number) => dialect.jsonField(index, 'bigint')
  const now = dialect.fromMs('$2')
  return `INSERT INTO ${dialect.table(name)} AS c (key, used, asked, cost, expires_at, created_at, updated_at, windows)
    SELECT ${dialect.jsonField(0, 'text')}, ${field(1)}, ${field(2)}, ${field(3)}, ${dialect.fromMs(field(4))}, ${now}, ${now},
      ${dialect.jsonField(5, 'bigint[]')}
    FROM ${dialect.jsonRows()} WHERE ${writesRow(dialect, name, dialect.jsonField(0, 'text'), `${field(2)} * ${field(3)}`)}`
}

/** The form in which a table stores counters that list their windows. */
export interface WindowsSql {
  /** The database's function that advances them. */
  readonly advance: WindowsFunction
  readonly checkWindows: (typeof WINDOW_CHECKS)['fixed_window']
  /** The part of the statement that inserts new rows. */
  readonly insert: string
  /** Returns SQL for the stored windows of a row. */
  readonly stored: (row: string) => string
  /** SQL for the windows to store in place of those of `settled`, from the list that a settlement leaves; the list itself unless given. */
  readonly settled?: (list: string) => string
  /** SQL for the cost that the function takes. */
  readonly cost: string
  /** The database's function for the moment until which charged windows last; that of a new counter unless given. */
  readonly lasts?: string
  /** The columns for the most that is used of any window, and for the time after which the row means nothing. */
  readonly use: string
  readonly expiry: string
  /** Returns the numbers of a window as a new counter has it, and when it means nothing any more. */
  readonly open: (window: Window, used: number, nowMs: number) => readonly [numbers: WindowNumbers, expiresMs: number]
  /**
   * Returns the statement's input for one counter, after its key and before the list of its windows.
   *
   * @param lasting the window that lasts longest, until `expiresMs`
   */
  readonly toInput: (group: CheckGroup, nowMs: number, lasting: Window, expiresMs: number) => readonly number[]
}

export interface WindowsRow {
  readonly key: string
  readonly windows: string
}

/** Returns the statement that advances counters which list their windows. */
export function windowsStatement(dialect: Dialect, table: WindowsSql): AdvanceStatement<WindowsRow> {
  return {
    sql: advanceSql(dialect, table),
    toParameters(sorted, nowMs) {
      const toInput = createInput(table, nowMs)
      return [JSON.stringify(sorted.map(([key, group]) => [key, ...toInput(group)])), nowMs]
    },
    answer: (row, group, nowMs) => decideGroup(table, row, group, nowMs),
    answerNew: (group, nowMs) => replayChecks(table.checkWindows, [], group, nowMs),
  }
}

/** Creates the function that returns the statement's input for one counter, after its key. */
function createInput({ advance, open, toInput }: WindowsSql, nowMs: number) {
  // A batch has counters with mostly one policy, and as many checks.
  let [policy, checkCount, cost]: [Policy | undefined, number, number] = [undefined, 0, 0]
  let input: readonly (number | string)[] = []
  return (group: CheckGroup): readonly (number | string)[] => {
    const { admitted, ...checks } = toAdmission(group)
    if (group.first.policy === policy && checks.checkCount === checkCount && checks.cost === cost) return input
    ;({ checkCount, cost } = checks)
    policy = group.first.policy
    const windows = policy.windows ?? [{ ...policy, period: '' }]
    let [lasting, lastMs]: [Window, number] = [policy, 0]
    const opened = windows.map((window) => {
      const [numbers, expiresMs] = open(window, Math.abs(admitted) * cost, nowMs)
      if (expiresMs > lastMs) [lasting, lastMs] = [window, expiresMs]
      return numbers
    })
    const list = formatWindows(WINDOW_LAYOUTS[advance], admitted, opened, { ...policy, windows })
    input = [...toInput(group, nowMs, lasting, lastMs), list]
    return input
  }
}

/** Decides the checks of a group from the list that the statement stored. */
function decideGroup(
  { advance, checkWindows }: WindowsSql,
  { windows }: WindowsRow,
  group: CheckGroup,
  nowMs: number,
): Decision[] {
  const layout = WINDOW_LAYOUTS[advance]
  const locked = parseWindows(layout, windows)
  const used = Math.abs(locked.admitted) * toAdmission(group).cost
  for (const numbers of locked.windows) {
    numbers[layout.use] = Math.max(0, (numbers[layout.use] ?? 0) - used)
    if (layout.taken !== undefined) {
      numbers[layout.taken] = ((numbers[layout.taken] ?? 0) - used + TAKEN_MODULUS) % TAKEN_MODULUS
    }
  }
  return replayChecks(checkWindows, locked.windows, group, nowMs)
}

/** Returns a statement that takes the counters of any policies as JSON in `$1`, and the time in `$2`. */
function advanceSql(dialect: Dialect, { advance, insert, cost, stored, use, expiry, lasts }: WindowsSql): string {
  const windows = `${dialect.table(advance)}(${stored('c')}, excluded.windows, ${cost}, ${dialect.whole('$2')})`
  const advanced = `(SELECT ${windows} AS advanced LIMIT 1) AS once`
  const [expires, known] =
    lasts === undefined
      ? [`excluded.${expiry}`, advanced]
      : [
          'lasts',
          `(SELECT advanced, CASE WHEN excluded.asked < 0 THEN ${dialect.fromMs(`${dialect.table(lasts)}(advanced)`)}
            ELSE excluded.${expiry} END AS lasts FROM ${advanced} LIMIT 1) AS known`,
        ]
  return `${insert}
    ON CONFLICT (key) DO UPDATE SET (${use}, ${expiry}, updated_at, windows) =
      (SELECT ${dialect.listFirst('advanced')},
        CASE WHEN c.${expiry} > ${expires} THEN c.${expiry} ELSE ${expires} END, excluded.updated_at, advanced
       FROM ${known})
    RETURNING key, ${dialect.listText('windows')} AS windows`
}

/** Returns a statement that gives back, from `settlementRows`, by the rules of `settleWindows`. */
export function settlementSql(
  dialect: Dialect,
  name: string,
  { advance, stored, settled = (list) => list, use }: WindowsSql,
): string {
  const became = `${dialect.table(WINDOW_LAYOUTS[advance].settle)}(${stored('settled')}, settled.returned)`
  const rows = lockedRows(dialect, name, `${dialect.jsonField(2, 'bigint[]')} AS returned`)
  return `UPDATE ${dialect.table(name)} AS c SET (${use}, windows, updated_at) =
      (SELECT ${dialect.listFirst('became')}, ${settled('became')}, ${dialect.fromMs(dialect.whole('$2'))}
       FROM (SELECT ${became} AS became LIMIT 1) AS once)
    FROM ${rows} AS settled WHERE c.key = settled.key`
}

/** Returns the input of that statement. */
export function settlementRows(groups: ReadonlyMap<string, CheckGroup<Settlement>>): string {
  const rows = [...groups].sort(byKey).map(([key, { checks }], index) => {
    return [key, index, checks.flatMap(settledNumbers).join(',')]
  })
  return JSON.stringify(rows)
}
