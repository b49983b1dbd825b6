import { type Check, type Decision, isRate, type Settlement } from './algorithm.js'
import type { Fallback } from './fallback.js'
import type { BatchStore, WrappedStore } from './limiter.js'
import { holdsPlaces } from './owed-places.js'

/** The interval at which a failed store is tried again. */
const PROBE_INTERVAL_MS = 1_000
const FAILED = 'Rate limit store failed: onStoreError decides until it answers again (tried once a second)'

export interface CircuitBreakerOptions {
  /** Decides when the store does not. */
  readonly fallback: Fallback
  /** Called when the store answers again. */
  readonly onRecovery: () => void
  readonly log: { error(details: object, message: string): void; info(message: string): void }
}

/** Since when the store fails, and when it may be tried again; by the clock of the checks. */
interface Outage {
  readonly sinceMs: number
  probeAtMs: number
}

/**
 * Replaces a failing store with the fallback, which decides at once. The store receives one probe a second until it
 * answers one. The beginning and the end of an outage are logged.
 */
export class CircuitBreaker implements WrappedStore {
  readonly concurrency: number
  readonly #store: BatchStore
  readonly #options: CircuitBreakerOptions
  #outage: Outage | undefined
  /** How many outages have begun or ended. The result of a batch that was sent before the last of these is out of date. */
  #turn = 0
  /** How many batches have failed. */
  errors = 0

  constructor(store: BatchStore, options: CircuitBreakerOptions) {
    this.concurrency = store.concurrency
    this.#store = store
    this.#options = options
  }

  /** Whether the fallback decides now. */
  get isOpen(): boolean {
    return this.#outage !== undefined
  }

  known(check: Check, nowMs: number): Decision | undefined {
    if (this.#outage === undefined) return undefined
    const untilProbeMs = this.#outage.probeAtMs - nowMs
    // The request does not wait for the probe. The clock may have been set back.
    if (untilProbeMs <= 0 || untilProbeMs > PROBE_INTERVAL_MS) void this.#probe(this.#outage, check, nowMs)
    return this.#options.fallback.decide(check, nowMs)
  }

  check(checks: readonly Check[], nowMs: number): readonly Decision[] | Promise<readonly Decision[]> {
    if (this.#outage !== undefined) return this.#decide(checks, nowMs)
    const turn = this.#turn
    try {
      const decisions = this.#store.check(checks, nowMs)
      if (!(decisions instanceof Promise)) return decisions
      return decisions.catch((error: unknown) => this.#failed(error, turn, checks, nowMs))
    } catch (error) {
      return this.#failed(error, turn, checks, nowMs)
    }
  }

  /** Gives back in the fallback, too, which may have decided. */
  async settle(settlements: readonly Settlement[], nowMs: number): Promise<void> {
    this.#options.fallback.settle(settlements)
    const turn = this.#turn
    try {
      await this.#store.settle?.(settlements, nowMs)
    } catch (error) {
      this.#noteFailure(error, turn, nowMs)
    }
  }

  /** Resets counters in the fallback, too, even when the store fails. */
  reset(keys: readonly string[]): void | Promise<void> {
    this.#options.fallback.reset(keys)
    return this.#store.reset(keys)
  }

  async #probe(outage: Outage, check: Check, nowMs: number): Promise<void> {
    outage.probeAtMs = nowMs + PROBE_INTERVAL_MS
    const turn = this.#turn
    try {
      // No one would give back what a probe takes.
      await this.#store.check([isRate(check.policy) ? check : { ...check, cost: 0 }], nowMs)
      if (turn === this.#turn) this.#end(outage, nowMs)
    } catch {
      this.errors++
    }
  }

  #failed(error: unknown, turn: number, checks: readonly Check[], nowMs: number): readonly Decision[] {
    this.#noteFailure(error, turn, nowMs)
    const decisions = this.#decide(checks, nowMs)
    // The store may have taken places all the same. Of those that are admitted the end is settled.
    const refused = checks.filter((_check, index) => decisions[index]?.allowed === false).filter(holdsPlaces)
    if (refused.length > 0) void this.settle(refused, nowMs)
    return decisions
  }

  #decide(checks: readonly Check[], nowMs: number): readonly Decision[] {
    return checks.map((check) => this.#options.fallback.decide(check, nowMs))
  }

  #noteFailure(error: unknown, turn: number, nowMs: number): void {
    this.errors++
    if (turn !== this.#turn) return
    this.#turn++
    this.#outage = { sinceMs: nowMs, probeAtMs: nowMs + PROBE_INTERVAL_MS }
    this.#options.log.error({ err: error }, FAILED)
  }

  #end({ sinceMs }: Outage, nowMs: number): void {
    this.#turn++
    this.#outage = undefined
    this.#options.onRecovery()
    const seconds = Math.max(0, Math.round((nowMs - sinceMs) / 1000))
    this.#options.log.info(`Rate limit store answers again, after ${seconds} s`)
  }
}
