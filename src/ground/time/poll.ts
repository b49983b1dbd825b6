import { patientTimeout } from './cooperative-yield.js'

/** The interval while there is traffic: about once a second, with jitter, so that processes do not poll together. */
const INTERVAL_MS = 1_000
const JITTER = 0.2
/** The greatest age of what a request uses: less than the two seconds in which a change reaches all processes. */
const FRESH_MS = 1_900
/** A source has failed that has not answered for so long, in milliseconds. Until then it is slow, as on a busy machine. */
const HANGING_MS = 10_000
/** The time for which requests do not wait for a failed source. */
const RETRY_MS = 1_000

export interface PollOptions {
  /**
   * Reads the source and publishes its changes. A rejection is a failure of the source.
   *
   * @param answered to be called when the source has answered and much work of this process follows: later requests do
   * not wait for that work
   */
  readonly look: (answered: () => void) => Promise<void>
  /** Takes the error when the source failed, or did not answer for ten seconds. */
  readonly failed?: (error: unknown) => void
  /** The clock of requests. */
  readonly now: () => number
  /** The longest wait of a request, in milliseconds. */
  readonly timeoutMs: number
  /** The greatest age of what a request uses, in milliseconds, where that is less than 1.9 seconds. */
  readonly maxAgeMs?: number
}

/**
 * Keeps a process up to date with a source: it polls about once a second, but only while there is traffic; the first
 * request after a quiet time waits for a poll. While the source fails no request waits.
 */
export class Poll {
  readonly #options: PollOptions
  readonly #freshMs: number
  /** The start of the last successful poll: its result is of that moment. */
  #seenAtMs: number | undefined
  /** The time at which a failed source is polled again. */
  #retryAtMs: number | undefined
  /**
   * The number of times that the state was expired; that before the last poll that has ended began, and before the one
   * under way.
   */
  #expiries = 0
  #expiriesSeen = 0
  #expiriesUnderWay = 0
  #looking: Promise<void> | undefined
  #hasAnswered = false
  /** Whether a request has waited as long as it may for the poll under way: others do not wait. */
  #isLate = false
  /** Whether another poll was due while one was under way. */
  #isDue = false
  #following: Promise<void> | undefined
  #timer: NodeJS.Timeout | undefined
  #hasTraffic = false
  #isClosed = false

  constructor(options: PollOptions) {
    this.#options = options
    this.#freshMs = Math.min(options.maxAgeMs ?? FRESH_MS, FRESH_MS)
  }

  /** Whether the last poll failed. */
  get isFailing(): boolean {
    return this.#retryAtMs !== undefined
  }

  /** The start of the last successful poll; undefined before the first. */
  get seenAtMs(): number | undefined {
    return this.#seenAtMs
  }

  /** Returns whether the state is fresh enough, or the source fails or is late. Otherwise a poll is under way. */
  isFresh(nowMs: number): boolean {
    if (this.isKnown(nowMs)) return true
    void (this.#looking ?? this.#look())
    return this.isFailing || this.#isLate
  }

  /**
   * Returns undefined when the request need not wait; otherwise a promise of the end of its wait.
   *
   * @param waitedMs how long it has waited before, which is a part of the longest wait
   */
  pending(nowMs: number, waitedMs = 0): Promise<void> | undefined {
    if (this.isKnown(nowMs)) return undefined
    const isLate = this.#looking !== undefined && this.#expiriesUnderWay !== this.#expiries
    const look = isLate ? this.#lookAgain() : (this.#looking ?? this.#look())
    const isAwaited = !this.isFailing && !this.#isLate && (!this.#hasAnswered || this.#isExpired)
    return isAwaited ? this.#untilTimeout(look, undefined, waitedMs) : undefined
  }

  /** Resolves after a poll that begins from now on, successful or not, or when that takes too long. */
  refresh(timeoutMs: number): Promise<void> {
    return this.#untilTimeout(this.#lookAgain(), timeoutMs)
  }

  /** Makes the next request wait for a poll that begins from now on. */
  expire(): void {
    this.#expiries++
  }

  get #isExpired(): boolean {
    return this.#expiriesSeen !== this.#expiries
  }

  /** Resolves when no poll is under way. */
  async close(): Promise<void> {
    this.#isClosed = true
    clearTimeout(this.#timer)
    this.#timer = undefined
    await this.#looking
  }

  /** Returns whether no poll is needed. One is needed where the clock was set back, since the age is unknown then. */
  isKnown(nowMs: number): boolean {
    this.#hasTraffic = true
    if (this.#isClosed) return true
    if (this.#expiriesSeen !== this.#expiries) return false
    if (this.#retryAtMs !== undefined) return nowMs < this.#retryAtMs && nowMs >= this.#retryAtMs - RETRY_MS
    return this.#seenAtMs !== undefined && nowMs >= this.#seenAtMs && nowMs < this.#seenAtMs + this.#freshMs
  }

  /** Polls again, after a poll that is under way. */
  #lookAgain(): Promise<void> {
    if (this.#looking === undefined) return this.#look()
    this.#following ??= this.#looking.then(() => {
      this.#following = undefined
      return this.#looking ?? this.#look()
    })
    return this.#following
  }

  #look(): Promise<void> {
    if (this.#isClosed) return Promise.resolve()
    this.#schedule()
    this.#expiriesUnderWay = this.#expiries
    this.#looking = this.#lookOnce().finally(() => {
      this.#looking = undefined
      if (!this.#isDue) return
      this.#isDue = false
      if (!this.isFailing) void this.#look()
    })
    return this.#looking
  }

  async #lookOnce(): Promise<void> {
    // The state counts as of the start, since a change may come while it is read.
    const startedMs = this.#options.now()
    this.#hasAnswered = false
    const hanging = setTimeout(() => {
      if (!this.#hasAnswered) this.#fail(new Error('no answer for ten seconds'))
    }, HANGING_MS).unref()
    try {
      await this.#options.look(() => {
        this.#hasAnswered = true
      })
      this.#seenAtMs = startedMs
      this.#retryAtMs = undefined
    } catch (error) {
      this.#fail(error)
    }
    clearTimeout(hanging)
    this.#hasAnswered = false
    this.#isLate = false
    this.#expiriesSeen = this.#expiriesUnderWay
  }

  #fail(error: unknown): void {
    this.#retryAtMs = this.#options.now() + RETRY_MS
    this.#options.failed?.(error)
  }

  #untilTimeout(look: Promise<void>, timeoutMs = this.#options.timeoutMs, waitedMs = 0): Promise<void> {
    return new Promise((resolve) => {
      const giveUp = () => {
        // A request that has waited before says nothing of the source.
        if (!this.#hasAnswered && waitedMs === 0) this.#isLate = true
        resolve()
      }
      const timer = patientTimeout(giveUp, Math.max(2, timeoutMs - waitedMs))
      void look.then(() => {
        clearTimeout(timer)
        resolve()
      })
    })
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
    if (this.#looking === undefined) {
      void this.#look()
      return
    }
    this.#isDue = true
    this.#schedule()
  }
}
