import { DAY_MS, SECOND_MS } from '../ground/time/clock.js'
import {
  type Check,
  countsRefused,
  type Decision,
  isRate,
  leastLimit,
  neededFor,
  type Policy,
  type Settlement,
  samePolicy,
  type WindowState,
} from './algorithm.js'
import type { Answers, SafeStore } from './batch-store.js'
import type { CircuitBreaker } from './circuit-breaker.js'
import { CyclicIterator } from './cyclic-iterator.js'
import { MONTH_MS } from './period.js'

/** A refusal by the store, and how long it holds. Times are absolute, in milliseconds. */
interface Refusal {
  readonly policy: Policy
  readonly decision: Decision
  readonly cost: number
  /** The time of the refusal. For a clock that was set back since, the store decides: its counter may begin far ahead. */
  readonly sinceMs: number
  readonly untilMs: number
  /** The time at which the store has to confirm the refusal, at the latest at its end. */
  readonly confirmAtMs: number
  readonly resetAtMs: number
  /** The era between two calls of `forgetAll`: a refusal of an earlier one no longer holds, but its count continues. */
  readonly era: number
  count: number
}

/** The longest time for which a refused reservation is remembered: others are given back at any moment. */
const RESERVATION_MS = SECOND_MS
/** A flood from more clients than this reaches the store; each takes about 300 bytes. */
const MAX_REMEMBERED = 10_000
/**
 * The number of refusals that are inspected for expiry whenever one is noted: more than one, so that the number
 * shrinks.
 */
const EXPIRY_INSPECTIONS = 2

/**
 * The refusals of the store, so that a flood from a blocked client costs no store call until its wait ends.
 *
 * A refusal is answered as the store would answer it. That is possible without the store's counter where the wait is
 * known and nothing is left until then: in an exhausted fixed window, and for refused checks of cost 1 or 0, whose
 * counts differ. Other checks are not remembered. In a fixed window `count` continues from the store's last one, for
 * this process alone. Of several fixed windows only the one that ends last can be answered for: the others have to
 * count what it refuses. A refused reservation is remembered for a second, for those of the same cost. No charge is refused.
 */
export class Refusals {
  // Insertion order is the order of eviction. After an eviction the store decides again.
  readonly #remembered = new Map<string, Refusal>()
  readonly #oldest = new CyclicIterator(this.#remembered)
  readonly #next = new CyclicIterator(this.#remembered)
  readonly #maxAgeMs: () => number
  #generation = 0
  #era = 0

  constructor(maxAgeMs = () => Number.POSITIVE_INFINITY) {
    this.#maxAgeMs = maxAgeMs
  }

  get isEmpty(): boolean {
    return this.#remembered.size === 0
  }

  /** Changes whenever something is forgotten: the answer to an earlier check must not be remembered. */
  get generation(): number {
    return this.#generation
  }

  /** Returns the decision on a check that is certainly refused; otherwise undefined. */
  answer(check: Check, nowMs: number): Decision | undefined {
    if (check.charges) return undefined
    const refusal = this.#remembered.get(check.key)
    if (refusal === undefined || refusal.era !== this.#era || !holds(refusal, check)) return undefined
    if (nowMs < refusal.sinceMs) return undefined
    if (nowMs >= refusal.confirmAtMs) {
      this.#remembered.delete(check.key)
      return undefined
    }
    const { policy, cost } = check
    if (countsRefused(policy)) refusal.count += cost
    const decision: Decision = {
      allowed: false,
      count: refusal.count,
      limit: refusal.decision.limit,
      remaining: policy.reserves ? refusal.decision.remaining : 0,
      resetMs: Math.max(0, refusal.resetAtMs - nowMs),
      retryAfterMs: neededFor(cost) > leastLimit(policy) ? null : refusal.untilMs - nowMs,
    }
    const windows = windowsAt(refusal, nowMs)
    return windows === undefined ? decision : { ...decision, windows }
  }

  /**
   * Notes a decision of the store.
   *
   * @param generation the value of `generation` when the store was called
   * @returns the decision; its count continues from what was answered from memory in the same window
   */
  note(check: Check, decision: Decision, nowMs: number, generation: number): Decision {
    const { key, policy, cost, charges } = check
    if (charges) return decision
    const earlier = this.#remembered.get(key)
    if (decision.allowed) {
      if (earlier !== undefined) this.#remembered.delete(key)
      return decision
    }
    const waitMs = waitFor(check, decision)
    if (waitMs === null || generation !== this.#generation) return decision
    const resetAtMs = nowMs + decision.resetMs
    const isSameWindow = countsRefused(policy) && earlier?.resetAtMs === resetAtMs
    const count = isSameWindow ? Math.max(decision.count, earlier.count + cost) : decision.count
    this.#remember(key, {
      policy,
      decision,
      cost,
      sinceMs: nowMs,
      untilMs: nowMs + waitMs,
      confirmAtMs: nowMs + Math.min(waitMs, this.#maxAgeMs(), policy.reserves ? RESERVATION_MS : waitMs),
      resetAtMs,
      era: this.#era,
      count,
    })
    this.#next.sweep(EXPIRY_INSPECTIONS, ({ confirmAtMs }) => confirmAtMs <= nowMs)
    return count === decision.count ? decision : { ...decision, count }
  }

  forget(keys: readonly string[]): void {
    this.#generation++
    for (const key of keys) this.#remembered.delete(key)
  }

  forgetAll(): void {
    this.#generation++
    this.#era++
  }

  #remember(key: string, refusal: Refusal): void {
    if (this.#remembered.size >= MAX_REMEMBERED && !this.#remembered.has(key)) {
      const [oldest] = this.#oldest.step() ?? []
      if (oldest !== undefined) this.#remembered.delete(oldest)
    }
    this.#remembered.set(key, refusal)
  }
}

/** Returns whether a check would be refused for the same reason: an edited policy is another one. */
function holds(refusal: Refusal, { policy, cost }: Check): boolean {
  return samePolicy(refusal.policy, policy) && (cost === refusal.cost || countsRefused(policy))
}

/** Returns the windows of a refusal: as the store answered, or unused where they have ended since. */
function windowsAt({ decision, resetAtMs }: Refusal, nowMs: number): readonly WindowState[] | undefined {
  const elapsedMs = nowMs - (resetAtMs - decision.resetMs)
  return decision.windows?.map(({ limit, remaining, resetMs, retryAfterMs: waitMs }) => {
    const retryAfterMs = waitMs === null ? null : Math.max(0, waitMs - elapsedMs)
    const leftMs = resetMs - elapsedMs
    return leftMs > 0
      ? { limit, remaining, resetMs: leftMs, retryAfterMs }
      : { limit, remaining: limit, resetMs: 0, retryAfterMs }
  })
}

/** Returns whether each window ends within one of every longer period: a month consists of days. */
function areNested({ windows = [] }: Policy): boolean {
  const periods = windows.map(({ periodMs }) => periodMs)
  return periods.every((period) =>
    periods.every((longer) => longer <= period || (longer === MONTH_MS ? DAY_MS : longer) % period === 0),
  )
}

/** Returns how long a refusal certainly holds, in milliseconds; null where that is not known. */
function waitFor({ policy, cost }: Check, { resetMs, retryAfterMs, windows, unavailable }: Decision): number | null {
  // A request in progress may finish at any moment, and a store may answer again.
  if (!isRate(policy) || unavailable) return null
  if (policy.reserves) return retryAfterMs ?? RESERVATION_MS
  if (policy.algorithm === 'fixed_window') {
    if (windows === undefined) return resetMs
    if (windows.some((window) => window.resetMs > resetMs)) return null
    // A later window, which outlives this refusal, must count the requests that are in both.
    return areNested(policy) ? resetMs : Math.min(...windows.map((window) => window.resetMs))
  }
  if (cost > 1) return null
  // A limit of 0 is never used, so that only an edit of the limit changes the answer.
  return retryAfterMs ?? (resetMs === 0 ? policy.periodMs : null)
}

export interface RefusalsPoll {
  /** Returns whether remembered refusals were confirmed lately; otherwise a confirmation is under way. */
  isFresh(nowMs: number): boolean
  close(): Promise<void> | void
}

/**
 * Remembers refusals, so that a flood from a refused client costs no store call until its wait ends. A client that the
 * store has refused stays refused while the store fails.
 */
export class RememberedRefusals implements SafeStore {
  readonly concurrency: number
  readonly #store: CircuitBreaker
  readonly #poll: RefusalsPoll | undefined
  readonly #refusals: Refusals

  /** @param maxAgeMs returns how long a refusal is remembered: it may come from what other requests have for a moment */
  constructor(store: CircuitBreaker, poll: RefusalsPoll | undefined, maxAgeMs?: () => number) {
    this.concurrency = store.concurrency
    this.#store = store
    this.#poll = poll
    this.#refusals = new Refusals(maxAgeMs)
  }

  decideLocally(check: Check, nowMs: number): Decision | undefined {
    return this.remembered(check, nowMs) ?? this.#store.decideLocally(check, nowMs)
  }

  /** Returns a refusal that holds, without asking the store; it counts the check. */
  remembered(check: Check, nowMs: number): Decision | undefined {
    if (this.#refusals.isEmpty) return undefined
    // The store decides until it is known whether refusals still hold.
    if (!this.#store.isOpen && this.#poll?.isFresh(nowMs) === false) return undefined
    return this.#refusals.answer(check, nowMs)
  }

  async check(checks: readonly Check[], nowMs: number): Promise<Answers> {
    const { generation } = this.#refusals
    const decisions = await this.#store.check(checks, nowMs)
    const isDown = this.#store.isOpen
    return decisions.map((decision, index) => {
      const check = checks[index]
      if (check === undefined || decision === undefined) return undefined
      return isDown
        ? (this.#refusals.answer(check, nowMs) ?? decision)
        : this.#refusals.note(check, decision, nowMs, generation)
    })
  }

  decideWithout(check: Check, nowMs: number): Decision {
    return this.#refusals.answer(check, nowMs) ?? this.#store.decideWithout(check, nowMs)
  }

  settle(settlements: readonly Settlement[], nowMs: number): Promise<void> {
    return this.#store.settle(settlements, nowMs)
  }

  async reset(keys: readonly string[]): Promise<void> {
    this.forget(keys)
    try {
      await this.#store.reset(keys)
    } finally {
      // An earlier check may have been answered meanwhile.
      this.forget(keys)
    }
  }

  forget(keys: readonly string[]): void {
    this.#refusals.forget(keys)
  }

  forgetAll(): void {
    this.#refusals.forgetAll()
  }
}
