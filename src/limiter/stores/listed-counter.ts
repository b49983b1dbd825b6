/**
 * Counters that list their windows as numbers in the column `windows`. A function of the database advances them in the
 * statement that has locked the row: in JavaScript on SQLite, in `migration.sql` on PostgreSQL.
 *
 * There are `HEAD` numbers, then those of each window, and its limit where they lack it. What is asked has the same form,
 * with the windows as a new counter has them, so that it is stored where there is none. On SQLite, and on the way to and
 * from both databases, the numbers are a text with commas between.
 */
import type { Policy, RateAlgorithm } from '../algorithm.js'
import { WINDOW_CHECKS, type WindowsCounter } from '../windows.js'

/** The most that is used of any window, and how many checks the last statement admitted. */
const HEAD = 2

interface Form {
  readonly algorithm: RateAlgorithm
  /** The number of a window's numbers, and the positions of its use and of its limit, if that matters, among them. */
  readonly size: number
  readonly use: number
  readonly limit?: number
}

/** The functions, by the forms of the windows that they advance. */
export const LISTED_FORMS: Readonly<
  Record<'rate_limit_fixed_windows' | 'rate_limit_sliding_windows' | 'rate_limit_buckets', Form>
> = {
  rate_limit_fixed_windows: { algorithm: 'fixed_window', size: 3, use: 2 },
  rate_limit_sliding_windows: { algorithm: 'sliding_window', size: 6, use: 4, limit: 5 },
  // Leaky buckets have the same arithmetic.
  rate_limit_buckets: { algorithm: 'token_bucket', size: 5, use: 3, limit: 2 },
}

export type ListedName = keyof typeof LISTED_FORMS

/** Returns the text. */
export function writeListed(
  { size, use }: Form,
  admitted: number,
  windows: WindowsCounter,
  { windows: asked = [] }: Policy,
) {
  let most = 0
  let list = ''
  for (let index = 0; index < windows.length; index++) {
    const numbers = windows[index] ?? []
    most = Math.max(most, numbers[use] ?? 0)
    for (const number of numbers) list += `,${number}`
    if (numbers.length < size) list += `,${asked[index]?.limit}`
  }
  return `${most},${admitted}${list}`
}

/** Reads the text; no windows from what only statements of others can have written. */
export function readListed({ size }: Form, text: string): { admitted: number; windows: number[][] } {
  const numbers = readNumbers(text)
  const isWhole = (numbers.length - HEAD) % size === 0
  return { admitted: numbers[1] ?? 0, windows: isWhole ? splitNumbers(numbers, size, HEAD) : [] }
}

/** Returns the numbers of each window. */
export function splitNumbers(numbers: readonly number[], size: number, start = 0): number[][] {
  const windows: number[][] = []
  for (let index = start; index < numbers.length; index += size) windows.push(numbers.slice(index, index + size))
  return windows
}

const [BLANK, COMMA, MINUS, ZERO, NINE, BAR] = [32, 44, 45, 48, 57, 124]

/** Reads whole numbers with commas, blanks or bars between. Several times as fast as to split the text. */
export function readNumbers(text: string): number[] {
  const numbers: number[] = []
  let [number, sign] = [0, 1]
  for (let index = 0; index < text.length; index++) {
    const code = text.charCodeAt(index)
    if (code >= ZERO && code <= NINE) {
      number = number * 10 + code - ZERO
    } else if (code === COMMA || code === BLANK || code === BAR) {
      numbers.push(sign * number)
      number = 0
      sign = 1
    } else if (code === MINUS) {
      sign = -1
    }
  }
  numbers.push(sign * number)
  return numbers
}

/**
 * Creates the function of SQLite. It takes the stored text and the asked one, the number of checks, the cost of each, and
 * the time, and returns the text to store.
 */
export function createAdvance(form: Form) {
  const check = WINDOW_CHECKS[form.algorithm]
  let read = ''
  let policy = readPolicy(form, read)
  return (stored: string, asked: string, checks: number, cost: number, nowMs: number): string => {
    // Most counters of a batch are asked alike.
    if (asked !== read) {
      read = asked
      policy = readPolicy(form, read)
    }
    // SQLite keeps bytes, too, in a column of texts.
    let counter: WindowsCounter = readListed(form, String(stored)).windows
    let [admitted, isOver] = [0, false]
    while (!isOver) {
      const checked = check(counter, policy, checks === 0 ? 0 : cost, nowMs)
      counter = checked.counter
      const counts = checks > 0 && (checked.decision.allowed || form.limit === undefined)
      if (counts) admitted++
      isOver = !counts || admitted === checks
    }
    return writeListed(form, admitted, counter, policy)
  }
}

/** The database's function that gives back what was used of one window. */
export const SETTLE_WINDOW = 'rate_limit_settle_window'

/**
 * That function for SQLite. It takes the stored text, how many numbers a window has in it, which of them is lowered, the
 * window's period and start, and by how much, and returns the text to store.
 */
export function settleWindow(
  stored: string,
  size: number,
  number: number,
  periodMs: number,
  startMs: number,
  given: number,
): string {
  const numbers = readNumbers(String(stored))
  for (let first = HEAD; first < numbers.length; first += size) {
    if (numbers[first] !== periodMs || numbers[first + 1] !== startMs) continue
    numbers[first + number] = Math.max(0, (numbers[first + number] ?? 0) - given)
  }
  return numbers.join(',')
}

/** Returns the policy of a text. Of windows that count refused checks too, the limit does not matter. */
function readPolicy(form: Form, text: string): Policy {
  const windows = readListed(form, text).windows.map((numbers) => {
    return { limit: numbers[form.limit ?? Number.NaN] ?? 0, periodMs: numbers[0] ?? 0, period: '' }
  })
  return { algorithm: form.algorithm, limit: 0, periodMs: 0, windows }
}
