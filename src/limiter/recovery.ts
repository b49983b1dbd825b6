/** The interval at which something that failed is tried again. */
const INTERVAL_MS = 1_000
/** What fails again within this time has relapsed: it is tried half as often as before, and at least this often. */
const RELAPSE_MS = 10_000
const LONGEST_INTERVAL_MS = 30_000

export interface RecoveryOptions {
  /** Returns whether what failed works again. It never rejects, and ends. */
  readonly attempt: () => Promise<boolean>
  /** Called when an outage is over. */
  readonly over: () => void
  /** The clock of requests. */
  readonly now: () => number
}

/** Tries again in the background, one attempt at a time: no request has to come for it, and none waits. */
export class Recovery {
  readonly #options: RecoveryOptions
  #intervalMs = INTERVAL_MS
  #endedMs = Number.NEGATIVE_INFINITY
  #attempt: NodeJS.Timeout | undefined
  /** Runs until what relapsed before has worked for long enough. */
  #steady: NodeJS.Timeout | undefined
  #isClosed = false

  constructor(options: RecoveryOptions) {
    this.#options = options
  }

  /**
   * Begins the attempts. What fails on and off is one outage from its second failure on.
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
