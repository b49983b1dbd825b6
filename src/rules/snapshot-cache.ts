import { setTimeout as delay } from 'node:timers/promises'
import { Freshness } from '../db/freshness.js'
import { patientTimeout } from '../limiter/patient-timeout.js'
import { LoadReports, type LoadReportsOptions, type RejectedRow } from './load-reports.js'

/** What the tables were read into. */
interface Loaded {
  readonly rejected: readonly RejectedRow[]
}

export interface SnapshotCacheOptions<Snapshot extends Loaded> extends LoadReportsOptions {
  /** What is in force before the tables have been read. */
  readonly empty: Snapshot
  /**
   * Reads the tables, and compiles what they have: the snapshot of before where nothing changed.
   *
   * @param onRows to be called when the tables have answered
   */
  readonly load: (onRows: () => void) => Promise<Snapshot>
  /** How long a snapshot is used before the tables are read again, in milliseconds. */
  readonly ttlMs: number
  /** How long a request waits for the tables, in milliseconds, before it goes on with the last good snapshot. */
  readonly timeoutMs: number
}

/** How long tables that failed are left alone. */
const RETRY_MS = 1_000
/** How long a request waits for rules that have been read to be compiled; thousands of new ones take longer. */
const COMPILING_MS = 25
/**
 * How long the table is left alone when it was changed during one reading after the other, in milliseconds: whoever
 * writes thousands of rows one by one would have it read all the time. Long enough that reading and compiling ten
 * thousand rules leaves time for requests, and short enough for a change to be obeyed soon.
 */
const PAUSE_MS = 100

/**
 * The snapshot of rules and overrides in force, in process memory. One load at a time; an invalidation during a load
 * makes it read again, so that a request that comes afterwards sees the change. A load that fails keeps the last good
 * snapshot, or the empty one.
 */
export class SnapshotCache<Snapshot extends Loaded> {
  readonly #options: SnapshotCacheOptions<Snapshot>
  #snapshot: Snapshot
  #readAtMs: number | undefined
  readonly #freshness = new Freshness()
  #loading: Promise<Snapshot> | undefined
  #invalidations = 0
  readonly #reports: LoadReports
  /**
   * Requests that wait for the tables, with the invalidations there had been when they came. They are let go when there
   * is too much to compile.
   */
  readonly #waiting = new Map<() => void, number>()
  #isCompilingLong = false
  #compiling: NodeJS.Timeout | undefined

  constructor(options: SnapshotCacheOptions<Snapshot>) {
    this.#options = options
    this.#reports = new LoadReports(options)
    this.#snapshot = options.empty
  }

  /** What is in force: at once while it is fresh, else after reading the tables. Never rejects. */
  current(nowMs: number): Snapshot | Promise<Snapshot> {
    if (this.#freshness.covers(nowMs)) return this.#snapshot
    const loading = this.#load(nowMs)
    // While the tables fail, or very much is compiled, no request waits: the snapshot is replaced when the next is there.
    return this.#reports.isFailing || this.#isCompilingLong ? this.#snapshot : this.#untilTimeout(loading, nowMs)
  }

  /** The last good snapshot, whatever its age. */
  lastGood(): Snapshot {
    return this.#snapshot
  }

  /** When the tables were last read, by the clock of the requests; undefined when they never were. */
  get readAtMs(): number | undefined {
    return this.#readAtMs
  }

  /** Whether the tables could not be read when that was last tried. */
  get isFailing(): boolean {
    return this.#reports.isFailing
  }

  /** Reads and compiles all before the first request, which reads it again, and finds little to do. Never rejects. */
  async warm(nowMs: number): Promise<void> {
    try {
      const snapshot = await this.#options.load(() => undefined)
      if (this.#readAtMs !== undefined) return
      this.#snapshot = snapshot
      this.#readAtMs = nowMs
    } catch {
      // The first request meets the failure and reports it.
    }
  }

  /** The next request reads the tables. */
  invalidate(): void {
    this.#invalidations++
    this.#freshness.end()
  }

  /** Reads the tables now. */
  reload(nowMs: number): Promise<Snapshot> {
    this.invalidate()
    return this.#load(nowMs)
  }

  #load(nowMs: number): Promise<Snapshot> {
    this.#loading ??= this.#loadUntilSettled(nowMs).finally(() => {
      this.#loading = undefined
      this.#settleCompiling()
    })
    return this.#loading
  }

  async #loadUntilSettled(nowMs: number): Promise<Snapshot> {
    const { load, ttlMs, timeoutMs } = this.#options
    for (let round = 1; ; round++) {
      const invalidations = this.#invalidations
      try {
        this.#snapshot = await load(() => this.#boundCompiling())
        this.#reports.loaded(this.#snapshot.rejected)
        this.#readAtMs = nowMs
      } catch (error) {
        this.#freshness.start(nowMs, Math.min(ttlMs, RETRY_MS))
        this.#reports.failed(error)
        return this.#snapshot
      }
      if (invalidations === this.#invalidations) {
        this.#freshness.start(nowMs, ttlMs)
        return this.#snapshot
      }
      // Changed meanwhile: what was read may be older than the change, though newer than what was in force.
      this.#stopBoundingCompiling()
      if (round === 1) continue
      this.#letGoOfThoseBefore(invalidations)
      // A pause is no time-out of the requests that wait.
      await delay(Math.min(PAUSE_MS, timeoutMs / 4))
    }
  }

  /** Those who came before the last reading began need not wait for the next. */
  #letGoOfThoseBefore(invalidations: number): void {
    for (const [letGo, known] of this.#waiting) if (known <= invalidations) letGo()
  }

  #boundCompiling(): void {
    if (this.#compiling !== undefined || this.#isCompilingLong) return
    this.#compiling = patientTimeout(() => {
      this.#isCompilingLong = true
      for (const letGo of this.#waiting.keys()) letGo()
    }, COMPILING_MS)
  }

  #stopBoundingCompiling(): void {
    clearTimeout(this.#compiling)
    this.#compiling = undefined
  }

  #settleCompiling(): void {
    this.#stopBoundingCompiling()
    this.#isCompilingLong = false
  }

  #untilTimeout(loading: Promise<Snapshot>, nowMs: number): Promise<Snapshot> {
    return new Promise((resolve) => {
      const letGo = () => {
        clearTimeout(timer)
        this.#waiting.delete(letGo)
        resolve(this.#snapshot)
      }
      const timer = patientTimeout(() => {
        this.#freshness.start(nowMs, RETRY_MS)
        this.#reports.failed(new Error('no answer in time'))
        letGo()
      }, this.#options.timeoutMs)
      this.#waiting.set(letGo, this.#invalidations)
      void loading.then(letGo)
    })
  }
}
