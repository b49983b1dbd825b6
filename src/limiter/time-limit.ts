import { patientTimeout } from '../time/slices.js'
import type { Check, Decision, Settlement } from './algorithm.js'
import type { BatchStore } from './limiter.js'

/** While this many batches are unanswered, further ones fail at once. */
const MAX_UNANSWERED = 8

/** Fails a batch that the store does not answer in time, or not completely. */
export class TimeLimit implements BatchStore {
  readonly concurrency: number
  readonly #store: BatchStore
  readonly #timeoutMs: number
  readonly #answeredLate: (checks: readonly Check[], nowMs: number) => void
  #unanswered = 0

  /**
   * @param timeoutMs the time that the store may take for a batch that it does not answer at once, in milliseconds
   * @param answeredLate called when it has carried out a batch that failed
   */
  constructor(store: BatchStore, timeoutMs: number, answeredLate: (checks: readonly Check[], nowMs: number) => void) {
    this.concurrency = store.concurrency
    this.#store = store
    this.#timeoutMs = timeoutMs
    this.#answeredLate = answeredLate
  }

  check(checks: readonly Check[], nowMs: number): readonly Decision[] | Promise<readonly Decision[]> {
    if (this.#unanswered >= MAX_UNANSWERED) throw new Error('earlier checks are still without an answer')
    const decisions = this.#store.check(checks, nowMs)
    if (!(decisions instanceof Promise)) return complete(decisions, checks)
    return this.#inTime(
      decisions,
      (answered) => complete(answered, checks),
      () => this.#answeredLate(checks, nowMs),
    )
  }

  async settle(settlements: readonly Settlement[], nowMs: number): Promise<void> {
    await this.#inTime(Promise.resolve(this.#store.settle?.(settlements, nowMs)))
  }

  async resets(): Promise<number | undefined> {
    return this.#inTime(Promise.resolve(this.#store.resets?.()))
  }

  reset(keys: readonly string[]): void | Promise<void> {
    return this.#store.reset(keys)
  }

  #inTime<Answer>(
    answer: Promise<Answer>,
    complete = (answered: Answer) => answered,
    answeredLate = () => {},
  ): Promise<Answer> {
    return new Promise((resolve, reject) => {
      let isLate = false
      const timer = patientTimeout(() => {
        isLate = true
        this.#unanswered++
        reject(new Error('no answer in time'))
      }, this.#timeoutMs)
      const settle = () => {
        clearTimeout(timer)
        if (isLate) this.#unanswered--
      }
      answer
        .finally(settle)
        .then((answered) => {
          if (isLate) answeredLate()
          else resolve(complete(answered))
        })
        .catch(reject)
    })
  }
}

function complete(decisions: readonly Decision[], checks: readonly Check[]): readonly Decision[] {
  if (decisions.length !== checks.length) throw new RangeError('not one decision per check')
  return decisions
}
