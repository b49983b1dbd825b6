import type { SqlValue } from '../db/dialect.js'
import { DAY_MS, HOUR_MS } from '../time/clock.js'
import type { LogSnapshot } from './window.js'

/** How many keys are read: the more, the fewer lists need those below them. */
export interface LeaderSizes {
  /** Of the buckets of other days, which are read once. */
  readonly closed: number
  /** Of the present day, which every report reads. */
  readonly open: number
}

/** How long a window is kept up to date after its last report. */
const KEPT_MS = DAY_MS
/** The number of window lengths that are kept up to date. */
const MAX_WINDOWS = 8
/** A page has five, each of at most some thousand rows. */
const MAX_QUERIES = 40

interface Window {
  readonly firstHour: number
  readonly usedMs: number
}

/**
 * Keeps what was read of all days but the present one, which changes only where late events are folded, or an hour is
 * counted again.
 */
export class ClosedDays {
  readonly sizes: LeaderSizes
  /** By the statement and its parameters; the one that was not used for the longest time is the first. */
  readonly #kept = new Map<string, { readonly version: string; readonly rows: unknown[] }>()
  /** By length; the one that was not used for the longest time is the first. */
  readonly #windows = new Map<number, Window>()

  constructor(sizes: LeaderSizes = { closed: 10_000, open: 2_000 }) {
    this.sizes = sizes
  }

  /** Runs a query of whole buckets of other days than the present one, unless its rows are known. */
  async query<Row>(
    { query, sums }: LogSnapshot,
    sql: string,
    parameters: readonly SqlValue[],
  ): Promise<readonly Row[]> {
    const key = JSON.stringify([sql, parameters])
    const kept = this.#kept.get(key)
    // The statement decides the type of its rows, as with every query.
    const rows = kept?.version === sums.closedVersion ? (kept.rows as Row[]) : await query<Row>(sql, parameters)
    use(this.#kept, key, { version: sums.closedVersion, rows }, MAX_QUERIES)
    return rows
  }

  /** Has a window read by the next `refresh`, before there is a report. */
  expect(windowMs: number, nowMs: number): void {
    this.#windows.set(windowMs, { firstHour: Number.NaN, usedMs: nowMs })
  }

  /** Notes that a report has read a window. */
  used(windowMs: number, nowMs: number): void {
    use(this.#windows, windowMs, { firstHour: firstHour(windowMs, nowMs), usedMs: nowMs }, MAX_WINDOWS)
  }

  /** Reads the windows that have reached another hour, so that no report has to. */
  async refresh(nowMs: number, read: (windowMs: number) => Promise<unknown>): Promise<void> {
    for (const [windowMs, before] of [...this.#windows]) {
      if (before.firstHour === firstHour(windowMs, nowMs)) continue
      if (nowMs - before.usedMs > KEPT_MS) {
        this.#windows.delete(windowMs)
        continue
      }
      await read(windowMs)
      const window = this.#windows.get(windowMs)
      if (window !== undefined) this.#windows.set(windowMs, { ...window, usedMs: before.usedMs })
    }
  }
}

/** Makes an entry the last one, and deletes the first ones beyond a size. */
function use<Key, Value>(map: Map<Key, Value>, key: Key, value: Value, size: number): void {
  map.delete(key)
  map.set(key, value)
  for (const each of map.keys()) if (map.size > size) map.delete(each)
}

function firstHour(windowMs: number, nowMs: number): number {
  return Math.round((nowMs - windowMs) / HOUR_MS)
}
