/** Counters whose windows stand in the column `windows`; `listed-counter.ts` has its form. */
import type { Dialect } from '../db/dialect.js'
import { LISTED_FORMS, type ListedName, readListed, SETTLE_WINDOW, writeListed } from '../db/listed-counter.js'
import type { Decision, Policy, Window } from '../limiter/algorithm.js'
import type { WindowNumbers } from '../limiter/window-numbers.js'
import type { WINDOW_CHECKS } from '../limiter/windows.js'
import { replayChecks } from './admission.js'
import type { AdvanceStatement } from './counter-table.js'
import type { CheckGroup } from './groups.js'

/** How a table stores counters that list their windows. */
export interface ListedWindows {
  /** The database's function that advances them. */
  readonly advance: ListedName
  readonly checkWindows: (typeof WINDOW_CHECKS)['fixed_window']
  /** The part of the statement that inserts new rows. */
  readonly insert: string
  /** SQL for the stored windows of a row `c`. */
  readonly stored: string
  /** SQL for the number of checks and the cost of each. */
  readonly checks: string
  /** The columns for the most that is used of any window, and for the time after which the row means nothing. */
  readonly use: string
  readonly expiry: string
  readonly toAsked: (group: CheckGroup) => { readonly asked: number; readonly cost: number; readonly admitted: number }
  /** Returns the numbers of a window as a new counter has it, and when it means nothing any more. */
  readonly open: (window: Window, used: number, nowMs: number) => readonly [numbers: WindowNumbers, expiresMs: number]
  /**
   * Returns the statement's input for one counter, after its key and before the list of its windows.
   *
   * @param lasting the window that lasts longest, until `expiresMs`
   */
  readonly toInput: (group: CheckGroup, nowMs: number, lasting: Window, expiresMs: number) => readonly number[]
}

export interface ListedRow {
  readonly key: string
  readonly windows: string
}

/** Returns the statement that advances counters which list their windows. */
export function listedStatement(dialect: Dialect, listed: ListedWindows): AdvanceStatement<ListedRow> {
  return {
    sql: listedSql(dialect, listed),
    createInput: (nowMs) => createInput(listed, nowMs),
    answer: (row, group, nowMs) => answerListed(listed, row, group, nowMs),
  }
}

function createInput({ advance, toAsked, open, toInput }: ListedWindows, nowMs: number) {
  // Most counters of a batch are asked alike.
  let [policy, asked, cost]: [Policy | undefined, number, number] = [undefined, 0, 0]
  let input: readonly (number | string)[] = []
  return (group: CheckGroup): readonly (number | string)[] => {
    const { admitted, ...checks } = toAsked(group)
    if (group.first.policy === policy && checks.asked === asked && checks.cost === cost) return input
    ;({ asked, cost } = checks)
    policy = group.first.policy
    const windows = policy.windows ?? [{ ...policy, period: '' }]
    let [lasting, lastMs]: [Window, number] = [policy, 0]
    const opened = windows.map((window) => {
      const [numbers, expiresMs] = open(window, admitted * cost, nowMs)
      if (expiresMs > lastMs) [lasting, lastMs] = [window, expiresMs]
      return numbers
    })
    const list = writeListed(LISTED_FORMS[advance], admitted, opened, { ...policy, windows })
    input = [...toInput(group, nowMs, lasting, lastMs), list]
    return input
  }
}

/** Decides the checks of a group from the list that the statement stored. */
function answerListed(
  { advance, checkWindows, toAsked }: ListedWindows,
  { windows }: ListedRow,
  group: CheckGroup,
  nowMs: number,
): Decision[] {
  const form = LISTED_FORMS[advance]
  const locked = readListed(form, windows)
  const used = locked.admitted * toAsked(group).cost
  for (const numbers of locked.windows) numbers[form.use] = (numbers[form.use] ?? 0) - used
  return replayChecks(checkWindows, locked.windows, group, nowMs)
}

/** Returns a statement that takes the counters of any policies as JSON in `$1`, and the time in `$2`. */
function listedSql(dialect: Dialect, { advance, insert, checks, stored, use, expiry }: ListedWindows): string {
  const windows = `${dialect.table(advance)}(${stored}, excluded.windows, ${checks}, ${dialect.whole('$2')})`
  return `${insert}
    ON CONFLICT (key) DO UPDATE SET (${use}, ${expiry}, updated_at, windows) =
      (SELECT ${dialect.listFirst('advanced')},
        CASE WHEN c.${expiry} > excluded.${expiry} THEN c.${expiry} ELSE excluded.${expiry} END, excluded.updated_at, advanced
       FROM (SELECT ${windows} AS advanced LIMIT 1) AS once)
    RETURNING key, ${dialect.listText('windows')} AS windows`
}

/**
 * Returns SQL for a list in which a settlement has lowered one of the numbers of the window that starts at `start`. The
 * column for the most that is used of any window keeps what the last check found.
 */
export function settledWindowSql(
  dialect: Dialect,
  advance: ListedName,
  windows: string,
  start: string,
  number: number,
): string {
  const { size } = LISTED_FORMS[advance]
  return `${dialect.table(SETTLE_WINDOW)}(${windows}, ${size}, ${number}, settled.period, ${start}, settled.given)`
}
