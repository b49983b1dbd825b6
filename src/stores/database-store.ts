import { Database, databaseOf } from '../db/database.js'
import { HASH_LENGTH, MAX_KEY_LENGTH, storable, withHash } from '../db/storable.js'
import type { Algorithm, Check, Decision } from '../limiter/algorithm.js'
import { leakyBucketTable, tokenBucketTable } from './bucket-table.js'
import type { CounterTable, Group } from './counter-table.js'
import { fixedWindowTable } from './fixed-window-table.js'
import { slidingWindowTable } from './sliding-window-table.js'
import type { Store } from './store.js'

export interface DatabaseStoreOptions {
  /** A URL, or a client made by `createRateLimitClient`, which stays open when the store is closed. */
  readonly database?: string | object | undefined
  readonly schema?: string | undefined
  /** Keeps the counters of apps that share a database apart. */
  readonly namespace?: string | undefined
}

/** Counters in tables, exact over any number of processes: one statement per algorithm advances a whole batch. */
export class DatabaseStore implements Store {
  readonly concurrency: number
  readonly #database: Database
  readonly #owned: boolean
  readonly #prefix: string
  readonly #tables: Readonly<Record<Algorithm, CounterTable>>

  constructor({ database, schema, namespace }: DatabaseStoreOptions = {}) {
    this.#owned = typeof database !== 'object'
    this.#database = typeof database === 'object' ? databaseOf(database) : new Database(database, schema)
    this.#prefix = namespace === undefined ? '' : `${namespace}|`
    const { dialect } = this.#database
    this.#tables = {
      fixed_window: fixedWindowTable(dialect),
      sliding_window: slidingWindowTable(dialect),
      token_bucket: tokenBucketTable(dialect),
      leaky_bucket: leakyBucketTable(dialect),
    }
    this.concurrency = dialect.writeConcurrency
  }

  async check(checks: readonly Check[], nowMs: number): Promise<readonly Decision[]> {
    const decisions: Decision[] = []
    for (let places = [...checks.keys()]; places.length > 0; ) {
      const { statements, left } = this.#group(checks, places)
      for (const [algorithm, groups] of statements) {
        await this.#tables[algorithm].advance(this.#database.query, groups, nowMs, decisions)
      }
      places = left
    }
    return decisions
  }

  async reset(key: string): Promise<void> {
    const stored = this.#storedKey(key)
    for (const { name } of Object.values(this.#tables)) {
      await this.#database.execute(`DELETE FROM ${this.#database.dialect.table(name)} WHERE key = $1`, [stored])
    }
  }

  async close(): Promise<void> {
    if (this.#owned) await this.#database.close()
  }

  /**
   * Groups the checks on each counter, since one statement can change a row only once. A check that cannot join those
   * before it (a rule was just edited, or costs differ) goes into a later statement, and so does all that follows it.
   */
  #group(checks: readonly Check[], places: readonly number[]) {
    const statements = new Map<Algorithm, Map<string, Group>>()
    const closed = new Set<Group>()
    const left: number[] = []
    for (const place of places) {
      const check = checks[place]
      if (check === undefined) continue
      const { algorithm } = check.policy
      let groups = statements.get(algorithm)
      if (groups === undefined) {
        groups = new Map()
        statements.set(algorithm, groups)
      }
      const key = this.#storedKey(check.key)
      const group = groups.get(key)
      if (group === undefined) {
        groups.set(key, { first: check, checks: [check], places: [place] })
      } else if (!closed.has(group) && this.#tables[algorithm].joins(group.first, check)) {
        group.checks.push(check)
        group.places.push(place)
      } else {
        closed.add(group)
        left.push(place)
      }
    }
    return { statements, left }
  }

  /** The key as the column takes it; one that is too long, or that a database refuses, ends with its hash. */
  #storedKey(key: string): string {
    const whole = this.#prefix + key
    return storable(whole, MAX_KEY_LENGTH) === whole ? whole : withHash(whole, MAX_KEY_LENGTH - HASH_LENGTH)
  }
}
