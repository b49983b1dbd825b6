import { patientTimeout } from '../limiter/patient-timeout.js'
import { Freshness } from './freshness.js'

/** How often the revision is read while there is traffic: about once a second, not by all processes at once. */
const INTERVAL_MS = 1_000
const JITTER = 0.2
/** How old what a request is answered by may be: less than the two seconds in which a change reaches all processes. */
const FRESH_MS = 1_900
/** How long a database that failed is left alone by requests. */
const RETRY_MS = 1_000

export interface RevisionPollOptions {
  readonly read: () => Promise<number>
  /** Called when the revision is another than before; and when it is read for the first time. */
  readonly changed: () => void
  /** The clock that requests are timed by. */
  readonly now: () => number
  /** How long a request waits for the revision, in milliseconds. */
  readonly timeoutMs: number
}

/**
 * Notices what other processes change: rules and overrides, or counters that they reset, wherever the revision of
 * either is kept. The revision is read about once a second, but only while there is traffic; the first request after a
 * quiet time waits until it has been read. A failure is silent: what is cached expires anyway.
 */
export class RevisionPoll {
  readonly #options: RevisionPollOptions
  #revision: number | undefined
  readonly #freshness = new Freshness()
  #reading: Promise<void> | undefined
  #timer: NodeJS.Timeout | undefined
  #isFailing = false
  #hasTraffic = false
  #isClosed = false

  constructor(options: RevisionPollOptions) {
    this.#options = options
  }

  /**
   * Undefined, nearly always, when what is known is fresh enough. Otherwise resolves when it has been looked at, to
   * false when the database did not answer in time. Never rejects.
   */
  fresh(nowMs: number): Promise<boolean> | undefined {
    if (this.#isKnown(nowMs)) return undefined
    const reading = this.#poll()
    // While the database fails nobody waits for it.
    return this.#isFailing ? undefined : this.#untilTimeout(reading, nowMs)
  }

  /** The same for those who do not wait: whether what is known is fresh enough. Otherwise it is being looked at. */
  isFresh(nowMs: number): boolean {
    if (this.#isKnown(nowMs)) return true
    void this.#poll()
    return this.#isFailing
  }

  #isKnown(nowMs: number): boolean {
    this.#hasTraffic = true
    return this.#isClosed || this.#freshness.covers(nowMs)
  }

  close(): void {
    this.#isClosed = true
    clearTimeout(this.#timer)
    this.#timer = undefined
  }

  #poll(): Promise<void> {
    this.#schedule()
    this.#reading ??= this.#read().finally(() => {
      this.#reading = undefined
    })
    return this.#reading
  }

  async #read(): Promise<void> {
    const startedMs = this.#options.now()
    try {
      const revision = await this.#options.read()
      if (this.#isClosed) return
      this.#isFailing = false
      // As of when it was asked for: a change may have come while it was read.
      this.#freshness.start(startedMs, FRESH_MS)
      if (revision === this.#revision) return
      this.#revision = revision
      this.#options.changed()
    } catch {
      this.#failed(this.#options.now())
    }
  }

  #failed(nowMs: number): void {
    this.#isFailing = true
    this.#freshness.start(nowMs, RETRY_MS)
  }

  #schedule(): void {
    if (this.#isClosed || this.#timer !== undefined) return
    const delayMs = INTERVAL_MS * (1 - JITTER + 2 * JITTER * Math.random())
    this.#timer = setTimeout(() => this.#tick(), delayMs).unref()
  }

  #tick(): void {
    this.#timer = undefined
    if (!this.#hasTraffic) return
    this.#hasTraffic = false
    void this.#poll()
  }

  #untilTimeout(reading: Promise<void>, nowMs: number): Promise<boolean> {
    return new Promise((resolve) => {
      const timer = patientTimeout(() => {
        this.#failed(nowMs)
        resolve(false)
      }, this.#options.timeoutMs)
      void reading.then(() => {
        clearTimeout(timer)
        resolve(true)
      })
    })
  }
}
