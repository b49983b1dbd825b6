/** Finds counters in the tables of a database by the beginnings of their names: of a million, as many as a page shows. */
import type { Database } from '../../../database/database.js'
import type { Dialect, SqlValue } from '../../../database/dialect.js'
import type { Algorithm } from '../../algorithm.js'
import type { WindowNumbers } from '../../windows.js'
import { parseWindows, WINDOW_LAYOUTS, type WindowLayout } from './windows-text.js'

export interface CounterSearch {
  /** The whole names of counters. */
  readonly names: readonly string[]
  /** The beginnings of names. */
  readonly prefixes: readonly string[]
  /** The stored key that those before the page end with; empty for the first page. */
  readonly after: string
  /** The most counters to return. */
  readonly limit: number
}

/** One window of a counter. */
export interface FoundWindow {
  readonly periodMs: number
  readonly used: number
  /** Null where the counter does not have it: the policy of its limit does. */
  readonly limit: number | null
}

export interface FoundCounter {
  /** As the table has it: with the namespace, and shortened where the name is longer than the column. */
  readonly key: string
  readonly algorithm: Algorithm
  readonly windows: readonly FoundWindow[]
  /** Milliseconds since the epoch, after which the row means nothing. */
  readonly expiresAtMs: number
}

interface CounterRow {
  readonly key: string
  readonly algorithm: Algorithm
  readonly used: number
  readonly periodMs: number | null
  readonly expiresAtMs: number
  readonly windows: string | null
}

const LAYOUTS: Readonly<Partial<Record<Algorithm, WindowLayout>>> = {
  fixed_window: WINDOW_LAYOUTS.rate_limit_fixed_windows,
  sliding_window: WINDOW_LAYOUTS.rate_limit_sliding_windows,
  token_bucket: WINDOW_LAYOUTS.rate_limit_buckets,
  leaky_bucket: WINDOW_LAYOUTS.rate_limit_buckets,
}
/** The last character of all, in the order of bytes. */
const LAST = '\u{10ffff}'

/**
 * Finds counters, in the order of their keys.
 *
 * @param storedKey returns the key that the tables have for a name
 * @param toPrefix returns the beginning that the tables have for the beginning of a name
 */
export async function findCounters(
  { dialect, query }: Database,
  tables: Readonly<Record<Algorithm, { readonly name: string }>>,
  { names, prefixes, after, limit }: CounterSearch,
  storedKey: (name: string) => string,
  toPrefix: (prefix: string) => string,
): Promise<FoundCounter[]> {
  const parameters: SqlValue[] = [after, limit]
  const add = (value: SqlValue) => `$${parameters.push(value)}`
  // One look-up each, which an index answers: with OR between them the database would read the whole table.
  const conditions = [
    ...(names.length === 0 ? [] : [dialect.isOneOf('key', add(JSON.stringify(names.map(storedKey))), 'text')]),
    ...prefixes.map(toPrefix).map((from) => `key >= ${add(from)} AND key < ${add(from + LAST)}`),
  ]
  if (conditions.length === 0) return []
  const selects = Object.entries(tables).flatMap(([algorithm, { name }]) =>
    conditions.map(
      (condition) =>
        `SELECT * FROM (SELECT ${columns(algorithm, dialect)} FROM ${dialect.table(name)}
           WHERE ${condition} AND key > $1 ORDER BY key LIMIT $2) AS found`,
    ),
  )
  const rows = await query<CounterRow>(`${selects.join(' UNION ')} ORDER BY 1 LIMIT $2`, parameters)
  return rows.map(toCounter)
}

function columns(algorithm: string, { toMs, listText }: Dialect): string {
  const isFixed = algorithm === 'fixed_window'
  const expiry = isFixed ? 'window_end' : 'expires_at'
  const period = isFixed
    ? `${toMs('window_end')} - ${toMs('window_start')}`
    : algorithm === 'concurrency'
      ? 'period_ms'
      : 'CAST(NULL AS bigint)'
  const windows = algorithm === 'concurrency' ? 'CAST(NULL AS text)' : listText('windows')
  return `key, '${algorithm}' AS algorithm, ${isFixed ? 'count' : 'used'} AS used, ${period} AS "periodMs",
    ${toMs(expiry)} AS "expiresAtMs", ${windows} AS windows`
}

function toCounter({ key, algorithm, used, periodMs, expiresAtMs, windows }: CounterRow): FoundCounter {
  const layout = LAYOUTS[algorithm]
  const several = layout === undefined || windows === null ? undefined : toWindows(layout, windows)
  return { key, algorithm, expiresAtMs, windows: several ?? [{ periodMs: periodMs ?? 0, used, limit: null }] }
}

function toWindows(layout: WindowLayout, text: string): FoundWindow[] {
  const { use, limit } = layout
  return parseWindows(layout, text).windows.map((numbers: WindowNumbers) => ({
    periodMs: numbers[0] ?? 0,
    used: numbers[use] ?? 0,
    limit: limit === undefined ? null : (numbers[limit] ?? null),
  }))
}
