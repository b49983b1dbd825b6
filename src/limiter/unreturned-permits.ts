import { type Check, isPlain, isRate, type Settlement } from './algorithm.js'
import type { Answers, BatchStore } from './batch-store.js'

/** The most settlements that are kept, of about 200 bytes each. Permits beyond them are free after their period. */
const MAX_OWED = 10_000
/** The most settlements that are sent at once, so that checks do not wait long. */
const MAX_SENT = 512

/**
 * Gives permits back that a failing store may hold for requests that have ended, or were never admitted, once it answers
 * again, unless their period has freed them. Giving back permits that were not taken changes nothing. Permits that a store
 * takes later, for a batch that it had not answered in time, are given back when it does answer.
 */
export class UnreturnedPermits implements BatchStore {
  readonly concurrency: number
  readonly #store: BatchStore
  readonly #untilMs = new Map<Settlement, number>()
  /** The checks of ended requests. */
  readonly #ended = new WeakSet<Check>()
  /** Whether the store has failed since it answered last. */
  #fails = false

  constructor(store: BatchStore) {
    this.concurrency = store.concurrency
    this.#store = store
  }

  check(checks: readonly Check[], nowMs: number): Answers | Promise<Answers> {
    const decisions = this.#store.check(checks, nowMs)
    if (!(decisions instanceof Promise)) return decisions
    return decisions.then(
      (answered) => {
        this.#fails = false
        if (this.#untilMs.size > 0) this.#giveBack(nowMs)
        return answered
      },
      (error: unknown) => {
        this.#fails = true
        throw error
      },
    )
  }

  /** Settles, but for a failing store: it forgets rates by itself, and gets permits back when it answers again. */
  async settle(settlements: readonly Settlement[], nowMs: number): Promise<void> {
    for (const settlement of settlements) if (holdsPermits(settlement)) this.#ended.add(settlement)
    if (this.#fails) {
      this.#owe(settlements, nowMs)
      return
    }
    try {
      await this.#store.settle?.(settlements, nowMs)
    } catch (error) {
      this.#fails = true
      this.#owe(settlements, nowMs)
      throw error
    }
  }

  reset(keys: readonly string[]): void | Promise<void> {
    return this.#store.reset(keys)
  }

  /** Gives back what a batch that had failed has taken after all, for requests that have ended since. */
  answeredLate(checks: readonly Check[], nowMs: number): void {
    this.#owe(
      checks.filter((check) => this.#ended.has(check)),
      nowMs,
    )
    if (!this.#fails) this.#giveBack(nowMs)
  }

  #owe(checks: readonly Check[], nowMs: number): void {
    for (const check of checks) {
      if (holdsPermits(check) && this.#untilMs.size < MAX_OWED) this.#untilMs.set(check, nowMs + check.policy.periodMs)
    }
  }

  #giveBack(nowMs: number): void {
    const owed = [...this.#untilMs].filter(([, untilMs]) => untilMs > nowMs).map(([settlement]) => settlement)
    this.#untilMs.clear()
    for (let start = 0; start < owed.length; start += MAX_SENT) {
      // A failure makes `settle` owe them again.
      this.settle(owed.slice(start, start + MAX_SENT), nowMs).catch(() => undefined)
    }
  }
}

/** Returns whether an allowed check takes permits, which have to be given back. */
export function holdsPermits(check: Check): check is Settlement {
  return !isRate(check.policy) && isPlain(check.policy) && check.cost > 0
}
