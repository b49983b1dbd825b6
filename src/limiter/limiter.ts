import type { Check, Decision } from './algorithm.js'
import { createBatchingCheck } from './batching.js'
import { CircuitBreaker, type CircuitBreakerOptions } from './circuit-breaker.js'
import { type RefusalsPoll, RememberedRefusals } from './remembered-refusals.js'
import { TimeLimit } from './time-limit.js'

/** What a limiter needs of a store; see `stores/store.ts` for what it promises. */
export interface BatchStore {
  readonly concurrency: number
  check(checks: readonly Check[], nowMs: number): readonly Decision[] | Promise<readonly Decision[]>
  reset(keys: readonly string[]): void | Promise<void>
}

/** A wrapper around a store, for one concern. */
export interface WrappedStore extends BatchStore {
  /** The decision on a check where it is known without asking the store. */
  known(check: Check, nowMs: number): Decision | undefined
}

export interface LimiterOptions extends Omit<CircuitBreakerOptions, 'onRecovery'> {
  readonly store: BatchStore
  /** Tells whether remembered refusals still hold: that no other process has reset a counter. */
  readonly refusalsPoll?: RefusalsPoll | undefined
  /** How long the store may take for a batch, in milliseconds. */
  readonly timeoutMs: number
}

export interface Limiter {
  /** Advances a counter. Never fails: where the store does, the fallback has decided. */
  check(check: Check, nowMs: number): Decision | Promise<Decision>
  /**
   * Forgets counters: in the store, in this process's memory of refusals, and in what counts while the store fails.
   *
   * @throws what the store throws when it cannot be reached; this process has forgotten the counters all the same
   */
  reset(keys: readonly string[]): Promise<void>
  /** Forgets what was refused: another process may have reset it. */
  forgetRefusals(): void
  /** Stops the poll. The store is not closed. */
  close(): void
  /** Whether the fallback decides at the moment. */
  readonly storeIsDown: boolean
  /** How many batches of checks the store has failed, or not answered in time. */
  readonly storeErrors: number
}

/**
 * Wraps a store: checks are gathered into batches, refusals are remembered, a store that fails is left alone while the
 * fallback decides, and one that is too slow has failed. A store in process memory answers at once, so that there is
 * nothing to gather and nothing to remember.
 */
export function createLimiter({ store, refusalsPoll, timeoutMs, fallback, log }: LimiterOptions): Limiter {
  const forgetRefusals = () => refusals?.forgetAll()
  const breaker = new CircuitBreaker(new TimeLimit(store, timeoutMs), { fallback, log, onRecovery: forgetRefusals })
  const refusals =
    store.concurrency === Number.POSITIVE_INFINITY ? undefined : new RememberedRefusals(breaker, refusalsPoll)
  return {
    check: refusals === undefined ? createDirectCheck(breaker) : createBatchingCheck(refusals),
    reset: async (keys) => (refusals ?? breaker).reset(keys),
    forgetRefusals,
    close: () => refusalsPoll?.close(),
    get storeIsDown() {
      return breaker.isOpen
    },
    get storeErrors() {
      return breaker.errors
    },
  }
}

/** Asks a store that answers at once, about one check at a time. */
function createDirectCheck(store: WrappedStore): Limiter['check'] {
  return function check(asked, nowMs) {
    const decisions = store.known(asked, nowMs) ?? store.check([asked], nowMs)
    if (decisions instanceof Promise) return decisions.then(only)
    return 'allowed' in decisions ? decisions : only(decisions)
  }
}

function only([decision]: readonly Decision[]): Decision {
  if (decision === undefined) throw new RangeError('no decision for a check')
  return decision
}
