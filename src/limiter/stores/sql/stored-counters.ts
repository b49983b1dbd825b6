/** Finds counters in the tables of a database by the beginnings of their names, and forgets them. */
import type { Database } from '../../../database/database.js'
import type { Dialect, SqlValue } from '../../../database/dialect.js'
import { bumpRevision } from '../../../database/revision.js'
import { counterKey, counterPrefix } from '../../../ground/storable.js'
import type { Algorithm, RateAlgorithm } from '../../algorithm.js'
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

/** A window of a counter. */
export interface FoundWindow {
  readonly periodMs: number
  readonly used: number
  /** The limit; null where the counter does not have it: the policy of its limit does. */
  readonly limit: number | null
}

export interface FoundCounter {
  /** The key as the table has it: with the namespace, and shortened where the name is longer than the column. */
  readonly key: string
  readonly algorithm: Algorithm
  readonly windows: readonly FoundWindow[]
  /** The time after which the row means nothing, in milliseconds since the epoch. */
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

const LAYOUTS: Readonly<Record<RateAlgorithm, WindowLayout>> = {
  fixed_window: WINDOW_LAYOUTS.rate_limit_fixed_windows,
  sliding_window: WINDOW_LAYOUTS.rate_limit_sliding_windows,
  token_bucket: WINDOW_LAYOUTS.rate_limit_buckets,
  leaky_bucket: WINDOW_LAYOUTS.rate_limit_buckets,
}
/** A statement deletes so many in a few milliseconds. */
const FORGOTTEN_AT_ONCE = 1_000
/** The last character of all, in the order of bytes. */
const LAST = '\u{10ffff}'

/** The tables of counters, by the algorithm. */
const TABLES: Readonly<Record<Algorithm, string>> = {
  fixed_window: 'rate_limit_counter',
  sliding_window: 'rate_limit_sliding_window',
  token_bucket: 'rate_limit_token_bucket',
  leaky_bucket: 'rate_limit_leaky_bucket',
  concurrency: 'rate_limit_concurrency',
}

/** Returns what is before the names of counters in a namespace. */
export function namespacePrefix(namespace: string | undefined): string {
  return namespace === undefined ? '' : `${namespace}|`
}

/** Deletes counters by their stored keys. All processes obey within two seconds. */
export async function forgetCounters(database: Database, storedKeys: readonly string[]): Promise<void> {
  const { dialect } = database
  const stored = JSON.stringify(storedKeys.map((key) => [key]))
  for (const name of Object.values(TABLES)) {
    await database.execute(
      `DELETE FROM ${dialect.table(name)}
       WHERE key IN (SELECT ${dialect.jsonField(0, 'text')} FROM ${dialect.jsonRows()})`,
      [stored],
    )
  }
  await bumpRevision(database, 'resets')
}

/** The counters of a namespace in the tables of a database. */
export class StoredCounters {
  readonly #database: Database
  readonly #prefix: string

  constructor(database: Database, namespace: string | undefined) {
    this.#database = database
    this.#prefix = namespacePrefix(namespace)
  }

  /** Finds counters, in the order of their stored keys: of a million, as many as a page shows. */
  async find({ names, prefixes, after, limit }: CounterSearch): Promise<FoundCounter[]> {
    const { dialect, query } = this.#database
    const parameters: SqlValue[] = [after, limit]
    const add = (value: SqlValue) => `$${parameters.push(value)}`
    const storedKeys = names.map((name) => counterKey(this.#prefix + name))
    // The conditions are one look-up each, which an index answers: with OR between them the database would read the
    // whole table.
    const conditions = [
      ...(names.length === 0 ? [] : [dialect.isOneOf('key', add(JSON.stringify(storedKeys)), 'text')]),
      ...prefixes.map((prefix) => {
        const from = this.#prefix + prefix
        return `key >= ${add(from)} AND key < ${add(from + LAST)}`
      }),
    ]
    if (conditions.length === 0) return []
    const selects = Object.entries(TABLES).flatMap(([algorithm, name]) =>
      conditions.map(
        (condition) =>
          `SELECT * FROM (SELECT ${columns(algorithm, dialect)} FROM ${dialect.table(name)}
           WHERE ${condition} AND key > $1 ORDER BY key LIMIT $2) AS found`,
      ),
    )
    const rows = await query<CounterRow>(`${selects.join(' UNION ')} ORDER BY 1 LIMIT $2`, parameters)
    return rows.map(toCounter)
  }

  /** Forgets all counters whose names begin with one of some texts, some at a time: no statement holds many rows for long. */
  async forgetAll(prefixes: readonly string[]): Promise<void> {
    const stored = prefixes.map((prefix) => counterPrefix(this.#prefix + prefix).slice(this.#prefix.length))
    for (let after = '', isDone = false; !isDone; ) {
      const found = await this.find({ names: [], prefixes: stored, after, limit: FORGOTTEN_AT_ONCE })
      const keys = [...new Set(found.map(({ key }) => key))]
      await this.forget(keys)
      after = keys.at(-1) ?? ''
      isDone = found.length < FORGOTTEN_AT_ONCE
    }
  }

  /** Returns the name of a stored key, which is another one where the key was shortened. */
  nameOf(storedKey: string): string {
    return storedKey.slice(this.#prefix.length)
  }

  /** Forgets counters by their stored keys; those of another namespace stay. */
  async forget(storedKeys: readonly string[]): Promise<void> {
    await forgetCounters(
      this.#database,
      storedKeys.filter((key) => key.startsWith(this.#prefix)),
    )
  }
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
  const layout = algorithm === 'concurrency' ? undefined : LAYOUTS[algorithm]
  const several = layout === undefined || windows === null ? undefined : toWindows(layout, windows)
  return { key, algorithm, expiresAtMs, windows: several ?? [{ periodMs: periodMs ?? 0, used, limit: null }] }
}

function toWindows(layout: WindowLayout, text: string): FoundWindow[] {
  const { use, limit } = layout
  return parseWindows(layout, text).windows.map((numbers: WindowNumbers) => ({
    periodMs: numbers[0] ?? 0,
    used: numbers[use] ?? 0,
    limit: numbers[limit] ?? null,
  }))
}
