/** The functions that statements of this store call in SQLite. PostgreSQL has them in `migration.sql`. */
import type { SqliteFunctions } from '../../../database/dialect.js'
import type { Policy } from '../../algorithm.js'
import { emptyAtMs } from '../../bucket.js'
import { windowEndMs } from '../../period.js'
import { SETTLED_SIZE } from '../../settlement.js'
import { readBucket, settleWindows, WINDOW_CHECKS, type WindowsCounter } from '../../windows.js'
import { readNumbers, splitNumbers } from '../numbers-text.js'
import { formatWindows, parseWindows, WINDOW_LAYOUTS, type WindowLayout } from './windows-text.js'

export const SQLITE_FUNCTIONS: SqliteFunctions = {
  module: 'src/limiter/stores/sql/sqlite-functions',
  register(database) {
    for (const [name, layout] of Object.entries(WINDOW_LAYOUTS)) {
      database.function(name, createAdvance(layout))
      database.function(layout.settle, createSettle(layout))
    }
    database.function('rate_limit_buckets_last', bucketsLast)
  },
}

/**
 * Creates the function that advances a counter: from its stored text, the text of a new counter, the cost of a check (of
 * fixed windows that of all), and the time it returns the text to store.
 */
function createAdvance(layout: WindowLayout) {
  const check = WINDOW_CHECKS[layout.algorithm]
  let parsed = ''
  let policy = parsePolicy(layout, parsed)
  let asked = 0
  return (stored: string, fresh: string, cost: number, nowMs: number): string => {
    // A batch has counters with mostly one policy.
    if (fresh !== parsed) {
      parsed = fresh
      policy = parsePolicy(layout, parsed)
      asked = parseWindows(layout, parsed).admitted
    }
    // SQLite keeps bytes, too, in a column of texts.
    let counter: WindowsCounter = parseWindows(layout, String(stored)).windows
    if (asked <= 0) {
      const always = asked < 0
      return formatWindows(layout, asked, check(counter, policy, always ? cost : 0, nowMs, always).counter, policy)
    }
    const each = layout.algorithm === 'fixed_window' ? cost / asked : cost
    let [admitted, isOver] = [0, false]
    while (!isOver) {
      const checked = check(counter, policy, each, nowMs)
      counter = checked.counter
      if (checked.decision.allowed) admitted++
      isOver = !checked.decision.allowed || admitted === asked
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

/** Returns the moment until which the buckets of a stored text last. */
function bucketsLast(stored: string): number {
  const { windows } = parseWindows(WINDOW_LAYOUTS.rate_limit_buckets, stored)
  const moments = windows
    .map(readBucket)
    .map((bucket) => Math.max(bucket.checkedMs + bucket.periodMs, emptyAtMs(bucket)))
  return Math.max(...moments)
}

const NO_POLICY: Policy = { algorithm: 'fixed_window', limit: 0, periodMs: 0 }

/** Parses the policy in the text of a counter. Fixed windows reserve where they do not count in any case. */
function parsePolicy(layout: WindowLayout, text: string): Policy {
  const windows = parseWindows(layout, text).windows.map((numbers) => {
    return { limit: numbers[layout.limit] ?? 0, periodMs: numbers[0] ?? 0, period: '' }
  })
  const { algorithm } = layout
  return { algorithm, limit: 0, periodMs: 0, windows, reserves: algorithm === 'fixed_window' }
}
