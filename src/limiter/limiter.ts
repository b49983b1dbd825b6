import type { Check, Decision } from './algorithm.js'
import type { Fallback } from './fallback.js'
import { patientTimeout } from './patient-timeout.js'
import { Refusals } from './refusals.js'

/** The batches a store is asked in; see `stores/store.ts` for what it promises. */
interface BatchStore {
  readonly concurrency: number
  check(checks: readonly Check[], nowMs: number): readonly Decision[] | Promise<readonly Decision[]>
  reset(keys: readonly string[]): void | Promise<void>
}

interface RefusalsPoll {
  /** Whether that was looked at lately; otherwise it is being looked at now. */
  isFresh(nowMs: number): boolean
  close(): void
}

export interface LimiterOptions {
  readonly store: BatchStore
  /** Decides when the store does not. */
  readonly fallback: Fallback
  /** Tells whether refusals that are remembered still hold: that no other process has reset a counter. */
  readonly refusalsPoll?: RefusalsPoll | undefined
  /** How long a check waits for the store, in milliseconds. */
  readonly timeoutMs: number
  readonly log: { error(details: object, message: string): void; info(message: string): void }
}

/** One statement's worth: more would keep its first check waiting, and a synchronous driver busy, for too long. */
const MAX_BATCH_SIZE = 512
/** How often a store that failed is tried again. */
const PROBE_INTERVAL_MS = 1_000
/** A store that never answers is not tried again while so many batches are still without an answer. */
const MAX_UNANSWERED = 8

class Batch {
  readonly checks: Check[] = []
  readonly answers: ((decision: Decision) => void)[] = []
  /** Of the refusals, when the first check came. */
  readonly generation: number
  nowMs = 0
  timer: NodeJS.Timeout | undefined
  /** On its way to the store. */
  sent = false
  /** Answered already, by the fallback: what the store still says comes too late. */
  abandoned = false
  /** How often the store had failed or recovered then. */
  readonly turn: number

  constructor(generation: number, turn: number) {
    this.generation = generation
    this.turn = turn
  }

  add(check: Check, nowMs: number, answer: (decision: Decision) => void): void {
    this.checks.push(check)
    this.answers.push(answer)
    this.nowMs = Math.max(this.nowMs, nowMs)
  }
}

/**
 * Asks a store, and goes on without it when it fails.
 *
 * Checks that arrive while a statement is under way, or within one turn of the event loop, are gathered and go out
 * as one batch. A store that fails or is too slow is left alone but for one probe a second; until a probe is
 * answered in time, the fallback decides at once. An outage is logged when it begins and when it ends.
 */
export class Limiter {
  readonly #options: LimiterOptions
  readonly #waiting: Batch[] = []
  readonly #refusals = new Refusals()
  #underWay = 0
  /** Batches that the store was too slow for; they no longer keep others from being sent. */
  #unanswered = 0
  #scheduled = false
  /** Since when the store is down, and when it may be tried again; by the clock of the checks. */
  #outage: { sinceMs: number; probeAtMs: number } | undefined
  /**
   * How often the store has failed or recovered. What became of a batch from before the last time is no news: a probe
   * that is still stuck after another one was answered begins no outage, and a late answer ends none.
   */
  #turn = 0
  #storeErrors = 0

  readonly check: (check: Check, nowMs: number) => Decision | Promise<Decision>

  constructor(options: LimiterOptions) {
    this.#options = options
    this.check = options.store.concurrency === Number.POSITIVE_INFINITY ? this.#checkAtOnce : this.#checkBatched
  }

  /**
   * Forgets counters: in the store, in this process's memory of refusals, and in what counts while the store fails.
   *
   * @throws what the store throws when it cannot be reached; this process has forgotten the counters all the same
   */
  async reset(keys: readonly string[]): Promise<void> {
    this.#forgetHere(keys)
    try {
      await this.#options.store.reset(keys)
    } finally {
      // Once more: what was asked before the store forgot may have been answered meanwhile.
      this.#forgetHere(keys)
    }
  }

  #forgetHere(keys: readonly string[]): void {
    for (const key of keys) {
      this.#refusals.forget(key)
      this.#options.fallback.reset(key)
    }
  }

  /** Forgets what was refused: somebody else may have reset it. */
  forgetRefusals(): void {
    this.#refusals.forgetAll()
  }

  /** Stops looking at what other processes do. The store is not closed. */
  close(): void {
    this.#options.refusalsPoll?.close()
  }

  /** Whether the fallback decides at the moment. */
  get storeIsDown(): boolean {
    return this.#outage !== undefined
  }

  /** How many batches of checks the store has failed, or not answered in time. */
  get storeErrors(): number {
    return this.#storeErrors
  }

  #checkAtOnce(check: Check, nowMs: number): Decision | Promise<Decision> {
    try {
      const decisions = this.#options.store.check([check], nowMs)
      if (!(decisions instanceof Promise)) return this.#only(decisions, nowMs)
      return decisions
        .then((answered) => this.#only(answered, nowMs))
        .catch((error: unknown) => this.#instead(check, nowMs, error))
    } catch (error) {
      return this.#instead(check, nowMs, error)
    }
  }

  #only([decision]: readonly Decision[], nowMs: number): Decision {
    if (decision === undefined) throw new RangeError('no decision for a check')
    this.#recovered(nowMs)
    return decision
  }

  #instead(check: Check, nowMs: number, error: unknown): Decision {
    this.#storeErrors++
    this.#failed(error, nowMs)
    return this.#withoutStore(check, nowMs)
  }

  #checkBatched(check: Check, nowMs: number): Decision | Promise<Decision> {
    const refusal = this.#refused(check, nowMs)
    if (refusal !== undefined) return refusal
    if (this.#outage === undefined) {
      return new Promise((answer) => this.#gather(check, nowMs, answer))
    }
    const { probeAtMs } = this.#outage
    // The clock may have been set back.
    const isDue = nowMs >= probeAtMs || nowMs < probeAtMs - PROBE_INTERVAL_MS
    if (isDue && this.#unanswered < MAX_UNANSWERED) {
      this.#outage.probeAtMs = nowMs + PROBE_INTERVAL_MS
      // The request does not wait for it.
      this.#gather(check, nowMs, () => undefined)
    }
    return this.#withoutStore(check, nowMs)
  }

  #refused(check: Check, nowMs: number): Decision | undefined {
    // While it is being looked at whether refusals still hold, the store decides.
    if (this.#refusals.isEmpty || this.#options.refusalsPoll?.isFresh(nowMs) === false) return undefined
    return this.#refusals.answer(check, nowMs)
  }

  /** A client that the store had refused stays refused while the store fails. */
  #withoutStore(check: Check, nowMs: number): Decision {
    return this.#refusals.answer(check, nowMs) ?? this.#options.fallback.decide(check, nowMs)
  }

  #gather(check: Check, nowMs: number, answer: (decision: Decision) => void): void {
    let batch = this.#waiting.at(-1)
    if (batch === undefined || batch.checks.length >= MAX_BATCH_SIZE) {
      batch = this.#open()
    }
    batch.add(check, nowMs, answer)
  }

  #open(): Batch {
    const batch = new Batch(this.#refusals.generation, this.#turn)
    batch.timer = patientTimeout(() => this.#fail(batch, new Error('no answer in time')), this.#options.timeoutMs)
    this.#waiting.push(batch)
    this.#schedule()
    return batch
  }

  // After the events of this turn: what arrived on other connections meanwhile joins the batch.
  #schedule(): void {
    if (this.#scheduled) return
    this.#scheduled = true
    setImmediate(() => {
      this.#scheduled = false
      while (this.#underWay < this.#options.store.concurrency) {
        const batch = this.#waiting.shift()
        if (batch === undefined) return
        void this.#send(batch)
      }
    })
  }

  async #send(batch: Batch): Promise<void> {
    this.#underWay++
    batch.sent = true
    try {
      const decisions = await this.#options.store.check(batch.checks, batch.nowMs)
      if (decisions.length !== batch.checks.length) throw new RangeError('not one decision per check')
      if (!batch.abandoned) this.#answer(batch, decisions)
    } catch (error) {
      if (!batch.abandoned) this.#fail(batch, error)
    } finally {
      if (batch.abandoned) this.#unanswered--
      else this.#underWay--
      if (this.#waiting.length > 0) this.#schedule()
    }
  }

  #answer(batch: Batch, decisions: readonly Decision[]): void {
    clearTimeout(batch.timer)
    if (batch.turn === this.#turn) this.#recovered(batch.nowMs)
    for (const [place, answer] of batch.answers.entries()) {
      const check = checkAt(batch, place)
      const decision = decisions[place]
      answer(
        decision === undefined
          ? this.#withoutStore(check, batch.nowMs)
          : this.#refusals.note(check, decision, batch.nowMs, batch.generation),
      )
    }
  }

  #fail(failed: Batch, error: unknown): void {
    this.#storeErrors++
    if (failed.turn !== this.#turn) {
      const place = this.#waiting.indexOf(failed)
      if (place !== -1) this.#waiting.splice(place, 1)
      this.#abandon(failed)
      return
    }
    this.#failed(error, failed.nowMs)
    // What waits behind it need not wait for its own time-out.
    for (const batch of new Set([failed, ...this.#waiting.splice(0)])) this.#abandon(batch)
  }

  #abandon(batch: Batch): void {
    clearTimeout(batch.timer)
    if (batch.sent) {
      this.#underWay--
      this.#unanswered++
    }
    batch.abandoned = true
    for (const [place, answer] of batch.answers.entries()) {
      answer(this.#withoutStore(checkAt(batch, place), batch.nowMs))
    }
  }

  #failed(error: unknown, nowMs: number): void {
    if (this.#outage !== undefined) return
    this.#turn++
    this.#outage = { sinceMs: nowMs, probeAtMs: nowMs + PROBE_INTERVAL_MS }
    this.#options.log.error(
      { err: error },
      'Rate limit store failed: onStoreError decides until it answers again (tried once a second)',
    )
  }

  #recovered(nowMs: number): void {
    if (this.#outage === undefined) return
    const seconds = Math.max(0, Math.round((nowMs - this.#outage.sinceMs) / 1000))
    this.#turn++
    this.#outage = undefined
    // It may have lost its counters.
    this.#refusals.forgetAll()
    this.#options.log.info(`Rate limit store answers again, after ${seconds} s`)
  }
}

function checkAt({ checks }: Batch, place: number): Check {
  const check = checks[place]
  if (check === undefined) throw new RangeError(`No check at place ${place} of a batch of ${checks.length}`)
  return check
}
