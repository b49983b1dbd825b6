import type { Algorithm, Check, Decision, Policy } from './algorithm.js'
import { Rounds } from './rounds.js'

/** What a store refused, and until when that holds. Times are absolute, in milliseconds. */
interface Refusal {
  readonly algorithm: Algorithm
  readonly limit: number
  readonly periodMs: number
  readonly untilMs: number
  readonly resetAtMs: number
  count: number
}

/** A flood that comes from more clients than this is one that the store sees; about 300 bytes each. */
const MAX_REMEMBERED = 10_000

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
  #forgotten = 0

  get isEmpty(): boolean {
    return this.#remembered.size === 0
  }

  /** Changes whenever something is forgotten: an answer that was asked for before that is not to be remembered. */
  get generation(): number {
    return this.#forgotten
  }

  /** The answer to a check that is sure to be refused. */
  answer({ key, policy, cost }: Check, nowMs: number): Decision | undefined {
    const refusal = this.#remembered.get(key)
    if (refusal === undefined || !holds(refusal, policy, cost)) return undefined
    if (nowMs >= refusal.untilMs) {
      this.#remembered.delete(key)
      return undefined
    }
    const { limit } = policy
    if (policy.algorithm === 'fixed_window') refusal.count += cost
    return {
      allowed: false,
      count: refusal.count,
      limit,
      remaining: 0,
      resetMs: refusal.resetAtMs - nowMs,
      retryAfterMs: cost > limit ? null : refusal.untilMs - nowMs,
    }
  }

  /**
   * Takes note of what the store answered.
   *
   * @param generation what `generation` was when the store was asked
   */
  note({ key, policy, cost }: Check, decision: Decision, nowMs: number, generation: number): void {
    const waitMs = policy.algorithm === 'fixed_window' ? decision.resetMs : decision.retryAfterMs
    if (decision.allowed || waitMs === null || cost === 0 || generation !== this.#forgotten) {
      // It may have been let in under another limit.
      if (decision.allowed) this.#remembered.delete(key)
      return
    }
    if (policy.algorithm !== 'fixed_window' && cost !== 1) return
    if (this.#remembered.size >= MAX_REMEMBERED && !this.#remembered.has(key)) this.#evict()
    this.#remembered.set(key, {
      algorithm: policy.algorithm,
      limit: policy.limit,
      periodMs: policy.periodMs,
      untilMs: nowMs + waitMs,
      resetAtMs: nowMs + decision.resetMs,
      count: decision.count,
    })
  }

  forget(key: string): void {
    this.#forgotten++
    this.#remembered.delete(key)
  }

  forgetAll(): void {
    this.#forgotten++
    this.#remembered.clear()
  }

  #evict(): void {
    const [oldest] = this.#oldest.step() ?? []
    if (oldest !== undefined) this.#remembered.delete(oldest)
  }
}

/** Whether a check would be refused for the same reason: an edited rule is another one. */
function holds({ algorithm, limit, periodMs }: Refusal, policy: Policy, cost: number): boolean {
  return (
    policy.limit === limit &&
    policy.periodMs === periodMs &&
    policy.algorithm === algorithm &&
    (cost === 1 || (cost > 0 && algorithm === 'fixed_window'))
  )
}
