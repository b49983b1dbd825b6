import { Database, databaseFor } from '../db/database.js'
import { bumpRevision, readRevision } from '../db/revision.js'
import { counterKey, validateNamespace } from '../db/storable.js'
import type { Algorithm, Check, Decision, Settlement } from '../limiter/algorithm.js'
import { concurrencyTable } from './concurrency-table.js'
import type { CounterTable } from './counter-table.js'
import { fixedWindowTable } from './fixed-window-table.js'
import { groupChecks, SETTLING } from './groups.js'
import { listedTable } from './listed-table.js'
import type { Store } from './store.js'

export interface DatabaseStoreOptions {
  /** A URL, or a client made by `createRateLimitClient`, which stays open when the store is closed. */
  readonly database?: string | object | undefined
  readonly schema?: string | undefined
  /** Separates the counters of apps that share a database: 1 to 50 letters, digits, `_`, `.` or `-`. */
  readonly namespace?: string | undefined
}

/** Counters in tables, exact over any number of processes: one statement per algorithm advances a whole batch. */
export class DatabaseStore implements Store {
  readonly concurrency: number
  readonly #database: Database
  readonly #owned: boolean
  readonly #storedKey: (key: string) => string
  readonly #tables: Readonly<Record<Algorithm, CounterTable>>

  constructor({ database, schema, namespace }: DatabaseStoreOptions = {}) {
    validateNamespace(namespace)
    this.#owned = typeof database !== 'object'
    this.#database = typeof database === 'object' ? databaseFor(database) : new Database(database, schema)
    const prefix = namespace === undefined ? '' : `${namespace}|`
    this.#storedKey = (key) => counterKey(prefix + key)
    const { dialect } = this.#database
    this.#tables = {
      fixed_window: fixedWindowTable(dialect),
      sliding_window: listedTable(dialect, 'sliding_window'),
      token_bucket: listedTable(dialect, 'token_bucket'),
      leaky_bucket: listedTable(dialect, 'leaky_bucket'),
      concurrency: concurrencyTable(dialect),
    }
    this.concurrency = dialect.writeConcurrency
  }

  async check(checks: readonly Check[], nowMs: number): Promise<readonly Decision[]> {
    const decisions: Decision[] = []
    const grouping = { storedKey: this.#storedKey, counters: this.#tables }
    for (let places = [...checks.keys()]; places.length > 0; ) {
      const { byAlgorithm, left } = groupChecks(checks, places, grouping)
      // At the same time: the limit of a request and the ceiling may have different algorithms, and so tables.
      await Promise.all(
        [...byAlgorithm].map(([algorithm, groups]) =>
          this.#tables[algorithm].advance(this.#database.short, groups, nowMs, decisions),
        ),
      )
      places = left
    }
    return decisions
  }

  async settle(settlements: readonly Settlement[], nowMs: number): Promise<void> {
    const grouping = { storedKey: this.#storedKey, counters: SETTLING }
    for (let places = [...settlements.keys()]; places.length > 0; ) {
      const { byAlgorithm, left } = groupChecks(settlements, places, grouping)
      for (const [algorithm, groups] of byAlgorithm) {
        await this.#tables[algorithm].settle(this.#database.short, groups, nowMs)
      }
      places = left
    }
  }

  async reset(keys: readonly string[]): Promise<void> {
    const { dialect } = this.#database
    const stored = JSON.stringify(keys.map((key) => [this.#storedKey(key)]))
    for (const { name } of Object.values(this.#tables)) {
      await this.#database.execute(
        `DELETE FROM ${dialect.table(name)}
         WHERE key IN (SELECT ${dialect.jsonField(0, 'text')} FROM ${dialect.jsonRows()})`,
        [stored],
      )
    }
    await bumpRevision(this.#database, 'resets')
  }

  resets(): Promise<number> {
    return readRevision(this.#database, 'resets')
  }

  async close(): Promise<void> {
    if (this.#owned) await this.#database.close()
  }
}
