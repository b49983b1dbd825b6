import { SECOND_MS } from '../ground/time/clock.js'
import { type Check, isPlain, isRate, type Settlement } from './algorithm.js'
import { type Answers, type BatchStore, decisionsBefore } from './batch-store.js'
import { NoAnswerError } from './time-limit.js'

/** The most settlements, and the most charges, that are kept, of about 200 bytes each. */
export const MAX_OWED = 10_000
/** The most of them that are sent at once, so that checks do not wait long. */
const MAX_SENT = 512
/** The time after which charges that failed once more are sent again. */
const PAUSE_MS = SECOND_MS

/**
 * Owes a failing store what it has to learn when it answers again.
 *
 * *Permits* that it may hold for requests that have ended, or were never admitted, are given back, unless their period has
 * freed them. Giving back permits that were not taken changes nothing. Permits that a store takes later, for a batch that it
 * had not answered in time, are given back when it does answer. Permits beyond `MAX_OWED` are free after their period.
 *
 * *Charges* are sent in their order, to the windows that are current then. One that was sent is owed when the store rejects
 * it, in time or later; as long as it is not known what became of it, it is not sent again. Charges beyond `MAX_OWED` are
 * lost, and counted.
 */
export class Owed implements BatchStore {
  readonly concurrency: number
  readonly #store: BatchStore
  readonly #untilMs = new Map<Settlement, number>()
  /** The checks of ended requests. */
  readonly #ended = new WeakSet<Check>()
  readonly #charges: Check[] = []
  #isCharging = false
  #failedMs = Number.NEGATIVE_INFINITY
  /** Whether the store has failed since it answered last. */
  #fails = false
  /** The number of charges that were lost. */
  lost = 0
  readonly #losesCharges: () => void
  #isLosing = false

  /** @param losesCharges is called with the first charge that is lost, until there is room again */
  constructor(store: BatchStore, losesCharges: () => void) {
    this.concurrency = store.concurrency
    this.#store = store
    this.#losesCharges = losesCharges
  }

  /** The number of charges that are owed. */
  get charges(): number {
    return this.#charges.length
  }

  check(checks: readonly Check[], nowMs: number): Answers | Promise<Answers> {
    try {
      const answers = this.#store.check(checks, nowMs)
      if (!(answers instanceof Promise)) {
        if (this.#charges.length > 0) this.#chargeAgain(nowMs)
        return answers
      }
      return answers.then(
        (answered) => this.#answered(checks, nowMs, answered),
        (error: unknown) => this.#failed(checks, error),
      )
    } catch (error) {
      return this.#failed(checks, error)
    }
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
  answeredLate(checks: readonly Check[], nowMs: number, answers?: Answers): void {
    if (answers !== undefined) this.#oweUndecided(checks, nowMs, answers)
    this.#owe(
      checks.filter((check) => this.#ended.has(check)),
      nowMs,
    )
    if (!this.#fails) this.#giveBack(nowMs)
  }

  /** Owes the charges of a batch that the store has not taken. */
  oweCharges(checks: readonly Check[], error?: unknown): void {
    if (error instanceof NoAnswerError) return
    const taken = decisionsBefore(error)
    for (const [index, check] of checks.entries()) {
      if (!check.charges || check.cost === 0 || taken[index] !== undefined) continue
      if (this.#charges.length < MAX_OWED) this.#charges.push(check)
      else this.#lose()
    }
  }

  /** Sends what is owed, once. */
  async close(nowMs: number): Promise<void> {
    if (!this.#fails) await this.#charge(nowMs)
  }

  #lose(): void {
    this.lost++
    if (this.#isLosing) return
    this.#isLosing = true
    this.#losesCharges()
  }

  #answered(checks: readonly Check[], nowMs: number, answers: Answers): Answers {
    this.#fails = false
    this.#oweUndecided(checks, nowMs, answers)
    if (this.#untilMs.size > 0) this.#giveBack(nowMs)
    if (this.#charges.length > 0) this.#chargeAgain(nowMs)
    return answers
  }

  #failed(checks: readonly Check[], error: unknown): never {
    this.#fails = true
    this.oweCharges(checks, error)
    throw error
  }

  #oweUndecided(checks: readonly Check[], nowMs: number, answers: Answers): void {
    if (!answers.includes(undefined)) return
    this.#failedMs = nowMs
    this.oweCharges(checks.filter((_check, index) => answers[index] === undefined))
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

  #chargeAgain(nowMs: number): void {
    if (Math.abs(nowMs - this.#failedMs) >= PAUSE_MS) void this.#charge(nowMs)
  }

  /** Sends owed charges in their order, until one is not taken. Never rejects. */
  async #charge(nowMs: number): Promise<void> {
    if (this.#isCharging) return
    this.#isCharging = true
    for (let left = 0; left === 0 && this.#charges.length > 0; ) {
      const sent = this.#charges.splice(0, MAX_SENT)
      this.#isLosing = false
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

/** Returns whether an allowed check takes permits, which have to be given back. */
export function holdsPermits(check: Check): check is Settlement {
  return !isRate(check.policy) && isPlain(check.policy) && check.cost > 0
}
