import { patientTimeout } from './patient-timeout.js'

/** How often is looked while there is traffic: about once a second, not by all processes at once. */
const INTERVAL_MS = 1_000
const JITTER = 0.2
/** How old what a request is answered by may be: less than the two seconds in which a change reaches all processes. */
const FRESH_MS = 1_900
/** How long a source that failed is left alone by requests. */
const RETRY_MS = 1_000

export interface PollOptions {
  /**
   * Looks at the source, and makes known what is new there. A rejection is a failure of the source.
   *
   * @param answered to be called when the source has answered, where much work of this process follows: requests that
   * come from then on do not wait for it
   */
  readonly look: (answered: () => void) => Promise<void>
  /** Called with what was wrong when the source failed, or did not answer a request in time. */
  readonly failed?: (error: unknown) => void
  /** The clock that requests are timed by. */
  readonly now: () => number
  /** How long a request waits, in milliseconds. */
  readonly timeoutMs: number
  /** How old what a request is answered by may be, in milliseconds, where that is less than 1.9 seconds. */
  readonly maxAgeMs?: number
}

/**
 * Keeps what a process knows of a source up to date: it looks about once a second, but only while there is traffic; the
 * first request after a quiet time waits for a look. While the source fails no request waits.
 */
export class Poll {
  readonly #options: PollOptions
  readonly #freshMs: number
  /** When the last look began that has ended well; what it saw is known from then on. */
  #seenAtMs: number | undefined
  /** Until when a source that failed is left alone. */
  #retryAtMs: number | undefined
  /** What is known was called old: a look has to begin after that. */
  #isExpired = false
  #looking: Promise<void> | undefined
  #hasAnswered = false
  #following: Promise<void> | undefined
  #timer: NodeJS.Timeout | undefined
  #hasTraffic = false
  #isClosed = false

  constructor(options: PollOptions) {
    this.#options = options
    this.#freshMs = Math.min(options.maxAgeMs ?? FRESH_MS, FRESH_MS)
  }

  /** Whether the source failed when it was last looked at. */
  get isFailing(): boolean {
    return this.#retryAtMs !== undefined
  }

  /** When the last look began that has ended well; undefined before the first. */
  get seenAtMs(): number | undefined {
    return this.#seenAtMs
  }

  /** Whether what is known is fresh enough, or the source fails. Otherwise it is being looked at. */
  isFresh(nowMs: number): boolean {
    if (this.#isKnown(nowMs)) return true
    void (this.#looking ?? this.#look())
    return this.isFailing
  }

  /** Undefined, nearly always, when no request has to wait; otherwise resolves when it need not wait any longer. */
  pending(nowMs: number): Promise<void> | undefined {
    if (this.#isKnown(nowMs)) return undefined
    const waitsForAll = this.#isExpired
    const look = waitsForAll ? this.#lookAgain() : (this.#looking ?? this.#look())
    return this.isFailing || (this.#hasAnswered && !waitsForAll) ? undefined : this.#untilTimeout(look)
  }

  /** Resolves after a look that begins from now on, to whatever end, or when that takes too long. */
  refresh(timeoutMs = this.#options.timeoutMs): Promise<void> {
    return this.#untilTimeout(this.#lookAgain(), timeoutMs)
  }

  /** The next request waits for a look that begins from now on. */
  expire(): void {
    this.#isExpired = true
  }

  close(): void {
    this.#isClosed = true
    clearTimeout(this.#timer)
    this.#timer = undefined
  }

  /** Never before the moment when it was seen: where the clock was set back, how old it is is not known. */
  #isKnown(nowMs: number): boolean {
    this.#hasTraffic = true
    if (this.#isClosed) return true
    if (this.#isExpired) return false
    if (this.#retryAtMs !== undefined) return nowMs < this.#retryAtMs && nowMs >= this.#retryAtMs - RETRY_MS
    return this.#seenAtMs !== undefined && nowMs >= this.#seenAtMs && nowMs < this.#seenAtMs + this.#freshMs
  }

  /** Looks once more, after a look that is under way. */
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
    this.#isExpired = false
    this.#looking = this.#lookOnce().finally(() => {
      this.#looking = undefined
    })
    return this.#looking
  }

  async #lookOnce(): Promise<void> {
    // As of when it was asked for: a change may come while it is read.
    const startedMs = this.#options.now()
    this.#hasAnswered = false
    try {
      await this.#options.look(() => {
        this.#hasAnswered = true
      })
      this.#seenAtMs = startedMs
      this.#retryAtMs = undefined
    } catch (error) {
      this.#fail(error)
    }
    this.#hasAnswered = false
  }

  #fail(error: unknown): void {
    this.#retryAtMs = this.#options.now() + RETRY_MS
    this.#options.failed?.(error)
  }

  #untilTimeout(look: Promise<void>, timeoutMs = this.#options.timeoutMs): Promise<void> {
    return new Promise((resolve) => {
      const timer = patientTimeout(() => {
        if (!this.#hasAnswered) this.#fail(new Error('no answer in time'))
        resolve()
      }, timeoutMs)
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
    if (this.#looking === undefined) void this.#look()
    else this.#schedule()
  }
}
