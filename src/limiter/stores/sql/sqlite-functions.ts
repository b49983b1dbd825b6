/** The functions that statements of this store call in SQLite. PostgreSQL has them in `migration.sql`. */
import type { SqliteFunctions } from '../../../database/dialect.js'
import type { Policy } from '../../algorithm.js'
import { windowEndMs } from '../../period.js'
import { SETTLED_SIZE } from '../../settlement.js'
import { settleWindows, WINDOW_CHECKS, type WindowsCounter } from '../../windows.js'
import { readNumbers, splitNumbers } from '../numbers-text.js'
import { formatWindows, parseWindows, WINDOW_LAYOUTS, type WindowLayout } from './windows-text.js'

export const SQLITE_FUNCTIONS: SqliteFunctions = {
  module: 'src/limiter/stores/sql/sqlite-functions',
  register(database) {
    for (const [name, layout] of Object.entries(WINDOW_LAYOUTS)) {
      database.function(name, createAdvance(layout))
      database.function(layout.settle, createSettle(layout))
    }
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

/** Creates the function that gives back: from the stored text and that of `settledNumbers` it returns the text to store. */
function createSettle(layout: WindowLayout) {
  const { algorithm } = layout
  return (stored: string, settled: string): string => {
    const { admitted, windows } = parseWindows(layout, String(stored))
    let counter: WindowsCounter = windows
    for (const numbers of splitNumbers(readNumbers(settled), SETTLED_SIZE)) {
      const [cost = 0, periodMs = 0, number = 0, checkedMs = 0, limit = 0] = numbers
      const mark = algorithm === 'fixed_window' ? windowEndMs(periodMs, number) : number
      const policy = { algorithm, limit, periodMs }
      counter = settleWindows(counter, { key: '', policy, cost, marks: [mark], checkedMs })
    }
    // The limits of sliding windows stand behind their numbers.
    const settledCounter = counter.map((kept, index) => [...kept, ...(windows[index] ?? []).slice(kept.length)])
    return formatWindows(layout, admitted, settledCounter, NO_POLICY)
  }
}

const NO_POLICY: Policy = { algorithm: 'fixed_window', limit: 0, periodMs: 0 }

/** Parses the policy in the text of a counter. Windows that count refused checks too have no limit there: none is needed. */
function parsePolicy(layout: WindowLayout, text: string): Policy {
  const windows = parseWindows(layout, text).windows.map((numbers) => {
    return { limit: numbers[layout.limit ?? Number.NaN] ?? 0, periodMs: numbers[0] ?? 0, period: '' }
  })
  return { algorithm: layout.algorithm, limit: 0, periodMs: 0, windows }
}
