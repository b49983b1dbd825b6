import { patientTimeout } from '../ground/time/cooperative-yield.js'
import type { Check, Settlement } from './algorithm.js'
import { type Answers, type BatchStore, PartlyDecidedError } from './batch-store.js'

/** The number of unanswered batches at which further ones fail at once. */
const MAX_UNANSWERED = 8

/** The rejection of a batch of which it is not known whether the store has carried it out, or will. */
export class NoAnswerError extends Error {
  override readonly name = 'NoAnswerError'
}

/** The reactions to the end of what had failed for want of an answer. */
export interface LateAnswers {
  /** Notes that the store has carried out a batch. */
  answeredLate(checks: readonly Check[], nowMs: number, answers: Answers): void
  /** Notes that the store has rejected it. */
  failedLate(checks: readonly Check[], nowMs: number, error: unknown): void
  /** Notes that the store has rejected settlements. */
  unsettledLate(settlements: readonly Settlement[], nowMs: number, error: unknown): void
}

/** Fails a batch that the store does not answer in time, or not completely. */
export class TimeLimit implements BatchStore {
  readonly concurrency: number
  readonly #store: BatchStore
  readonly #timeoutMs: number
  readonly #late: LateAnswers
  #unanswered = 0

  /** @param timeoutMs the time that the store may take for a batch that it does not answer at once, in milliseconds */
  constructor(store: BatchStore, timeoutMs: number, late: LateAnswers) {
    this.concurrency = store.concurrency
    this.#store = store
    this.#timeoutMs = timeoutMs
    this.#late = late
  }

  check(checks: readonly Check[], nowMs: number): Answers | Promise<Answers> {
    if (this.#unanswered >= MAX_UNANSWERED) throw new Error('earlier checks are still without an answer')
    const decisions = this.#store.check(checks, nowMs)
    if (!(decisions instanceof Promise)) return complete(decisions, checks)
    const late: Late<Answers> = {
      begins: () => this.#unanswered++,
      ends: () => this.#unanswered--,
      answered: (answers) => this.#late.answeredLate(checks, nowMs, answers),
      failed: (error) => this.#late.failedLate(checks, nowMs, error),
    }
    return inTime(decisions.catch(decided), this.#timeoutMs, (answered) => complete(answered, checks), late)
  }

  async settle(settlements: readonly Settlement[], nowMs: number): Promise<void> {
    const settled = this.#store.settle?.(settlements, nowMs)
    if (settled === undefined) return
    const late = { ...NO_MATTER, failed: (error: unknown) => this.#late.unsettledLate(settlements, nowMs, error) }
    await inTime(Promise.resolve(settled), this.#timeoutMs, undefined, late)
  }

  /** Takes half of the time at most: checks may wait for it, and then for their own answer. */
  async resets(): Promise<number | undefined> {
    return inTime(Promise.resolve(this.#store.resets?.()), this.#timeoutMs / 2)
  }

  reset(keys: readonly string[]): void | Promise<void> {
    return this.#store.reset(keys)
  }
}

/** The reactions to a late answer. */
interface Late<Answer> {
  begins(): void
  /** Notes that the answer has come after all, or a failure. */
  ends(): void
  answered(answer: Answer): void
  failed(error: unknown): void
}

const NO_MATTER: Late<unknown> = {
  begins: () => undefined,
  ends: () => undefined,
  answered: () => undefined,
  failed: () => undefined,
}

/** Fails where an answer does not come in time, or is not complete. */
function inTime<Answer>(
  answer: Promise<Answer>,
  timeoutMs: number,
  complete = (answered: Answer) => answered,
  late: Late<Answer> = NO_MATTER,
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    let isLate = false
    const timer = patientTimeout(() => {
      isLate = true
      late.begins()
      reject(new NoAnswerError('no answer in time'))
    }, timeoutMs)
    const settle = () => {
      clearTimeout(timer)
      if (isLate) late.ends()
    }
    answer
      .finally(settle)
      .then((answered) => {
        if (isLate) late.answered(answered)
        else resolve(complete(answered))
      })
      .catch((error: unknown) => {
        if (isLate) late.failed(error)
        else reject(error)
      })
  })
}

function decided(error: unknown): Answers {
  if (error instanceof PartlyDecidedError) return error.decisions
  throw error
}

function complete(decisions: Answers, checks: readonly Check[]): Answers {
  if (decisions.length !== checks.length) throw new RangeError('not one decision per check')
  return decisions
}
