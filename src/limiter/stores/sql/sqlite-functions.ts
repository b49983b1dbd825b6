/** The functions that statements of this store call in SQLite. PostgreSQL has them in `migration.sql`. */
import type { SqliteFunctions } from '../../../database/dialect.js'
import type { Policy } from '../../algorithm.js'
import { WINDOW_CHECKS, type WindowsCounter } from '../../windows.js'
import { readNumbers } from '../numbers-text.js'
import { formatWindows, HEAD, parseWindows, SETTLE_WINDOW, WINDOW_LAYOUTS, type WindowLayout } from './windows-text.js'

export const SQLITE_FUNCTIONS: SqliteFunctions = {
  module: 'src/limiter/stores/sql/sqlite-functions',
  register(database) {
    for (const [name, layout] of Object.entries(WINDOW_LAYOUTS)) database.function(name, createAdvance(layout))
    database.function(SETTLE_WINDOW, settleWindow)
  },
}

/**
 * Creates the function that advances a counter: from its stored text, the text of a new counter, the number of checks, the
 * cost of each, and the time it returns the text to store.
 */
function createAdvance(layout: WindowLayout) {
  const check = WINDOW_CHECKS[layout.algorithm]
  let parsed = ''
  let policy = parsePolicy(layout, parsed)
  return (stored: string, fresh: string, checks: number, cost: number, nowMs: number): string => {
    // A batch has counters with mostly one policy.
    if (fresh !== parsed) {
      parsed = fresh
      policy = parsePolicy(layout, parsed)
    }
    // SQLite keeps bytes, too, in a column of texts.
    let counter: WindowsCounter = parseWindows(layout, String(stored)).windows
    let [admitted, isOver] = [0, false]
    while (!isOver) {
      const checked = check(counter, policy, checks === 0 ? 0 : cost, nowMs)
      counter = checked.counter
      const counts = checks > 0 && (checked.decision.allowed || layout.limit === undefined)
      if (counts) admitted++
      isOver = !counts || admitted === checks
    }
    return formatWindows(layout, admitted, counter, policy)
  }
}

/**
 * Gives back what was used of one window, and returns the text to store.
 *
 * @param size how many numbers a window has in the text
 * @param position of the number that is lowered, among those of its window
 * @param lowered by how much
 */
function settleWindow(
  stored: string,
  size: number,
  position: number,
  periodMs: number,
  startMs: number,
  lowered: number,
): string {
  const numbers = readNumbers(String(stored))
  for (let first = HEAD; first < numbers.length; first += size) {
    if (numbers[first] !== periodMs || numbers[first + 1] !== startMs) continue
    numbers[first + position] = Math.max(0, (numbers[first + position] ?? 0) - lowered)
  }
  return numbers.join(',')
}

/** Parses the policy in the text of a counter. Windows that count refused checks too have no limit there: none is needed. */
function parsePolicy(layout: WindowLayout, text: string): Policy {
  const windows = parseWindows(layout, text).windows.map((numbers) => {
    return { limit: numbers[layout.limit ?? Number.NaN] ?? 0, periodMs: numbers[0] ?? 0, period: '' }
  })
  return { algorithm: layout.algorithm, limit: 0, periodMs: 0, windows }
}
