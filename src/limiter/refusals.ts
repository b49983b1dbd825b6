import type { Algorithm, Check, Decision } from './algorithm.js'
import { Rounds } from './rounds.js'

/** What a store refused, and until when that holds. Times are absolute, in milliseconds. */
interface Refusal {
  readonly algorithm: Algorithm
  readonly limit: number
  readonly periodMs: number
  readonly untilMs: number
  readonly resetAtMs: number
  /** Counts how often all were forgotten: one of an earlier era holds no longer, but its count goes on. */
  readonly era: number
  count: number
}

/** A flood that comes from more clients than this is one that the store sees; about 300 bytes each. */
const MAX_REMEMBERED = 10_000
/** How many are looked at, whenever one is noted, for those that are over: more than one, so that it wins. */
const EXPIRY_LOOKS = 2

/**
 * What the store refused, so that a flood from a blocked client costs no store call until its wait ends.
 *
 * A refusal is answered as the store would answer it. That needs the store's counter, but where the wait is known and
 * nothing is left meanwhile: in an exhausted fixed window, and for checks of cost 1 that were refused. Other checks are
 * not remembered. Of a fixed window `count` goes on from the last one that the store gave, for this process alone.
 */
export class Refusals {
  // Insertion order is the order of eviction: what is evicted is asked for again.
  readonly #remembered = new Map<string, Refusal>()
  readonly #oldest = new Rounds(this.#remembered)
  readonly #next = new Rounds(this.#remembered)
  #generation = 0
  #era = 0

  get isEmpty(): boolean {
    return this.#remembered.size === 0
  }

  /** Changes whenever something is forgotten: an answer that was asked for before that is not to be remembered. */
  get generation(): number {
    return this.#generation
  }

  /** The answer to a check that is sure to be refused. */
  answer(check: Check, nowMs: number): Decision | undefined {
    const refusal = this.#remembered.get(check.key)
    if (refusal === undefined || refusal.era !== this.#era || !holds(refusal, check)) return undefined
    if (nowMs >= refusal.untilMs) {
      this.#remembered.delete(check.key)
      return undefined
    }
    const { policy, cost } = check
    if (policy.algorithm === 'fixed_window') refusal.count += cost
    return {
      allowed: false,
      count: refusal.count,
      limit: policy.limit,
      remaining: 0,
      resetMs: Math.max(0, refusal.resetAtMs - nowMs),
      retryAfterMs: cost > policy.limit ? null : refusal.untilMs - nowMs,
    }
  }

  /**
   * Takes note of what the store answered.
   *
   * @param generation what `generation` was when the store was asked
   * @returns the decision; its count goes on from what was answered from memory in the same window
   */
  note(check: Check, decision: Decision, nowMs: number, generation: number): Decision {
    const { key, policy, cost } = check
    const known = this.#remembered.get(key)
    if (decision.allowed) {
      if (known !== undefined) this.#remembered.delete(key)
      return decision
    }
    const waitMs = waitOf(check, decision)
    if (waitMs === null || generation !== this.#generation) return decision
    const resetAtMs = nowMs + decision.resetMs
    const isSameWindow = policy.algorithm === 'fixed_window' && known?.resetAtMs === resetAtMs
    const count = isSameWindow ? Math.max(decision.count, known.count + cost) : decision.count
    this.#remember(key, {
      algorithm: policy.algorithm,
      limit: policy.limit,
      periodMs: policy.periodMs,
      untilMs: nowMs + waitMs,
      resetAtMs,
      era: this.#era,
      count,
    })
    this.#expire(nowMs)
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

  #expire(nowMs: number): void {
    for (let looks = EXPIRY_LOOKS; looks > 0; looks--) {
      const [key, refusal] = this.#next.step() ?? []
      if (key !== undefined && refusal !== undefined && refusal.untilMs <= nowMs) this.#remembered.delete(key)
    }
  }
}

/** Whether a check would be refused for the same reason: an edited rule is another one. */
function holds({ algorithm, limit, periodMs }: Refusal, { policy, cost }: Check): boolean {
  return (
    policy.limit === limit &&
    policy.periodMs === periodMs &&
    policy.algorithm === algorithm &&
    (cost === 1 || (cost > 0 && algorithm === 'fixed_window'))
  )
}

/** How long a refusal is sure to hold; null where that is not known. */
function waitOf({ policy, cost }: Check, { resetMs, retryAfterMs }: Decision): number | null {
  if (cost === 0) return null
  if (policy.algorithm === 'fixed_window') return resetMs
  if (cost !== 1) return null
  // Of a limit of 0 nothing is used, so that nothing changes until somebody changes the limit.
  return retryAfterMs ?? (resetMs === 0 ? policy.periodMs : null)
}
