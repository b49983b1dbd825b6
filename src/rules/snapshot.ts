import type { Database } from '../db/database.js'
import type { Query } from '../db/dialect.js'
import { readRevision } from '../db/revision.js'
import type { RejectedRow } from './load-reports.js'
import { OverrideReader } from './override-repository.js'
import { OverrideSet } from './override-set.js'
import { type LoadedRules, parseRules, readRuleRows, type StoredRule } from './rule-repository.js'
import { type PathOptions, RuleSet } from './rule-set.js'

/** The rules and overrides in force at one moment. Immutable: a change makes a new one. */
export interface Snapshot {
  readonly rules: RuleSet
  readonly overrides: OverrideSet
  /** The rows that are left out. */
  readonly rejected: readonly RejectedRow[]
}

export interface SnapshotReaderOptions {
  readonly database: Database
  readonly router: PathOptions
  /** How long changed overrides alone are read before all of them are read again, in milliseconds. */
  readonly ttlMs: number
  readonly now: () => number
}

/** Where something is written during each of so many tries, all is read in one transaction. */
const TRIES = 3

/** What is in force before the tables were read. */
export function emptySnapshot(router: PathOptions): Snapshot {
  return { rules: new RuleSet([], router), overrides: OverrideSet.empty(router), rejected: [] }
}

/**
 * Reads and compiles what the tables of rules and overrides have at one moment: what one transaction changes is in a
 * snapshot whole, or not at all.
 */
export class SnapshotReader {
  readonly #options: SnapshotReaderOptions
  readonly #overrides: OverrideReader
  #rules: LoadedRules | undefined
  #snapshot: Snapshot
  #lastLoad: Promise<unknown> = Promise.resolve()

  constructor(options: SnapshotReaderOptions) {
    const { database, router, ttlMs } = options
    this.#options = options
    this.#overrides = new OverrideReader({ dialect: database.dialect, router, ttlMs })
    this.#snapshot = emptySnapshot(router)
  }

  /**
   * Returns the snapshot of now, which is the one of before where nothing changed.
   *
   * @param onRows called when the tables have answered, or the first of many rows are there: what is left is mostly work
   * for this process
   */
  load(onRows: () => void = () => undefined): Promise<Snapshot> {
    const load = this.#lastLoad.then(() => this.#load(onRows))
    this.#lastLoad = load.catch(() => undefined)
    return load
  }

  /** The next load reads the whole tables. */
  expire(): void {
    this.#overrides.expire()
  }

  async #load(onRows: () => void): Promise<Snapshot> {
    const { router } = this.#options
    const rows = await this.#read(onRows)
    onRows()
    const overrides = await this.#overrides.apply()
    const loaded = await parseRules(rows, this.#rules)
    const known = this.#snapshot
    if (loaded !== this.#rules || overrides !== known.overrides) {
      const rules = loaded === this.#rules ? known.rules : await RuleSet.compile(loaded.rules, router, known.rules)
      this.#rules = loaded
      this.#snapshot = { rules, overrides, rejected: [...loaded.rejected, ...this.#overrides.rejected()] }
    }
    return this.#snapshot
  }

  /** Reads the rules, and what changed of the overrides, as they are at one moment. */
  async #read(onRows: () => void): Promise<readonly StoredRule[]> {
    const { database } = this.#options
    for (let tries = 0; tries < TRIES; tries++) {
      // Without the table of revisions only a transaction shows one moment.
      const revision = await readRevision(database, 'rules').catch(() => undefined)
      if (revision === undefined) break
      const rows = await this.#readOnce(database.query, onRows)
      if (rows !== undefined && (await readRevision(database, 'rules')) === revision) return rows
    }
    return database.snapshot(async (query) => {
      for (;;) {
        const rows = await this.#readOnce(query, onRows)
        if (rows !== undefined) return rows
      }
    })
  }

  /** @returns undefined where not all changes could be followed */
  async #readOnce(query: Query, onRows: () => void): Promise<readonly StoredRule[] | undefined> {
    const { database, now } = this.#options
    await this.#overrides.readTable(query, now(), onRows)
    const rows = await readRuleRows({ query, dialect: database.dialect }, onRows)
    return (await this.#overrides.readChanges(query)) ? rows : undefined
  }
}
