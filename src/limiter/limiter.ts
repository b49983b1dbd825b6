import type { Check, Decision, Settlement } from './algorithm.js'

export interface Limiter {
  /**
   * Advances a counter. Never fails: where the store fails, the fallback decides.
   *
   * @param waitedMs how long its request has waited before, which is a part of the time-out; undefined where nothing waits
   * for the answer: then the check waits for all batches before its own
   * @param leads how many checks, which follow at once, go to the store together with this one
   */
  check(check: Check, nowMs: number, waitedMs?: number, leads?: number): Decision | Promise<Decision>
  /**
   * Takes the cost of a check whatever its counter says, together with the checks of the same moment. Never fails.
   *
   * @returns the decision, which is allowed; undefined where the store has not taken it in time, and where it is owed to the
   * store until that answers again
   */
  charge(check: Check, nowMs: number): Decision | undefined | Promise<Decision | undefined>
  /**
   * Returns whether the fallback made a decision. The store has taken nothing then, or gets it back: at the latest when the
   * decision is given back, and it says that it has taken it.
   */
  madeByFallback(decision: Decision): boolean
  /** Returns a remembered refusal of a check, which counts there; undefined where the store has to be asked. */
  remembered(check: Check, nowMs: number): Decision | undefined
  /** Decides a check where that takes no new counter: by a remembered refusal, or by a counter in this process; otherwise returns undefined. */
  decideLocally(check: Check, nowMs: number): Decision | undefined
  /** Does the same for a limit that refuses: with leases, a busy client's check may be decided from a share. */
  checkLeased(check: Check, nowMs: number, waitedMs?: number): Decision | Promise<Decision>
  /**
   * Gives a counter back what a check took of it. Never fails: a failing store gets it back when it answers again, unless its
   * windows have ended by then.
   */
  settle(settlement: Settlement, nowMs: number): void | Promise<void>
  /**
   * Gives back what the checks of a request took that another limit refused: before any later check of this process goes to
   * the store. Never fails, like `settle`.
   */
  giveBack(settlements: readonly Settlement[], nowMs: number): void
  /** Gives back as `settle` does, to a client that this process may have refused. */
  refund(settlement: Settlement, nowMs: number): Promise<void>
  /**
   * Forgets counters: in the store, in this process's memory of refusals, and in what counts while the store fails.
   *
   * @throws the store's error when it cannot be reached; this process has forgotten the counters even then
   */
  reset(keys: readonly string[]): Promise<void>
  /**
   * Forgets all counters whose names begin with one of some texts, as `reset` does.
   *
   * @throws the store's error when it cannot be reached
   */
  resetAll(prefixes: readonly string[]): Promise<void>
  /** Forgets all refusals and shares, since another process may have reset their counters. */
  forgetAll(): void
  /** Stops polls and probes, and gives shares back. The store is not closed. */
  close(): Promise<void> | void
  /** Whether the fallback decides now. */
  readonly storeIsDown: boolean
  /** The number of batches of checks that the store has failed or not answered in time. */
  readonly storeErrors: number
  /** The number of charges that a failing store is owed, and of those beyond 10,000, which were lost. */
  readonly owedCharges: number
  readonly lostCharges: number
  /** The number of refunds that a failing store is owed, and of those beyond 10,000, which were lost. */
  readonly owedRefunds: number
  readonly lostRefunds: number
}
