import { LoadReports, type LoadReportsOptions } from '../rules/load-reports.js'
import { Poll } from '../time/poll.js'
import { type Snapshot, SnapshotReader, type SnapshotReaderOptions } from './snapshot.js'

/** The longest wait of a write until it is in force, in milliseconds: 100,000 overrides may take seconds. */
const SWAP_TIMEOUT_MS = 60_000
/** The longest wait for the tables at start, in milliseconds: enough for thousands of rules. */
const WARM_UP_TIMEOUT_MS = 3_000

export interface CurrentSnapshotOptions extends SnapshotReaderOptions, LoadReportsOptions {
  /** How long a request waits for the tables, in milliseconds, before it uses the last good snapshot. */
  readonly timeoutMs: number
  /** Whether requests use it, so that it is read before the first one comes. */
  readonly isInUse: boolean
}

/**
 * The rules and overrides in force in this process. The tables are polled about once a second while there is traffic,
 * and a new snapshot replaces the previous one after a change. Where they cannot be read, the last good one stays.
 */
export class CurrentSnapshot {
  readonly #options: CurrentSnapshotOptions
  readonly #reader: SnapshotReader
  readonly #reports: LoadReports
  readonly #poll: Poll

  readonly #changed = () => this.refresh()

  constructor(options: CurrentSnapshotOptions) {
    this.#options = options
    this.#reader = new SnapshotReader(options)
    this.#reports = new LoadReports(options)
    this.#poll = new Poll({
      look: (answered) => this.#load(answered),
      failed: (error) => this.#reports.failed(error),
      now: options.now,
      timeoutMs: options.timeoutMs,
      maxAgeMs: options.ttlMs,
    })
    options.database.ruleListeners.add(this.#changed)
  }

  async start(): Promise<void> {
    if (this.#options.isInUse) await this.refresh(WARM_UP_TIMEOUT_MS)
  }

  /** Returns what is in force: at once, unless the last poll is too long ago. Never rejects. */
  at(nowMs: number): Snapshot | Promise<Snapshot> {
    const pending = this.#poll.pending(nowMs)
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
    await this.#poll.close()
  }

  async #load(answered: () => void): Promise<void> {
    const { rejected } = await this.#reader.load(answered)
    this.#reports.loaded(rejected)
    this.#reports.changed(this.#reader.takeLatestChanges())
  }
}
