import { SECOND_MS } from '../ground/time/clock.js'
import { type Check, isPlain, isRate, type Settlement } from './algorithm.js'
import { type Answers, type BatchStore, decisionsBefore, PartlySettledError, settlementsLeft } from './batch-store.js'
import { CyclicIterator } from './cyclic-iterator.js'
import type { FallbackDecisions } from './fallback-decisions.js'
import { forgottenAtMs } from './settlement.js'
import { NoAnswerError } from './time-limit.js'

/** The most permits, refunds and charges that are kept, of about 200 bytes each. */
export const MAX_OWED = 10_000
/** The most of them that are sent at once, so that checks do not wait long. */
const MAX_SENT = 512
/** The time after which what failed once more is sent again. */
const PAUSE_MS = SECOND_MS
/** The number of refunds that are inspected for expiry whenever one is kept: more than one, so that the number shrinks. */
const EXPIRY_INSPECTIONS = 2

export interface OwedOptions {
  readonly decisions: FallbackDecisions
  /** Notes the first loss of a kind, until there is room again. */
  readonly loses: (what: 'charges' | 'refunds') => void
}

/**
 * Owes a failing store what it has to learn when it answers again.
 *
 * *Permits* that it may hold for requests that have ended, or were never admitted, are given back, unless their period has
 * freed them. Giving back permits that were not taken changes nothing. Permits that a store takes later, for a batch that it
 * had not answered in time, are given back when it does answer. Permits beyond `MAX_OWED` are free after their period.
 *
 * *Refunds* are what requests have taken of rates and not used. They are sent until their windows have ended. So is what a
 * store takes later, or has taken of a batch that it failed, where the fallback has decided and the request has given it back.
 *
 * *Charges* are sent in their order, to the windows that are current then.
 *
 * A charge or refund that was sent is owed when the store rejects it, in time or later; as long as it is not known what
 * became of it, it is not sent again. Those beyond `MAX_OWED` are lost, and counted.
 */
export class Owed implements BatchStore {
  readonly concurrency: number
  readonly #store: BatchStore
  readonly #decisions: FallbackDecisions
  /** Until when each of them is owed. */
  readonly #permits = new Map<Settlement, number>()
  readonly #refunds = new Map<Settlement, number>()
  readonly #nextRefund = new CyclicIterator(this.#refunds)
  /** The checks of ended requests that took permits. */
  readonly #ended = new WeakSet<Check>()
  readonly #charges: Check[] = []
  readonly #chargeLosses: Losses
  readonly #refundLosses: Losses
  #isCharging = false
  #failedMs = Number.NEGATIVE_INFINITY
  /** Whether the store has failed since it answered last. */
  #fails = false

  constructor(store: BatchStore, { decisions, loses }: OwedOptions) {
    this.concurrency = store.concurrency
    this.#store = store
    this.#decisions = decisions
    this.#chargeLosses = new Losses(() => loses('charges'))
    this.#refundLosses = new Losses(() => loses('refunds'))
  }

  /** The number of charges that are owed. */
  get charges(): number {
    return this.#charges.length
  }

  /** The number of charges that were lost. */
  get lostCharges(): number {
    return this.#chargeLosses.count
  }

  /** The number of refunds that are owed. */
  get refunds(): number {
    return this.#refunds.size
  }

  /** The number of refunds that were lost. */
  get lostRefunds(): number {
    return this.#refundLosses.count
  }

  check(checks: readonly Check[], nowMs: number): Answers | Promise<Answers> {
    try {
      const answers = this.#store.check(checks, nowMs)
      if (!(answers instanceof Promise)) return this.#answered(checks, nowMs, answers)
      return answers.then(
        (answered) => this.#answered(checks, nowMs, answered),
        (error: unknown) => this.#failed(checks, nowMs, error),
      )
    } catch (error) {
      return this.#failed(checks, nowMs, error)
    }
  }

  /** Settles, but for a failing store, and for counters that fail alone: these are given back when they can be changed again. */
  async settle(settlements: readonly Settlement[], nowMs: number): Promise<void> {
    for (const settlement of settlements) if (holdsPermits(settlement)) this.#ended.add(settlement)
    if (this.#fails) {
      this.#owe(settlements, nowMs)
      return
    }
    try {
      await this.#store.settle?.(settlements, nowMs)
    } catch (error) {
      this.oweUnsettled(settlements, nowMs, error)
      if (error instanceof PartlySettledError) {
        this.#failedMs = nowMs
        return
      }
      this.#fails = true
      throw error
    }
  }

  reset(keys: readonly string[]): void | Promise<void> {
    return this.#store.reset(keys)
  }

  /** Gives back what a batch that had failed has taken after all, for requests that have given it back since. */
  answeredLate(checks: readonly Check[], nowMs: number, answers: Answers): void {
    this.#oweUndecided(checks, nowMs, answers)
    this.#oweTaken(checks, nowMs, answers)
    this.#owe(
      checks.filter((check) => this.#ended.has(check)),
      nowMs,
    )
    if (!this.#fails) void this.#giveBack(nowMs)
  }

  /** Owes the charges of a batch that the store has rejected, and what it has taken of the others. */
  oweRejected(checks: readonly Check[], nowMs: number, error: unknown): void {
    this.oweCharges(checks, error)
    this.#oweTaken(checks, nowMs, decisionsBefore(error))
  }

  /** Owes the charges of a batch that the store has not taken. */
  oweCharges(checks: readonly Check[], error?: unknown): void {
    if (error instanceof NoAnswerError) return
    const taken = decisionsBefore(error)
    for (const [index, check] of checks.entries()) {
      if (!check.charges || check.cost === 0 || taken[index] !== undefined) continue
      if (this.#charges.length < MAX_OWED) this.#charges.push(check)
      else this.#chargeLosses.add()
    }
  }

  /** Owes the settlements that the store has not done. Permits may be given back twice. */
  oweUnsettled(settlements: readonly Settlement[], nowMs: number, error: unknown): void {
    const left = settlementsLeft(error) ?? settlements
    this.#owe(error instanceof NoAnswerError ? left.filter(holdsPermits) : left, nowMs)
  }

  /** Sends what is owed, once. */
  async close(nowMs: number): Promise<void> {
    if (!this.#fails) await Promise.all([this.#giveBack(nowMs), this.#charge(nowMs)])
  }

  #answered(checks: readonly Check[], nowMs: number, answers: Answers): Answers {
    this.#fails = false
    this.#oweUndecided(checks, nowMs, answers)
    const owesNothing = this.#permits.size === 0 && this.#refunds.size === 0 && this.#charges.length === 0
    if (owesNothing || Math.abs(nowMs - this.#failedMs) < PAUSE_MS) return answers
    void this.#giveBack(nowMs)
    void this.#charge(nowMs)
    return answers
  }

  #failed(checks: readonly Check[], nowMs: number, error: unknown): never {
    this.#fails = true
    this.oweRejected(checks, nowMs, error)
    throw error
  }

  #oweUndecided(checks: readonly Check[], nowMs: number, answers: Answers): void {
    if (!answers.includes(undefined)) return
    this.#failedMs = nowMs
    this.oweCharges(checks.filter((_check, index) => answers[index] === undefined))
  }

  /** Owes what the store has taken of checks that the fallback decides, and requests have given back. */
  #oweTaken(checks: readonly Check[], nowMs: number, answers: Answers): void {
    const returned = checks.flatMap((check, index) => {
      const decision = answers[index]
      return (decision && this.#decisions.decidedLate(check, decision, nowMs)) ?? []
    })
    this.#owe(returned, nowMs)
  }

  #owe(settlements: readonly Settlement[], nowMs: number): void {
    for (const settlement of settlements) {
      const { policy, cost } = settlement
      if (cost === 0) continue
      if (!isRate(policy)) {
        if (this.#permits.size < MAX_OWED) this.#permits.set(settlement, nowMs + policy.periodMs)
        continue
      }
      this.#nextRefund.sweep(EXPIRY_INSPECTIONS, (untilMs) => untilMs <= nowMs)
      if (this.#refunds.size < MAX_OWED) this.#refunds.set(settlement, forgottenAtMs(settlement))
      else this.#refundLosses.add()
    }
  }

  /** Gives back what is owed. Never rejects: a failure makes `settle` owe it again. */
  async #giveBack(nowMs: number): Promise<void> {
    const isOwed = ([, untilMs]: [Settlement, number]) => untilMs > nowMs
    const owed = [...this.#permits, ...this.#refunds].filter(isOwed).map(([settlement]) => settlement)
    this.#permits.clear()
    this.#refunds.clear()
    this.#refundLosses.end()
    const sent: Promise<void>[] = []
    for (let start = 0; start < owed.length; start += MAX_SENT) {
      sent.push(this.settle(owed.slice(start, start + MAX_SENT), nowMs))
    }
    const results = await Promise.allSettled(sent)
    if (results.some(({ status }) => status === 'rejected')) this.#failedMs = nowMs
  }

  /** Sends owed charges in their order, until one is not taken. Never rejects. */
  async #charge(nowMs: number): Promise<void> {
    if (this.#isCharging) return
    this.#isCharging = true
    for (let left = 0; left === 0 && this.#charges.length > 0; ) {
      const sent = this.#charges.splice(0, MAX_SENT)
      this.#chargeLosses.end()
      const rejected = await this.#sendCharges(sent, nowMs)
      this.#charges.unshift(...rejected)
      left = rejected.length
      if (left > 0) this.#failedMs = nowMs
    }
    this.#isCharging = false
  }

  /** Returns those that the store has not taken. */
  async #sendCharges(sent: readonly Check[], nowMs: number): Promise<readonly Check[]> {
    try {
      const answers = await this.#store.check(sent, nowMs)
      return sent.filter((_check, index) => answers[index] === undefined)
    } catch (error) {
      if (error instanceof NoAnswerError) return []
      const taken = decisionsBefore(error)
      return sent.filter((_check, index) => taken[index] === undefined)
    }
  }
}

/** Counts what is lost, and tells of the first until there is room again. */
class Losses {
  count = 0
  readonly #begin: () => void
  #isLosing = false

  constructor(begin: () => void) {
    this.#begin = begin
  }

  add(): void {
    this.count++
    if (this.#isLosing) return
    this.#isLosing = true
    this.#begin()
  }

  end(): void {
    this.#isLosing = false
  }
}

/** Returns whether an allowed check takes permits, which have to be given back. */
export function holdsPermits(check: Check): check is Settlement {
  return !isRate(check.policy) && isPlain(check.policy) && check.cost > 0
}
