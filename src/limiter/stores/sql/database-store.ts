import { createHash } from 'node:crypto'
import { Database, databaseFor } from '../../../database/database.js'
import { readRevision } from '../../../database/revision.js'
import { allDone } from '../../../ground/all-done.js'
import { counterKey, validateNamespace } from '../../../ground/storable.js'
import type { Algorithm, Check, Decision, Settlement } from '../../algorithm.js'
import { failedAfter, PartlyDecidedError } from '../../batch-store.js'
import { type CheckGroup, groupChecks, SETTLING } from '../groups.js'
import type { Store } from '../store.js'
import { concurrencyTable } from './concurrency-table.js'
import { type CounterTable, lockedKeysSql } from './counter-statements.js'
import { fixedWindowTable } from './fixed-window-table.js'
import { SQLITE_FUNCTIONS } from './sqlite-functions.js'
import { forgetCounters, namespacePrefix, StoredCounters } from './stored-counters.js'
import { windowsTable } from './windows-table.js'

export interface DatabaseStoreOptions {
  /** A URL, or a client made by `createRateLimitClient`, which stays open when the store is closed. */
  readonly database?: string | object | undefined
  readonly schema?: string | undefined
  /** Separates the counters of apps that share a database: 1 to 50 letters, digits, `_`, `.` or `-`. */
  readonly namespace?: string | undefined
}

/** The longest wait for a row that another transaction has locked, in milliseconds: half of what requests wait. */
const LOCK_TIMEOUT_MS = 250
/** Further rows that are locked push out the oldest. */
const MAX_LOCKED = 1_000

/**
 * Counters in tables, exact over any number of processes: one statement per algorithm advances a whole batch.
 *
 * On PostgreSQL, where a transaction keeps the row of a counter locked, the others of its batch are advanced without it.
 * Until that counter can be advanced again it is a part of the store that fails alone.
 */
export class DatabaseStore implements Store {
  readonly concurrency: number
  readonly #database: Database
  readonly #owned: boolean
  readonly #stored: StoredCounters
  readonly #storedKey: (key: string) => string
  readonly #tables: Readonly<Record<Algorithm, CounterTable>>
  /** The stored keys of counters with rows that were locked at the last attempt. */
  readonly #locked = new Set<string>()

  /** @param lockTimeoutMs the longest wait for a row that another transaction of PostgreSQL has locked, in milliseconds */
  constructor({ database, schema, namespace }: DatabaseStoreOptions = {}, lockTimeoutMs = LOCK_TIMEOUT_MS) {
    validateNamespace(namespace)
    this.#owned = typeof database !== 'object'
    this.#database =
      typeof database === 'object'
        ? databaseFor(database)
        : new Database(database, schema, { functions: SQLITE_FUNCTIONS })
    const prefix = namespacePrefix(namespace)
    this.#stored = new StoredCounters(this.#database, namespace)
    this.#storedKey = (key) => counterKey(prefix + key)
    const dialect = {
      ...this.#database.dialect,
      asynchronousCommit: this.#database.dialect.asynchronousCommitWithin(lockTimeoutMs),
    }
    this.#tables = {
      fixed_window: fixedWindowTable(dialect),
      sliding_window: windowsTable(dialect, 'sliding_window'),
      token_bucket: windowsTable(dialect, 'token_bucket'),
      leaky_bucket: windowsTable(dialect, 'leaky_bucket'),
      concurrency: concurrencyTable(dialect),
    }
    this.concurrency = dialect.writeConcurrency
  }

  async check(checks: readonly Check[], nowMs: number): Promise<readonly Decision[]> {
    const decisions: Decision[] = []
    try {
      await this.#checkAll(checks, nowMs, decisions)
      return decisions
    } catch (error) {
      throw failedAfter(error, decisions)
    }
  }

  async #checkAll(checks: readonly Check[], nowMs: number, decisions: Decision[]): Promise<void> {
    const grouping = { storedKey: this.#storedKey, counters: this.#tables }
    const isApart = this.#areLocked(checks)
    // A batch that gathered behind the one that met them has them too: it does not wait for them again.
    const locked = new Set(isApart ? [] : this.#lockedAmong(checks))
    const isFree = (index: number) => !locked.has(this.#storedKey(checks[index]?.key ?? ''))
    let cause: unknown
    for (let indexes = [...checks.keys()].filter(isFree); indexes.length > 0; ) {
      const { byAlgorithm, left } = groupChecks(checks, indexes, grouping)
      // The tables are asked at the same time: the limit of a request and the ceiling may have different algorithms.
      await allDone(
        [...byAlgorithm].map(async ([algorithm, groups]) => {
          const table = this.#tables[algorithm]
          const advance = (some: Map<string, CheckGroup>) => table.advance(this.#database.short, some, nowMs, decisions)
          try {
            await advance(groups)
          } catch (error) {
            cause = error
            for (const key of await this.#findLocked(table, groups, error)) locked.add(key)
            // Another statement of this table may have advanced a part of them.
            const isLeft = ([key, { indexes }]: [string, CheckGroup]) =>
              !locked.has(key) && indexes.some((index) => decisions[index] === undefined)
            await advance(new Map([...groups].filter(isLeft)))
          }
        }),
      )
      indexes = left.filter(isFree)
    }
    if (locked.size > 0) {
      if (isApart) throw cause
      throw new PartlyDecidedError(
        checks.map((_check, index) => decisions[index]),
        cause,
      )
    }
    if (this.#locked.size > 0) for (const { key } of checks) this.#locked.delete(this.#storedKey(key))
  }

  /** Gives back. Use of a locked row, in a batch with others, is left to its period; alone in its part it is settled later. */
  async settle(settlements: readonly Settlement[], nowMs: number): Promise<void> {
    const grouping = { storedKey: this.#storedKey, counters: SETTLING }
    const isApart = this.#areLocked(settlements)
    const { byAlgorithm } = groupChecks(settlements, [...settlements.keys()], grouping)
    await allDone(
      [...byAlgorithm].map(async ([algorithm, groups]) => {
        const table = this.#tables[algorithm]
        try {
          await table.settle(this.#database.short, groups, nowMs)
        } catch (error) {
          for (const key of await this.#findLocked(table, groups, error)) groups.delete(key)
          if (isApart) throw error
          await table.settle(this.#database.short, groups, nowMs)
        }
      }),
    )
  }

  /** Returns the name of a counter that is locked: such counters fail alone. */
  partOf(key: string): string {
    if (this.#locked.size === 0) return ''
    const stored = this.#storedKey(key)
    return this.#locked.has(stored) ? `a locked row (${shortHash(stored)})` : ''
  }

  /** Returns whether all counters of a batch were locked when they were last met. */
  #areLocked(checks: readonly Check[]): boolean {
    return this.#locked.size > 0 && checks.length === this.#lockedAmong(checks).length
  }

  /** Returns the counters of a batch that were locked when they were last met. */
  #lockedAmong(checks: readonly Check[]): string[] {
    if (this.#locked.size === 0) return []
    return checks.map(({ key }) => this.#storedKey(key)).filter((key) => this.#locked.has(key))
  }

  /**
   * Returns the counters that are locked, after a statement has met one.
   *
   * @throws the statement's error where it failed for another reason
   */
  async #findLocked({ name }: CounterTable, groups: ReadonlyMap<string, unknown>, error: unknown): Promise<string[]> {
    const { dialect, query } = this.#database
    if (!dialect.isLocked(error)) throw error
    const keyRows = JSON.stringify([...groups.keys()].map((key) => [key]))
    const rows = await query<{ key: string }>(lockedKeysSql(dialect, name), [keyRows])
    const keys = rows.map(({ key }) => key)
    for (const key of keys) {
      const [oldest] = this.#locked
      if (this.#locked.size >= MAX_LOCKED && oldest !== undefined) this.#locked.delete(oldest)
      this.#locked.add(key)
    }
    return keys
  }

  async reset(keys: readonly string[]): Promise<void> {
    await forgetCounters(this.#database, keys.map(this.#storedKey))
  }

  async resetAll(prefixes: readonly string[]): Promise<void> {
    await this.#stored.forgetAll(prefixes)
  }

  resets(): Promise<number> {
    return readRevision(this.#database, 'resets')
  }

  async close(): Promise<void> {
    if (this.#owned) await this.#database.close()
  }
}

/** Tells counters apart without their clients, who have no business in the log of an outage. */
function shortHash(key: string): string {
  return createHash('sha256').update(key).digest('hex').slice(0, 8)
}
