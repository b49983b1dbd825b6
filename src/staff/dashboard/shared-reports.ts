import type { Clock } from '../../ground/time/clock.js'

/** The time for which pages that follow share a report. */
const REFRESH_MS = 5_000
/**
 * A report that takes long is shared for longer: so reading takes a thirtieth of the time at most, and with the answers
 * to twenty pages less than a twentieth.
 */
const LEAST_REST = 30
/** The most different pages, by window, filter and list, whose reports are kept. */
const MAX_REPORTS = 32

interface Shared<Result> {
  readonly result: Promise<Result>
  /** The times are both infinite while the report is being read. */
  freshUntilMs: number
  freshForMs: number
}

interface SharedReport<Result> {
  readonly result: Result
  /** The time for which no newer report will be read for pages that follow. */
  readonly freshForMs: number
}

/**
 * Reads reports once for all pages of this process that show the same. Nothing is read unless a page asks.
 */
export class SharedReports<Result> {
  readonly #clock: Clock
  readonly #shared = new Map<string, Shared<Result>>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /**
   * Returns the report of a page.
   *
   * @param name the same for all pages with the same report
   * @param isFollowing whether a report may be as old as pages that follow are refreshed
   */
  async read(name: string, isFollowing: boolean, read: () => Promise<Result>): Promise<SharedReport<Result>> {
    const existing = this.#shared.get(name)
    const leftMs = (existing?.freshUntilMs ?? 0) - this.#clock.now()
    // The clock may have been set back.
    const isFresh = existing !== undefined && isFollowing && leftMs > 0 && leftMs <= existing.freshForMs
    const shared = isFresh ? existing : this.#start(name, read)
    const result = await shared.result
    return { result, freshForMs: Math.max(0, shared.freshUntilMs - this.#clock.now()) }
  }

  #start(name: string, read: () => Promise<Result>): Shared<Result> {
    const startedMs = performance.now()
    const [freshUntilMs, freshForMs] = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY]
    const shared: Shared<Result> = { result: read(), freshUntilMs, freshForMs }
    this.#shared.delete(name)
    this.#shared.set(name, shared)
    for (const oldest of this.#shared.keys()) if (this.#shared.size > MAX_REPORTS) this.#shared.delete(oldest)
    shared.result.then(
      () => {
        const tookMs = performance.now() - startedMs
        // Whole: a fraction would be rounded when the time is added.
        shared.freshForMs = Math.max(REFRESH_MS, Math.ceil(LEAST_REST * tookMs))
        shared.freshUntilMs = this.#clock.now() + shared.freshForMs
      },
      // A report that failed is read again by the next page; whoever waits for it has the error.
      () => {
        if (this.#shared.get(name) === shared) this.#shared.delete(name)
      },
    )
    return shared
  }
}
