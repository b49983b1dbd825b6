import { patientTimeout } from '../ground/time/cooperative-yield.js'
import type { Check, Decision } from './algorithm.js'
import type { Answers, BatchStore, SafeStore } from './batch-store.js'
import { createBatches } from './batching.js'
import { limiterByPart } from './by-part.js'
import { CircuitBreaker, type CircuitBreakerOptions } from './circuit-breaker.js'
import { FallbackDecisions } from './fallback-decisions.js'
import { type LeaseOptions, Leases } from './leases.js'
import type { Limiter } from './limiter.js'
import { MAX_OWED, Owed } from './owed.js'
import { type RefusalsPoll, RememberedRefusals } from './refusals.js'
import { TimeLimit } from './time-limit.js'

/**
 * How long a refusal is remembered where requests give back. They do within a few milliseconds; a client that is refused for
 * longer costs five calls of the store a second.
 */
const GIVING_BACK_MS = 200

export interface SafeLimiterOptions extends Omit<CircuitBreakerOptions, 'decisions' | 'onRecovery' | 'owe' | 'part'> {
  readonly store: BatchStore
  /** Polls whether remembered refusals still hold: whether another process has reset a counter. */
  readonly refusalsPoll?: RefusalsPoll | undefined
  /** The options of leases, where shares are taken; the store has to have `settle`. */
  readonly lease?: LeaseOptions | undefined
  /** Returns whether requests give back what they took: then a counter may refuse for a moment that has room again. */
  readonly givesBack?: (() => boolean) | undefined
  /** The time that the store may take for a batch, in milliseconds. */
  readonly timeoutMs: number
}

/**
 * Creates a limiter around a store: it gathers checks into batches, remembers refusals, takes shares where it may, and
 * lets the fallback decide while the store fails or is too slow. A store in process memory answers at once and needs
 * neither batches nor remembered refusals nor shares.
 */
export function createSafeLimiter(options: SafeLimiterOptions): Limiter {
  const { store } = options
  const decisions = new FallbackDecisions()
  if (store.partOf === undefined) return createPartLimiter(options, decisions, '')
  return limiterByPart(store.partOf.bind(store), (part) => createPartLimiter(options, decisions, part))
}

/** Creates the limiter of a store, or of one of its parts. */
function createPartLimiter(
  { store, refusalsPoll, lease, givesBack = () => false, timeoutMs, fallback, now, log }: SafeLimiterOptions,
  decisions: FallbackDecisions,
  part: string,
): Limiter {
  const isRemote = store.concurrency !== Number.POSITIVE_INFINITY
  const limitTime = (wrapped: BatchStore) =>
    new TimeLimit(wrapped, timeoutMs, {
      answeredLate: (checks, nowMs, answers) => owed.answeredLate(checks, nowMs, answers),
      failedLate: (checks, nowMs, error) => owed.oweRejected(checks, nowMs, error),
      unsettledLate: (settlements, nowMs, error) => owed.oweUnsettled(settlements, nowMs, error),
    })
  const timed = limitTime(store)
  const leases = isRemote && lease !== undefined ? new Leases(timed, lease) : undefined
  // The time limit stands around leases too, which may call the store several times for one batch.
  const loses = (what: string) => {
    const where = part === '' ? '' : ` at ${part}`
    log.error({}, `Rate limit ${what} are being lost: the store${where} has failed for longer than ${MAX_OWED} of them`)
  }
  const owed = new Owed(leases === undefined ? timed : limitTime(leases), { decisions, loses })
  const leaseMs = lease?.leaseMs ?? Number.POSITIVE_INFINITY
  const maxAgeMs = () => (givesBack() ? Math.min(leaseMs, GIVING_BACK_MS) : leaseMs)
  const onRecovery = () => refusals?.forgetAll()
  const owe = (charge: Check) => owed.oweCharges([charge])
  const breaker = new CircuitBreaker(owed, { fallback, decisions, now, log, part, owe, onRecovery })
  const refusals = isRemote ? new RememberedRefusals(breaker, refusalsPoll, maxAgeMs) : undefined
  const safe = refusals ?? breaker
  const batches = refusals === undefined ? passDirectly(breaker) : createBatches(refusals, store.isOrdered)

  function checkInBatch(check: Check, nowMs: number, waitedMs?: number, leads = 0): Decision | Promise<Decision> {
    const answer = batches.check(check, nowMs, leads)
    if (!(answer instanceof Promise) || waitedMs === undefined) return answer
    // The time-out of the batch is enough where that is sent now.
    if (waitedMs === 0 && !batches.isBehind()) return answer
    return untilDeadline(check, nowMs, answer, waitedMs)
  }

  /** Decides without the store when the time of a request is over, also where its batch has more time or is not sent. */
  function untilDeadline(check: Check, nowMs: number, answer: Promise<Decision>, waitedMs: number): Promise<Decision> {
    return new Promise((resolve) => {
      let isLate = false
      const giveUp = () => {
        isLate = true
        batches.abandon(check)
        resolve(safe.decideWithout(check, nowMs))
      }
      const timer = patientTimeout(giveUp, Math.max(2, timeoutMs - waitedMs))
      void answer.then((decision) => {
        clearTimeout(timer)
        if (!isLate) resolve(decision)
        else owed.answeredLate([check], nowMs, decisions.has(decision) ? [] : [decision])
      })
    })
  }

  function charge(check: Check, nowMs: number): Decision | undefined | Promise<Decision | undefined> {
    const inStore = (decision: Decision) => (decisions.has(decision) ? undefined : decision)
    const answer = batches.check({ ...check, charges: true }, nowMs)
    if (!(answer instanceof Promise)) return inStore(answer)
    return new Promise((resolve) => {
      const timer = patientTimeout(() => resolve(undefined), timeoutMs)
      void answer.then((decision) => {
        clearTimeout(timer)
        resolve(inStore(decision))
      })
    })
  }

  function checkLeased(check: Check, nowMs: number, waitedMs?: number): Decision | Promise<Decision> {
    // Another process may reset a counter: the poll then forgets the shares.
    refusalsPoll?.isFresh(nowMs)
    return leases?.decideLocally(check, nowMs) ?? checkInBatch(check, nowMs, waitedMs)
  }

  function forgetAll(): void {
    refusals?.forgetAll()
    leases?.forgetAll()
  }

  return {
    check: checkInBatch,
    charge,
    madeByFallback: (decision) => decisions.has(decision),
    remembered: (check, nowMs) => refusals?.remembered(check, nowMs),
    decideLocally: (check, nowMs) => refusals?.remembered(check, nowMs),
    settle: batches.settle,
    giveBack: batches.giveBack,
    checkLeased: leases === undefined ? checkInBatch : checkLeased,
    async refund(settlement, nowMs) {
      await batches.settle(settlement, nowMs)
      refusals?.forget([settlement.key])
    },
    reset: async (keys) => safe.reset(keys),
    async resetAll(prefixes) {
      forgetAll()
      fallback.resetAll(prefixes)
      try {
        await store.resetAll?.(prefixes)
      } finally {
        // An earlier check may have been answered meanwhile.
        forgetAll()
      }
    },
    forgetAll,
    async close() {
      breaker.close()
      await batches.close()
      await owed.close(now())
      await refusalsPoll?.close()
      await leases?.close()
    },
    get storeIsDown() {
      return breaker.isOpen
    },
    get storeErrors() {
      return breaker.errors
    },
    get owedCharges() {
      return owed.charges
    },
    get lostCharges() {
      return owed.lostCharges
    },
    get owedRefunds() {
      return owed.refunds
    },
    get lostRefunds() {
      return owed.lostRefunds
    },
  }
}

/** Creates the functions that pass one check or settlement at a time to a store that answers at once. */
function passDirectly(store: SafeStore): Pick<Limiter, 'settle'> & Omit<ReturnType<typeof createBatches>, 'settle'> {
  return {
    isBehind: () => false,
    abandon: () => undefined,
    check(check, nowMs) {
      const local = store.decideLocally(check, nowMs)
      if (local !== undefined) return local
      const only = ([decision]: Answers) => decision ?? store.decideWithout(check, nowMs)
      const answers = store.check([check], nowMs)
      return answers instanceof Promise ? answers.then(only) : only(answers)
    },
    settle: (settlement, nowMs) => store.settle([settlement], nowMs),
    giveBack: (settlements, nowMs) => void store.settle(settlements, nowMs),
    close: async () => undefined,
  }
}
