import { type ConditionSources, NO_SOURCES } from '../../clients/condition-sources.js'
import type { Database } from '../../database/database.js'
import type { Query } from '../../database/dialect.js'
import { readRevision } from '../../database/revision.js'
import { Poll } from '../../ground/time/poll.js'
import { LoadLog, type LoadLogOptions, type RecordedChange, type RejectedRow } from '../load-log.js'
import { OverrideReader } from '../overrides/override-reader.js'
import { OverrideSet } from '../overrides/override-set.js'
import type { PathOptions } from '../patterns/path-patterns.js'
import { compileGroups, noRules, type RuleGroups } from '../rule-groups.js'
import { type LoadedRules, RuleReader } from '../rule-repository.js'

/** The longest wait of a write until it is in force, in milliseconds: 100,000 overrides may take seconds. */
const SWAP_TIMEOUT_MS = 60_000
/** The longest wait for the tables at start, in milliseconds: enough for thousands of rules. */
const WARM_UP_TIMEOUT_MS = 3_000

export interface CurrentSnapshotOptions extends SnapshotReaderOptions, LoadLogOptions {
  /** The time for which a request waits for the tables, in milliseconds, before it uses the last good snapshot. */
  readonly timeoutMs: number
  /** Whether requests use the snapshot, so that it is read before the first one comes. */
  readonly isInUse: boolean
}

/**
 * The rules and overrides in force in this process. The tables are polled about once a second while there is traffic,
 * and a new snapshot replaces the previous one after a change. Where they cannot be read, the last good one stays.
 */
export class CurrentSnapshot {
  readonly #options: CurrentSnapshotOptions
  readonly #reader: SnapshotReader
  readonly #loadLog: LoadLog
  readonly #poll: Poll

  readonly #changed = () => this.refresh()
  readonly #replaced = () => this.invalidate()

  constructor(options: CurrentSnapshotOptions) {
    this.#options = options
    this.#reader = new SnapshotReader(options)
    this.#loadLog = new LoadLog(options)
    this.#poll = new Poll({
      look: (answered) => this.#load(answered),
      failed: (error) => this.#loadLog.failed(error),
      now: options.now,
      timeoutMs: options.timeoutMs,
      maxAgeMs: options.ttlMs,
    })
    options.database.ruleListeners.add(this.#changed)
    options.database.replacedListeners.add(this.#replaced)
  }

  async start(): Promise<void> {
    if (this.#options.isInUse) await this.refresh(WARM_UP_TIMEOUT_MS)
  }

  /**
   * Returns what is in force: at once, unless the last poll is too long ago. Never rejects.
   *
   * @param waitedMs how long the request has waited before
   */
  at(nowMs: number, waitedMs = 0): Snapshot | Promise<Snapshot> {
    if (this.#poll.isKnown(nowMs)) return this.#reader.snapshot
    const pending = this.#poll.pending(nowMs, waitedMs)
    return pending === undefined ? this.#reader.snapshot : pending.then(() => this.#reader.snapshot)
  }

  /** Returns the last good snapshot, whatever its age. */
  lastGood(): Snapshot {
    return this.#reader.snapshot
  }

  /** The time at which the last good snapshot was last found up to date; undefined before the first one. */
  get seenAtMs(): number | undefined {
    return this.#poll.seenAtMs
  }

  /** Whether the last attempt to read the tables failed. */
  get isFailing(): boolean {
    return this.#poll.isFailing
  }

  /** Resolves when all earlier writes are in force, or cannot be read in time. */
  refresh(timeoutMs = SWAP_TIMEOUT_MS): Promise<void> {
    return this.#poll.refresh(timeoutMs)
  }

  /** Makes the next request wait until the whole tables have been read. */
  invalidate(): void {
    this.#reader.expire()
    this.#poll.expire()
  }

  /** Reads the whole tables now. Requests use what is in force meanwhile. */
  reload(): Promise<void> {
    this.#reader.expire()
    return this.refresh()
  }

  /** Resolves when the tables are not being read. */
  async close(): Promise<void> {
    this.#options.database.ruleListeners.delete(this.#changed)
    this.#options.database.replacedListeners.delete(this.#replaced)
    await this.#poll.close()
  }

  async #load(answered: () => void): Promise<void> {
    const { rejected } = await this.#reader.load(answered)
    this.#loadLog.loaded(rejected)
    this.#loadLog.changed(this.#reader.takeLatestChanges())
  }
}

/** The rules and overrides in force at one moment. Immutable: a change creates a new one. */
export interface Snapshot extends RuleGroups {
  readonly overrides: OverrideSet
  /** What conditions may ask. */
  readonly sources: ConditionSources
  /** The rows that are left out. */
  readonly rejected: readonly RejectedRow[]
}

export interface SnapshotReaderOptions {
  readonly database: Database
  readonly router: PathOptions
  /** The time for which only changes are read before the whole tables are read again, in milliseconds. */
  readonly ttlMs: number
  readonly now: () => number
}

/** The number of attempts with a write during each after which all is read in one transaction. */
const TRIES = 3

/**
 * Reads and compiles the tables of rules and overrides as they are at one moment: a snapshot contains the changes of a
 * transaction completely or not at all.
 */
export class SnapshotReader {
  readonly #options: SnapshotReaderOptions
  readonly #overrides: OverrideReader
  readonly #ruleReader: RuleReader
  #rules: LoadedRules | undefined
  /** The last snapshot that was read; an empty one before the first. */
  snapshot: Snapshot
  /** The revision of the snapshot; undefined where there is none. */
  #revision: number | undefined
  /** The time at which the whole tables were last read. */
  #readAtMs = Number.NaN

  constructor(options: SnapshotReaderOptions) {
    const { database, router } = options
    this.#options = options
    this.#overrides = new OverrideReader(database.dialect, router)
    this.#ruleReader = new RuleReader(database.sources)
    const { sources = NO_SOURCES } = database
    this.snapshot = { ...noRules(router), overrides: OverrideSet.empty(router), sources, rejected: [] }
  }

  /**
   * Returns the current snapshot, which is the previous one where nothing changed. One load at a time.
   *
   * @param answered called when the tables have answered, or the first of many rows have arrived: the rest is mostly
   * work for this process
   */
  async load(answered: () => void = () => undefined): Promise<Snapshot> {
    const { now, ttlMs } = this.#options
    const nowMs = now()
    const revision = await this.#readRevision()
    const isYoung = nowMs >= this.#readAtMs && nowMs < this.#readAtMs + ttlMs
    if (isYoung && revision === this.#revision) return this.snapshot
    if (!isYoung) {
      this.#overrides.expire()
      this.#readAtMs = nowMs
    }
    try {
      this.#revision = await this.#replaceSnapshot(revision, answered)
    } catch (error) {
      this.expire()
      throw error
    }
    return this.snapshot
  }

  /** Returns the recorded changes that are in force now and were not returned yet. */
  takeLatestChanges(): readonly RecordedChange[] {
    return this.#overrides.takeLatestChanges()
  }

  /** Makes the next load read the whole tables. */
  expire(): void {
    this.#readAtMs = Number.NaN
  }

  /** @returns the revision of the snapshot */
  async #replaceSnapshot(revisionBefore: number, answered: () => void): Promise<number> {
    const { router } = this.#options
    const revision = await this.#read(revisionBefore, answered)
    answered()
    const overrides = await this.#overrides.apply()
    const loaded = await this.#ruleReader.apply()
    const previous = this.snapshot
    if (loaded !== this.#rules || overrides !== previous.overrides) {
      const groups = loaded === this.#rules ? previous : await compileGroups(loaded.rules, router, previous)
      this.#rules = loaded
      this.snapshot = {
        ...groups,
        overrides,
        sources: previous.sources,
        rejected: [...loaded.rejected, ...this.#overrides.rejected()],
      }
    }
    return revision
  }

  /**
   * Reads the rules and overrides that changed as they are at one moment.
   *
   * @returns the revision of that moment
   */
  async #read(revisionBefore: number, answered: () => void): Promise<number> {
    const { database } = this.#options
    let revision = revisionBefore
    for (let tries = 0; tries < TRIES; tries++) {
      const isRead = await this.#readOnce(database.query, answered)
      const after = await this.#readRevision()
      if (isRead && after === revision) return revision
      revision = after
    }
    return database.snapshot(async (query) => {
      while (!(await this.#readOnce(query, answered)));
      return revision
    })
  }

  #readRevision(): Promise<number> {
    return readRevision(this.#options.database, 'rules')
  }

  /** @returns false where some changes could not be followed */
  async #readOnce(query: Query, answered: () => void): Promise<boolean> {
    const { database, now } = this.#options
    const source = { query, dialect: database.dialect }
    const isWhole = this.#overrides.isExpired
    if (isWhole) {
      await this.#overrides.readTable(query, now(), answered)
      await this.#ruleReader.readAll(source, answered)
    }
    if (!(await this.#overrides.readChanges(query))) return false
    if (!isWhole && !this.#overrides.hasChanges) {
      // A write that no change tells of was made without the triggers, and reported by hand.
      this.#overrides.expire()
      return false
    }
    await this.#ruleReader.readSome(source, [...this.#overrides.changedRules])
    return true
  }
}
