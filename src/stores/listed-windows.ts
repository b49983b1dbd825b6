/** Counters whose windows stand in the column `windows`, as JSON. */
import type { Dialect } from '../db/dialect.js'
import type { WindowsCounter } from '../limiter/windows.js'

/** Reads the column. */
export function readWindows(json: string): WindowsCounter {
  const windows: unknown = JSON.parse(json)
  return Array.isArray(windows) ? windows.map((window) => (Array.isArray(window) ? window.map(Number) : [])) : []
}

/** The SQL that a statement of one window and one of several windows have in common is written in these names. */
export interface WindowNames {
  /** The row with the window as it is stored, and the one with the window as it is asked. */
  readonly stored: string
  readonly asked: string
  /** Whether there is a stored window of the asked period. */
  readonly goesOn: string
  /** Where the two rows come from. */
  readonly from: string
}

/** The names in a statement of one window. */
export const ONE_WINDOW: WindowNames = {
  stored: 'c',
  asked: 'excluded',
  goesOn: 'c.period_ms = excluded.period_ms',
  from: '',
}

/** The names in a statement of several windows, and what the sub-select that uses them begins with. */
interface SeveralWindows extends WindowNames {
  readonly withRows: string
}

/**
 * Returns the names in a statement of several windows, one row per asked window. The rows are read from JSON once:
 * otherwise every use of a column would read it again.
 *
 * @param columns the names of a window's numbers; the first is `period_ms`
 * @param only the same numbers of a row that has one window, in its own columns
 */
export function windowNames(dialect: Dialect, columns: readonly string[], only: readonly string[]): SeveralWindows {
  const read = (json: string) => {
    const fields = columns.map((column, index) => `${dialect.jsonField(index, 'bigint')} AS ${column}`)
    return `(SELECT ${fields.join(', ')} FROM ${dialect.jsonRows(json)})`
  }
  const stored = `COALESCE(c.windows, ${dialect.rowAsJson(only.join(', '))})`
  return {
    stored: 'stored',
    asked: 'asked',
    goesOn: 'stored.period_ms IS NOT NULL',
    withRows: `WITH asked AS MATERIALIZED ${read('excluded.windows')}, stored AS MATERIALIZED ${read(stored)}`,
    from: 'FROM asked LEFT JOIN stored ON stored.period_ms = asked.period_ms',
  }
}

/** Returns SQL for the column: the windows as JSON; NULL for a single one, which its own columns describe. */
export function windowsSql(dialect: Dialect, columns: string, isListed = 'COUNT(*) > 1'): string {
  return `CASE WHEN ${isListed} THEN ${dialect.rowsAsJson(columns)} END`
}
