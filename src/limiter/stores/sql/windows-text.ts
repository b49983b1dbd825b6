/**
 * The column `windows` lists the windows of a counter as numbers. A function of the database advances them in the
 * statement that has locked the row: in JavaScript on SQLite, in `migration.sql` on PostgreSQL.
 *
 * The list begins with `HEAD` numbers; those of each window follow, with its limit where they lack it. A statement brings
 * the list of a new counter, which is stored where there is none. An existing one admits no more checks than that. On SQLite, and on the way to and from both databases,
 * the list is a text with commas between.
 */
import type { Policy, RateAlgorithm } from '../../algorithm.js'
import type { WindowsCounter } from '../../windows.js'
import { readNumbers, splitNumbers } from '../numbers-text.js'

/**
 * The first numbers of a list: the most that is used of any window, and how many checks the last statement admitted, -1
 * where these count in any case.
 */
export const HEAD = 2

export interface WindowLayout {
  readonly algorithm: RateAlgorithm
  /** The database's function that gives back. */
  readonly settle: string
  /**
   * The number of numbers that a window has, and the positions of its use, of its limit and, if it matters, of what has been
   * taken in all among them.
   */
  readonly size: number
  readonly use: number
  readonly limit: number
  readonly taken?: number
}

/** The layouts of windows, by the database's function that advances them. */
export const WINDOW_LAYOUTS: Readonly<
  Record<'rate_limit_fixed_windows' | 'rate_limit_sliding_windows' | 'rate_limit_buckets', WindowLayout>
> = {
  rate_limit_fixed_windows: {
    algorithm: 'fixed_window',
    settle: 'rate_limit_settle_fixed_windows',
    size: 4,
    use: 2,
    limit: 3,
  },
  rate_limit_sliding_windows: {
    algorithm: 'sliding_window',
    settle: 'rate_limit_settle_sliding_windows',
    size: 6,
    use: 4,
    limit: 5,
  },
  // Leaky buckets have the same arithmetic.
  rate_limit_buckets: {
    algorithm: 'token_bucket',
    settle: 'rate_limit_settle_buckets',
    size: 6,
    use: 3,
    limit: 2,
    taken: 5,
  },
}

export type WindowsFunction = keyof typeof WINDOW_LAYOUTS

/** Formats the list of a counter. The policy has the limits. */
export function formatWindows(
  { size, use }: WindowLayout,
  admitted: number,
  windows: WindowsCounter,
  { windows: limits = [] }: Policy,
) {
  let most = 0
  let list = ''
  for (let index = 0; index < windows.length; index++) {
    const numbers = windows[index] ?? []
    most = Math.max(most, numbers[use] ?? 0)
    for (const number of numbers) list += `,${number}`
    if (numbers.length < size) list += `,${limits[index]?.limit}`
  }
  return `${most},${admitted}${list}`
}

/** Parses the list of a counter. A text that only statements of others can have written has no windows. */
export function parseWindows({ size }: WindowLayout, text: string): { admitted: number; windows: number[][] } {
  const numbers = readNumbers(text)
  const isWhole = (numbers.length - HEAD) % size === 0
  return { admitted: numbers[1] ?? 0, windows: isWhole ? splitNumbers(numbers, size, HEAD) : [] }
}
