import { setTimeout as delay } from 'node:timers/promises'
import { Freshness } from '../db/freshness.js'
import { patientTimeout } from '../limiter/patient-timeout.js'
import { LoadReports, type LoadReportsOptions, type RejectedRow } from './load-reports.js'

/** What a table was read into. */
interface Loaded {
  readonly rejected: readonly RejectedRow[]
}

export interface RuleCacheOptions<Read extends Loaded, RuleSet> extends LoadReportsOptions {
  /** The rules in force before the table has been read. */
  readonly empty: RuleSet
  /**
   * @param previous what was loaded before, to be answered again where nothing changed
   * @param onRows to be called when the table has answered
   */
  readonly load: (previous: Read | undefined, onRows: () => void) => Promise<Read>
  readonly compile: (loaded: Read, previous: RuleSet) => Promise<RuleSet>
  /** How long a set is used before it is read again, in milliseconds. */
  readonly ttlMs: number
  /** How long a request waits for the table, in milliseconds, before it goes on with the last good set. */
  readonly timeoutMs: number
}

/** How long a table that failed is left alone. */
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
 * The active rules, or the overrides, in process memory. One load at a time; an invalidation during a load makes it
 * read again, so that whoever asks afterwards sees the change. A load that fails keeps the last good set, or none where
 * there was none.
 */
export class RuleCache<Read extends Loaded, RuleSet> {
  readonly #options: RuleCacheOptions<Read, RuleSet>
  #set: RuleSet
  #loaded: Read | undefined
  #readAtMs: number | undefined
  readonly #freshness = new Freshness()
  #loading: Promise<RuleSet> | undefined
  #invalidations = 0
  readonly #reports: LoadReports
  /**
   * Requests that wait for the rules being read, with the invalidations there had been when they came. They are let go
   * when there is too much to compile.
   */
  readonly #waiting = new Map<() => void, number>()
  #isCompilingLong = false
  #compiling: NodeJS.Timeout | undefined

  constructor(options: RuleCacheOptions<Read, RuleSet>) {
    this.#options = options
    this.#reports = new LoadReports(options)
    this.#set = options.empty
  }

  /** The rules in force: at once while they are fresh, else after reading them. Never rejects. */
  current(nowMs: number): RuleSet | Promise<RuleSet> {
    if (this.#freshness.covers(nowMs)) return this.#set
    const loading = this.#load(nowMs)
    // While the table fails, or very much is compiled, nobody waits for it: the set is replaced when it is there.
    return this.#reports.isFailing || this.#isCompilingLong ? this.#set : this.#untilTimeout(loading, nowMs)
  }

  /** The last good rules, whatever their age. */
  lastGood(): RuleSet {
    return this.#set
  }

  /** When the table was last read, by the clock of those who asked for it; undefined when it never was. */
  get readAtMs(): number | undefined {
    return this.#readAtMs
  }

  /** Whether the table could not be read when it was last tried. */
  get isFailing(): boolean {
    return this.#reports.isFailing
  }

  /** Reads and compiles the rules before the first request, which reads them again, and finds little to do. Never rejects. */
  async warm(nowMs: number): Promise<void> {
    const { load, compile } = this.#options
    try {
      const loaded = await load(this.#loaded, () => undefined)
      const set = await compile(loaded, this.#set)
      if (this.#loaded !== undefined) return
      this.#set = set
      this.#loaded = loaded
      this.#readAtMs = nowMs
    } catch {
      // Whoever needs the rules meets the failure and reports it.
    }
  }

  /** The next request reads the table. */
  invalidate(): void {
    this.#invalidations++
    this.#freshness.end()
  }

  /** Reads the table now. */
  reload(nowMs: number): Promise<RuleSet> {
    this.invalidate()
    return this.#load(nowMs)
  }

  #load(nowMs: number): Promise<RuleSet> {
    this.#loading ??= this.#loadUntilSettled(nowMs).finally(() => {
      this.#loading = undefined
      this.#settleCompiling()
    })
    return this.#loading
  }

  async #loadUntilSettled(nowMs: number): Promise<RuleSet> {
    const { load, compile, ttlMs, timeoutMs } = this.#options
    for (let round = 1; ; round++) {
      const invalidations = this.#invalidations
      try {
        const loaded = await load(this.#loaded, () => this.#boundCompiling())
        this.#reports.loaded(loaded.rejected)
        if (loaded !== this.#loaded) this.#set = await compile(loaded, this.#set)
        this.#loaded = loaded
        this.#readAtMs = nowMs
      } catch (error) {
        this.#freshness.start(nowMs, Math.min(ttlMs, RETRY_MS))
        this.#reports.failed(error)
        return this.#set
      }
      if (invalidations === this.#invalidations) {
        this.#freshness.start(nowMs, ttlMs)
        return this.#set
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

  #untilTimeout(loading: Promise<RuleSet>, nowMs: number): Promise<RuleSet> {
    return new Promise((resolve) => {
      const letGo = () => {
        clearTimeout(timer)
        this.#waiting.delete(letGo)
        resolve(this.#set)
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
