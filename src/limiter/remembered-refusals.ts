import type { Check, Decision, Settlement } from './algorithm.js'
import type { CircuitBreaker } from './circuit-breaker.js'
import type { WrappedStore } from './limiter.js'
import { Refusals } from './refusals.js'

export interface RefusalsPoll {
  /** Returns whether remembered refusals were confirmed lately; otherwise a confirmation is under way. */
  isFresh(nowMs: number): boolean
  close(): Promise<void> | void
}

/**
 * Remembers refusals, so that a flood from a refused client costs no store call until its wait ends. A client that the
 * store has refused stays refused while the store fails.
 */
export class RememberedRefusals implements WrappedStore {
  readonly concurrency: number
  readonly #store: CircuitBreaker
  readonly #poll: RefusalsPoll | undefined
  readonly #refusals: Refusals

  /** @param maxAgeMs how long a refusal is remembered: with leases it may come from what another process holds */
  constructor(store: CircuitBreaker, poll: RefusalsPoll | undefined, maxAgeMs?: number) {
    this.concurrency = store.concurrency
    this.#store = store
    this.#poll = poll
    this.#refusals = new Refusals(maxAgeMs)
  }

  known(check: Check, nowMs: number): Decision | undefined {
    return this.remembered(check, nowMs) ?? this.#store.known(check, nowMs)
  }

  /** Returns a refusal that holds, without asking the store; it counts the check. */
  remembered(check: Check, nowMs: number): Decision | undefined {
    if (this.#refusals.isEmpty) return undefined
    // Until it is known whether refusals still hold, the store decides.
    if (!this.#store.isOpen && this.#poll?.isFresh(nowMs) === false) return undefined
    return this.#refusals.answer(check, nowMs)
  }

  async check(checks: readonly Check[], nowMs: number): Promise<readonly Decision[]> {
    const { generation } = this.#refusals
    const decisions = await this.#store.check(checks, nowMs)
    const isDown = this.#store.isOpen
    return decisions.map((decision, index) => {
      const check = checks[index]
      if (check === undefined) return decision
      return isDown
        ? (this.#refusals.answer(check, nowMs) ?? decision)
        : this.#refusals.note(check, decision, nowMs, generation)
    })
  }

  settle(settlements: readonly Settlement[], nowMs: number): Promise<void> {
    return this.#store.settle(settlements, nowMs)
  }

  async reset(keys: readonly string[]): Promise<void> {
    this.#refusals.forget(keys)
    try {
      await this.#store.reset(keys)
    } finally {
      // Once more, since an earlier check may have been answered meanwhile.
      this.#refusals.forget(keys)
    }
  }

  forgetAll(): void {
    this.#refusals.forgetAll()
  }
}
