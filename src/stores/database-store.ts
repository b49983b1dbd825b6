import { createHash } from 'node:crypto'
import { Database, databaseOf } from '../db/database.js'
import type { Dialect } from '../db/dialect.js'
import { storable } from '../db/storable.js'
import type { Check, Decision } from '../limiter/algorithm.js'
import { decideFixedWindow, windowStartMs } from '../limiter/fixed-window.js'
import type { Store } from './store.js'

export interface DatabaseStoreOptions {
  /** A URL, or a client made by `createRateLimitClient`, which stays open when the store is closed. */
  readonly database?: string | object | undefined
  readonly schema?: string | undefined
  /** Keeps the counters of apps that share a database apart. */
  readonly namespace?: string | undefined
}

const MAX_KEY_LENGTH = 255
const HASH_LENGTH = 64

interface CounterRow {
  readonly key: string
  readonly count: number
  readonly endMs: number
}

/** What one statement adds to one counter: the checks on it, in the order of their arrival. */
interface Advance {
  readonly periodMs: number
  readonly places: number[]
  cost: number
}

/** Counters in a table, exact over any number of processes: one statement advances a whole batch. */
export class DatabaseStore implements Store {
  readonly concurrency: number
  readonly #database: Database
  readonly #owned: boolean
  readonly #prefix: string
  readonly #sql: { readonly advance: string; readonly reset: string }

  constructor({ database, schema, namespace }: DatabaseStoreOptions = {}) {
    this.#owned = typeof database !== 'object'
    this.#database = typeof database === 'object' ? databaseOf(database) : new Database(database, schema)
    this.#prefix = namespace === undefined ? '' : `${namespace}|`
    this.#sql = statements(this.#database.dialect)
    this.concurrency = this.#database.dialect.writeConcurrency
  }

  async check(checks: readonly Check[], nowMs: number): Promise<readonly Decision[]> {
    const decisions: Decision[] = []
    for (let places = [...checks.keys()]; places.length > 0; ) {
      const { advances, left } = this.#group(checks, places)
      for (const row of await this.#advance(advances, nowMs)) {
        const advance = advances.get(row.key)
        if (advance !== undefined) answerInOrder(checks, advance, row, nowMs, decisions)
      }
      places = left
    }
    return decisions
  }

  async reset(key: string): Promise<void> {
    await this.#database.execute(this.#sql.reset, [this.#storedKey(key)])
  }

  async close(): Promise<void> {
    if (this.#owned) await this.#database.close()
  }

  /**
   * Adds up the checks on each counter, since one statement can change a row only once. Checks on one counter with
   * different periods (a rule was just edited) go into one statement after the other.
   */
  #group(checks: readonly Check[], places: readonly number[]) {
    const advances = new Map<string, Advance>()
    const left: number[] = []
    for (const place of places) {
      const check = checks[place]
      if (check === undefined) continue
      const { policy, cost } = check
      const key = this.#storedKey(check.key)
      const advance = advances.get(key)
      if (advance === undefined) {
        advances.set(key, { periodMs: policy.periodMs, places: [place], cost })
      } else if (advance.periodMs === policy.periodMs) {
        advance.places.push(place)
        advance.cost += cost
      } else {
        left.push(place)
      }
    }
    return { advances, left }
  }

  #advance(advances: ReadonlyMap<string, Advance>, nowMs: number): Promise<CounterRow[]> {
    // In the order of their keys, so that concurrent writers cannot deadlock.
    const rows = [...advances.keys()].sort().map((key) => {
      const { periodMs, cost } = advances.get(key) ?? { periodMs: 1, cost: 0 }
      const startMs = windowStartMs(periodMs, nowMs)
      return [key, cost, startMs, startMs + periodMs]
    })
    return this.#database.query<CounterRow>(this.#sql.advance, [JSON.stringify(rows), nowMs])
  }

  /** The key as the column takes it; one that is too long, or that a database refuses, ends with its hash. */
  #storedKey(key: string): string {
    const whole = this.#prefix + key
    const stored = storable(whole, MAX_KEY_LENGTH)
    if (stored === whole) return stored
    const hash = createHash('sha256').update(whole, 'utf16le').digest('hex')
    return `${storable(whole, MAX_KEY_LENGTH - HASH_LENGTH - 1)}#${hash}`
  }
}

function answerInOrder(
  checks: readonly Check[],
  { places, cost }: Advance,
  { count, endMs }: CounterRow,
  nowMs: number,
  decisions: Decision[],
): void {
  let counted = count - cost
  for (const place of places) {
    const check = checks[place]
    if (check === undefined) continue
    counted += check.cost
    decisions[place] = decideFixedWindow(check.policy, counted, endMs, check.cost, nowMs)
  }
}

/** The same rules as `advanceFixedWindow`, for many counters at once. */
function statements(dialect: Dialect) {
  const table = dialect.table('rate_limit_counter')
  const now = dialect.fromMs('$2')
  const goesOn = `(c.window_end - c.window_start = excluded.window_end - excluded.window_start
      AND c.window_start >= excluded.window_start)`
  return {
    advance: `INSERT INTO ${table} AS c (key, count, window_start, window_end, created_at, updated_at)
    SELECT ${dialect.jsonField(0, 'text')}, ${dialect.jsonField(1, 'bigint')},
      ${dialect.fromMs(dialect.jsonField(2, 'bigint'))}, ${dialect.fromMs(dialect.jsonField(3, 'bigint'))}, ${now}, ${now}
    FROM ${dialect.jsonRows()} WHERE true
    ON CONFLICT (key) DO UPDATE SET
      count = CASE WHEN ${goesOn} THEN c.count + excluded.count ELSE excluded.count END,
      window_start = CASE WHEN ${goesOn} THEN c.window_start ELSE excluded.window_start END,
      window_end = CASE WHEN ${goesOn} THEN c.window_end ELSE excluded.window_end END,
      updated_at = excluded.updated_at
    RETURNING key, count, window_end AS "endMs"`,
    reset: `DELETE FROM ${table} WHERE key = $1`,
  }
}
