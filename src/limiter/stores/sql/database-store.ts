import { Database, databaseFor } from '../../../database/database.js'
import { readRevision } from '../../../database/revision.js'
import { allDone } from '../../../ground/all-done.js'
import { counterKey, validateNamespace } from '../../../ground/storable.js'
import type { Algorithm, Check, Decision, Settlement } from '../../algorithm.js'
import { failedAfter, failedLeaving, PartlySettledError } from '../../batch-store.js'
import { FailingCounters } from '../failing-counters.js'
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

/**
 * Counters in tables, exact over any number of processes: one statement per algorithm advances a whole batch.
 *
 * Where PostgreSQL's row of a counter is kept locked by a transaction, or a row is refused by the database, the others of its
 * batch are advanced without it. Until that counter can be advanced again it is a part of the store that fails alone.
 */
export class DatabaseStore implements Store {
  readonly concurrency: number
  readonly #database: Database
  readonly #owned: boolean
  readonly #stored: StoredCounters
  readonly #storedKey: (key: string) => string
  readonly #tables: Readonly<Record<Algorithm, CounterTable>>
  readonly #failing: FailingCounters

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
    this.#failing = new FailingCounters(this.#storedKey)
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
    const areFailing = this.#failing.areAll(checks)
    // A batch that gathered behind the one that met them has them too: it does not wait for them again.
    const failed = new Set(areFailing ? [] : this.#failing.among(checks))
    const isFree = (index: number) => !failed.has(this.#storedKey(checks[index]?.key ?? ''))
    let cause: unknown
    for (let indexes = [...checks.keys()].filter(isFree); indexes.length > 0; ) {
      const { byAlgorithm, left } = groupChecks(checks, indexes, grouping)
      // The tables are asked at the same time: the limit of a request and the ceiling may have different algorithms.
      await allDone(
        [...byAlgorithm].map(async ([algorithm, groups]) => {
          const table = this.#tables[algorithm]
          // Another statement of this table may have advanced a part of them.
          const isLeft = ([key, { indexes }]: [string, CheckGroup]) =>
            !failed.has(key) && indexes.some((index) => decisions[index] === undefined)
          const advance = (some: ReadonlyMap<string, CheckGroup>) => {
            const asked = some === groups ? groups : new Map([...some].filter(isLeft))
            return table.advance(this.#database.short, asked, nowMs, decisions)
          }
          cause = (await this.#runApart(table, groups, advance, failed)) ?? cause
        }),
      )
      indexes = left.filter(isFree)
    }
    if (failed.size > 0) throw this.#failing.rejection(checks, decisions, cause, areFailing)
    this.#failing.advanced(checks)
  }

  async settle(settlements: readonly Settlement[], nowMs: number): Promise<void> {
    const left = new Set(settlements)
    try {
      await this.#settleAll(settlements, nowMs, left)
    } catch (error) {
      throw failedLeaving(error, [...left])
    }
  }

  async #settleAll(settlements: readonly Settlement[], nowMs: number, left: Set<Settlement>): Promise<void> {
    const grouping = { storedKey: this.#storedKey, counters: SETTLING }
    const areFailing = this.#failing.areAll(settlements)
    const { byAlgorithm } = groupChecks(settlements, [...settlements.keys()], grouping)
    let cause: unknown
    await allDone(
      [...byAlgorithm].map(async ([algorithm, groups]) => {
        const table = this.#tables[algorithm]
        const settle = async (some: ReadonlyMap<string, CheckGroup<Settlement>>) => {
          await table.settle(this.#database.short, some, nowMs)
          for (const { checks } of some.values()) for (const settled of checks) left.delete(settled)
        }
        cause = (await this.#runApart(table, groups, settle, new Set())) ?? cause
      }),
    )
    if (cause !== undefined) throw areFailing ? cause : new PartlySettledError([...left], cause)
  }

  /** Returns the name of a counter that fails: such counters fail alone. */
  partOf(key: string): string {
    return this.#failing.partOf(key) ?? ''
  }

  /**
   * Runs a statement about counters, and where rows fail it, about the others.
   *
   * @param failed receives the keys of these rows
   * @returns the error of such a row, if there is any
   * @throws the statement's error where it failed for another reason
   */
  async #runApart<Group>(
    { name }: CounterTable,
    groups: ReadonlyMap<string, Group>,
    run: (groups: ReadonlyMap<string, Group>) => Promise<void>,
    failed: Set<string>,
  ): Promise<unknown> {
    const { dialect } = this.#database
    try {
      await run(groups)
      return undefined
    } catch (error) {
      const isLocked = dialect.isLocked(error)
      if (!isLocked && !dialect.refusesRows(error)) throw error
      const keys = isLocked ? await this.#findLocked(name, groups) : await this.#findRefused(groups, run)
      // What the database refuses of several counters alike is not about one of them.
      if (!isLocked && keys.length > 1 && keys.length === groups.size) throw error
      for (const key of keys) {
        failed.add(key)
        this.#failing.add(key, isLocked ? 'a locked row' : 'a row that is refused')
      }
      if (isLocked) await run(new Map([...groups].filter(([key]) => !failed.has(key))))
      return error
    }
  }

  /** Returns the counters whose rows are locked at the moment. */
  async #findLocked(name: string, groups: ReadonlyMap<string, unknown>): Promise<string[]> {
    const { dialect, query } = this.#database
    const keyRows = JSON.stringify([...groups.keys()].map((key) => [key]))
    const rows = await query<{ key: string }>(lockedKeysSql(dialect, name), [keyRows])
    return rows.map(({ key }) => key)
  }

  /** Runs a statement that was refused about ever fewer counters, and returns those that it is refused for. */
  async #findRefused<Group>(
    groups: ReadonlyMap<string, Group>,
    run: (groups: ReadonlyMap<string, Group>) => Promise<void>,
  ): Promise<string[]> {
    if (groups.size === 1) return [...groups.keys()]
    const all = [...groups]
    const refused: string[] = []
    for (const half of [all.slice(0, all.length / 2), all.slice(all.length / 2)].map((some) => new Map(some))) {
      try {
        await run(half)
      } catch (error) {
        if (!this.#database.dialect.refusesRows(error)) throw error
        refused.push(...(await this.#findRefused(half, run)))
      }
    }
    return refused
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
