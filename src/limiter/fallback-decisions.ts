import { type Check, countsRefused, type Decision, type Settlement } from './algorithm.js'
import { toSettlement } from './settlement.js'

/** What the store decided on a check, for which the fallback had decided before. */
interface LateDecision {
  readonly decision: Decision
  readonly nowMs: number
}

/**
 * The decisions of the fallback, and what the store says of their checks later: it may have been asked, and take what a
 * request has by then given back. The parts of a store share them, since a counter may have another part meanwhile.
 */
export class FallbackDecisions {
  readonly #checks = new WeakMap<Decision, Check>()
  /** What the store has taken, and no request has given back. */
  readonly #taken = new WeakMap<Check, LateDecision>()
  /** What requests have given back, and the store has not taken. */
  readonly #returned = new WeakMap<Check, Settlement>()

  note(check: Check, decision: Decision): void {
    this.#checks.set(decision, check)
  }

  has(decision: Decision): boolean {
    return this.#checks.has(decision)
  }

  /**
   * Returns what is given back to the store, which has nothing of what the fallback allowed unless it says so: then it gets
   * that back when it does.
   */
  inStore(settlement: Settlement): Settlement | undefined {
    const check = settlement.decision && this.#checks.get(settlement.decision)
    if (check === undefined) return settlement
    const taken = this.#taken.get(check)
    if (taken !== undefined) return toSettlement(settlement, taken.decision, taken.nowMs)
    this.#returned.set(check, settlement)
    return undefined
  }

  /**
   * Notes a late decision of the store.
   *
   * @param nowMs the time that the store was asked with
   * @returns what the store has to get back, since the request has given it back before
   */
  decidedLate(check: Check, decision: Decision, nowMs: number): Settlement | undefined {
    const { policy, cost, charges } = check
    if (charges || cost === 0 || !(decision.allowed || countsRefused(policy))) return undefined
    const returned = this.#returned.get(check)
    if (returned !== undefined) return toSettlement(returned, decision, nowMs)
    this.#taken.set(check, { decision, nowMs })
    return undefined
  }
}
