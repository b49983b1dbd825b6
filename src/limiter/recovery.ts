/** The interval between two attempts. */
const INTERVAL_MS = 1_000
/** A failure within this time after an outage is a relapse: attempts are half as frequent as before. */
const RELAPSE_MS = 10_000
const LONGEST_INTERVAL_MS = 30_000

export interface RecoveryOptions {
  /** Attempts the failed work, and returns whether it works again. Never rejects, and ends. */
  readonly attempt: () => Promise<boolean>
  /** Notes that an outage is over. */
  readonly over: () => void
  /** The clock of requests. */
  readonly now: () => number
}

/** Attempts failed work in the background, once at a time: no request has to come for it, and none waits. */
export class Recovery {
  readonly #options: RecoveryOptions
  #intervalMs = INTERVAL_MS
  #endedMs = Number.NEGATIVE_INFINITY
  #attempt: NodeJS.Timeout | undefined
  /** The timer of an outage with relapses, which ends when the work has succeeded for long enough. */
  #steady: NodeJS.Timeout | undefined
  #isClosed = false

  constructor(options: RecoveryOptions) {
    this.#options = options
  }

  /**
   * Begins the attempts. Failures on and off are one outage from the second one on.
   *
   * @param begun called at the beginning of an outage
   */
  begin(nowMs: number, begun: (intervalMs: number) => void): void {
    // The clock may have been set back.
    const hasRelapsed = Math.abs(nowMs - this.#endedMs) < RELAPSE_MS
    this.#intervalMs = hasRelapsed ? Math.min(2 * this.#intervalMs, LONGEST_INTERVAL_MS) : INTERVAL_MS
    if (this.#steady === undefined) begun(this.#intervalMs)
    clearTimeout(this.#steady)
    this.#steady = undefined
    this.#schedule()
  }

  close(): void {
    this.#isClosed = true
    clearTimeout(this.#attempt)
    clearTimeout(this.#steady)
  }

  #schedule(): void {
    if (!this.#isClosed) this.#attempt = setTimeout(() => void this.#tryAgain(), this.#intervalMs).unref()
  }

  async #tryAgain(): Promise<void> {
    if (await this.#options.attempt()) this.#end()
    else this.#schedule()
  }

  #end(): void {
    this.#endedMs = this.#options.now()
    if (this.#intervalMs === INTERVAL_MS) this.#options.over()
    else if (!this.#isClosed) this.#steady = setTimeout(() => this.#steadied(), RELAPSE_MS).unref()
  }

  #steadied(): void {
    this.#steady = undefined
    this.#options.over()
  }
}
