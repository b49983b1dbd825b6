import type { Check, Decision, Settlement } from './algorithm.js'
import type { Answers, BatchStore, SafeStore } from './batch-store.js'
import type { Fallback } from './fallback.js'
import type { FallbackDecisions } from './fallback-decisions.js'
import { holdsPermits } from './owed.js'
import { Recovery } from './recovery.js'
import { toSettlement } from './settlement.js'

export interface CircuitBreakerOptions {
  /** Decides when the store does not. */
  readonly fallback: Fallback
  readonly decisions: FallbackDecisions
  /** Takes a charge that the store was not asked for. */
  readonly owe: (charge: Check) => void
  /** Notes that the store answers again. */
  readonly onRecovery: () => void
  /** The name of the store's part that the breaker is for; empty for the whole store. */
  readonly part: string
  /** The clock of requests. */
  readonly now: () => number
  readonly log: { error(details: object, message: string): void; info(message: string): void }
}

/**
 * Replaces a failing store with the fallback, which decides at once. The store is probed in the background until it
 * answers. The beginning and the end of an outage are logged.
 */
export class CircuitBreaker implements SafeStore {
  readonly concurrency: number
  readonly #store: BatchStore
  readonly #options: CircuitBreakerOptions
  readonly #recovery: Recovery
  /** The last check that the store did not answer; undefined while it answers. */
  #unanswered: Check | undefined
  /** The time of the last failure or answer, and of the beginning of the outage. */
  #atMs = 0
  #sinceMs = 0
  /** The number of beginnings and ends of outages: the result of a batch from before the last of them is outdated. */
  #turn = 0
  /** The number of failed batches. */
  errors = 0

  constructor(store: BatchStore, options: CircuitBreakerOptions) {
    this.concurrency = store.concurrency
    this.#store = store
    this.#options = options
    this.#recovery = new Recovery({
      attempt: () => this.#probe(),
      over: () => this.#logEnd(),
      now: options.now,
    })
  }

  /** Whether the fallback decides now. */
  get isOpen(): boolean {
    return this.#unanswered !== undefined
  }

  decideLocally(check: Check, nowMs: number): Decision | undefined {
    if (this.#unanswered === undefined) return undefined
    // A check may fail for a reason of its own: the next probe has another one.
    this.#unanswered = check
    return this.#decideUnasked(check, nowMs)
  }

  check(checks: readonly Check[], nowMs: number): Answers | Promise<Answers> {
    if (this.isOpen) return checks.map((check) => this.#decideUnasked(check, nowMs))
    const turn = this.#turn
    try {
      const decisions = this.#store.check(checks, nowMs)
      if (!(decisions instanceof Promise)) return decisions
      return decisions.catch((error: unknown) => this.#failed(error, turn, checks, nowMs))
    } catch (error) {
      return this.#failed(error, turn, checks, nowMs)
    }
  }

  /** Gives back where it was decided: in both, where the decision is not known. */
  async settle(settlements: readonly Settlement[], nowMs: number): Promise<void> {
    const { fallback, decisions } = this.#options
    fallback.settle(settlements.filter(({ decision }) => decision === undefined || decisions.has(decision)))
    await this.#settleInStore(settlements, nowMs)
  }

  async #settleInStore(settlements: readonly Settlement[], nowMs: number): Promise<void> {
    const stored = settlements.flatMap((each) => this.#options.decisions.inStore(each) ?? [])
    if (stored.length === 0) return
    const turn = this.#turn
    try {
      await this.#store.settle?.(stored, nowMs)
    } catch (error) {
      this.#noteFailure(error, turn, stored, nowMs)
    }
  }

  /** Resets counters in the fallback, too, even when the store fails. */
  reset(keys: readonly string[]): void | Promise<void> {
    this.#options.fallback.reset(keys)
    return this.#store.reset(keys)
  }

  close(): void {
    this.#recovery.close()
  }

  /** Returns whether the store answers again. */
  async #probe(): Promise<boolean> {
    try {
      // A probe uses nothing: the fallback decided its request, which may be long over.
      this.#atMs = this.#options.now()
      if (this.#unanswered !== undefined) await this.#store.check([{ ...this.#unanswered, cost: 0 }], this.#atMs)
    } catch {
      this.errors++
      return false
    }
    this.#turn++
    this.#unanswered = undefined
    this.#options.onRecovery()
    return true
  }

  decideWithout(check: Check, nowMs: number): Decision {
    const decision = this.#decide(check, nowMs)
    // The store may have taken a reservation or permits all the same. An admitted request gives them back itself.
    if (!decision.allowed) {
      if (holdsPermits(check)) void this.settle([check], nowMs)
      else if (check.policy.reserves) void this.#settleInStore([toSettlement(check, decision, nowMs)], nowMs)
    }
    return decision
  }

  #decideUnasked(check: Check, nowMs: number): Decision {
    if (check.charges) this.#options.owe(check)
    return this.#decide(check, nowMs)
  }

  #decide(check: Check, nowMs: number): Decision {
    const decision = this.#options.fallback.decide(check, nowMs)
    this.#options.decisions.note(check, decision)
    return decision
  }

  #failed(error: unknown, turn: number, checks: readonly Check[], nowMs: number): Answers {
    this.#noteFailure(error, turn, checks, nowMs)
    return checks.map((check) => this.decideWithout(check, nowMs))
  }

  #noteFailure(error: unknown, turn: number, [check]: readonly Check[], nowMs: number): void {
    this.errors++
    if (turn !== this.#turn || check === undefined) return
    this.#turn++
    this.#unanswered = check
    this.#recovery.begin(nowMs, (intervalMs) => {
      this.#sinceMs = nowMs
      const tried = intervalMs === 1_000 ? 'once a second' : `every ${intervalMs / 1_000} s, since it soon failed again`
      const decides = this.#options.part === '' ? 'decides' : 'decides for its counters'
      this.#options.log.error(
        { err: error },
        `Rate limit store failed${this.#at}: onStoreError ${decides} until it answers again (tried ${tried})`,
      )
    })
  }

  #logEnd(): void {
    const seconds = Math.max(0, Math.round((this.#atMs - this.#sinceMs) / 1_000))
    this.#options.log.info(`Rate limit store answers again${this.#at}, after ${seconds} s`)
  }

  /** The part, for the log. */
  get #at(): string {
    const { part } = this.#options
    return part === '' ? '' : ` at ${part}`
  }
}
