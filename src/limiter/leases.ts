import type { Check, Decision, Policy, Settlement } from './algorithm.js'
import type { Answers, BatchStore, WrappedStore } from './batch-store.js'
import { Rounds } from './rounds.js'
import { Share } from './share.js'

/** Further clients push out the oldest; each takes about 300 bytes. */
const MAX_SHARES = 10_000
/** How many settlements are sent at once, so that checks do not wait long. */
const MAX_SETTLED = 512

export interface LeaseOptions {
  /** How long a share may be used, in milliseconds. */
  readonly leaseMs: number
  /** The clock of requests. */
  readonly now: () => number
}

/** The checks on one counter in one batch. */
interface Asking {
  readonly share: Share
  readonly checks: { readonly check: Check; readonly index: number }[]
  kept: number
  taken: number
  /** Whether the store has answered, after which the share may be spent. */
  isAnswered: boolean
}

/**
 * Takes shares of what is left to busy clients, so that their requests are decided in memory: one check asks the store
 * for more than its requests need. A share is taken only of what the last decision left, so that all processes together
 * never admit more than the limit; what is unused goes back when the lease's time is over.
 *
 * A share is one of all windows together: the smallest rest decides its size. It ends with the first of its windows,
 * when its policy differs from that of a check, and when a counter is reset; what is unused then goes back to every
 * window that has counted it and still runs. A process that dies loses its shares: they stay counted until the window
 * ends. So does one whose store fails, or where another process has reset a counter, since it might be this one, where
 * there is nothing to be given back.
 */
export class Leases implements WrappedStore {
  readonly concurrency: number
  readonly #store: BatchStore
  readonly #options: LeaseOptions
  // Insertion order is the order of eviction.
  readonly #shares = new Map<string, Share>()
  readonly #oldest = new Rounds(this.#shares)
  readonly #sweeping: NodeJS.Timeout
  #ended: Settlement[] = []
  #settling: Promise<void> = Promise.resolve()
  /** How often counters had been reset when the shares were taken. Where that is not known, none are taken. */
  #resets: number | undefined
  #knowsResets = false
  #isReadingResets = false

  constructor(store: BatchStore, options: LeaseOptions) {
    this.concurrency = store.concurrency
    this.#store = store
    this.#options = options
    this.#sweeping = setInterval(() => this.#sweep(), options.leaseMs / 2).unref()
  }

  known(check: Check, nowMs: number): Decision | undefined {
    if (check.cost === 0 || !hasShares(check.policy)) return undefined
    const share = this.#shares.get(check.key)
    if (share === undefined) this.#open(check.key, nowMs)
    return share?.spend(check, nowMs)
  }

  async check(checks: readonly Check[], nowMs: number): Promise<Answers> {
    const { askings, single, mustSettle } = this.#plan(checks, nowMs)
    try {
      if (mustSettle) await this.#settleShares()
      const sums = askings.map(({ checks, taken }) => sumOf(checks, taken))
      const answers = await this.#store.check([...single.map(({ check }) => check), ...sums], nowMs)
      const decisions = new Array<Decision | undefined>(checks.length)
      this.#assign(single, answers, nowMs, decisions)
      const refused = askings.filter((asking, index) => {
        const decision = answers[single.length + index]
        asking.isAnswered = decision !== undefined
        return decision !== undefined && !this.#take(asking, decision, nowMs, decisions)
      })
      if (refused.length > 0) {
        await this.#settleShares()
        const again = refused.flatMap((asking) => asking.checks)
        const answered = await this.#store.check(
          again.map(({ check }) => check),
          nowMs,
        )
        this.#assign(again, answered, nowMs, decisions)
      }
      return decisions
    } finally {
      for (const { share, kept, isAnswered } of askings) {
        if (!isAnswered) share.restore(kept)
        share.isAsking = false
      }
    }
  }

  /** Gives back what checks without a share took. */
  async settle(settlements: readonly Settlement[], nowMs: number): Promise<void> {
    await this.#store.settle?.(settlements, nowMs)
  }

  async reset(keys: readonly string[]): Promise<void> {
    this.#forget(keys)
    try {
      await this.#store.reset(keys)
    } finally {
      // Once more, since a share may have been taken meanwhile.
      this.#forget(keys)
    }
  }

  /** Forgets all shares, since another process may have reset their counters. */
  forgetAll(): void {
    this.#shares.clear()
    this.#ended = []
  }

  /** Gives all shares back. */
  close(): Promise<void> {
    clearInterval(this.#sweeping)
    for (const share of this.#shares.values()) this.#ended.push(...share.end(this.#options.now()))
    this.#shares.clear()
    return this.#settleShares()
  }

  /** Divides a batch into the checks that ask for a share, by counter, and the others. */
  #plan(checks: readonly Check[], nowMs: number) {
    const byShare = new Map<Share, Asking>()
    const single: Asking['checks'] = []
    for (const [index, check] of checks.entries()) {
      const share = this.#shares.get(check.key)
      if (share === undefined || share.isAsking) single.push({ check, index })
      else {
        const asking = byShare.get(share) ?? { share, checks: [], kept: 0, taken: 0, isAnswered: false }
        asking.checks.push({ check, index })
        byShare.set(share, asking)
      }
    }
    const askings: Asking[] = []
    let mustSettle = false
    for (const asking of byShare.values()) {
      mustSettle = this.#endUnsuited(asking, nowMs) || mustSettle
      if (this.#asksForShare(asking, nowMs)) askings.push(asking)
      else single.push(...asking.checks)
    }
    return { askings, single, mustSettle }
  }

  /** Ends a share that does not suit the checks. Returns whether the store needs it back before it answers them. */
  #endUnsuited({ share, checks }: Asking, nowMs: number): boolean {
    if (checks.every(({ check }) => check.cost > 0 && share.isOf(check.policy))) return false
    const ended = share.end(nowMs)
    this.#ended.push(...ended)
    return ended.length > 0
  }

  /** Plans what to ask for a share. Returns false where each check asks for itself alone. */
  #asksForShare(asking: Asking, nowMs: number): boolean {
    const { share, checks } = asking
    const [first] = checks
    if (first === undefined || !hasShares(first.check.policy)) return false
    if (!checks.every(({ check }) => check.cost > 0 && share.isOf(check.policy))) return false
    if (!this.#knowsResets) {
      this.#learnResets()
      return false
    }
    const { kept, taken, ended } = share.renew(first.check.policy, costOf(checks), nowMs)
    this.#ended.push(...ended)
    asking.kept = kept
    asking.taken = taken
    share.isAsking = kept + taken > 0
    return share.isAsking
  }

  /** Decides the checks of a share that the store has granted. Returns false where it has not. */
  #take(asking: Asking, decision: Decision, nowMs: number, decisions: (Decision | undefined)[]): boolean {
    const { share, checks, kept, taken } = asking
    const sum = sumOf(checks, taken)
    if (!decision.allowed) {
      this.#ended.push(...share.settlement(kept, nowMs))
      share.note(sum.policy, decision, nowMs)
      if (sum.policy.algorithm === 'fixed_window') this.#ended.push(...share.settlement(sum.cost, nowMs))
      return false
    }
    this.#ended.push(...share.note(sum.policy, decision, nowMs, kept, taken))
    let unused = share.unused + sum.cost - taken
    for (const { check, index } of checks) {
      unused -= check.cost
      decisions[index] = share.decide(check.cost, unused, nowMs)
    }
    return true
  }

  #assign(asked: Asking['checks'], answers: Answers, nowMs: number, decisions: (Decision | undefined)[]): void {
    for (const [position, { check, index }] of asked.entries()) {
      const decision = answers[position]
      if (decision === undefined) continue
      decisions[index] = decision
      const share = this.#shares.get(check.key)
      if (share !== undefined && !share.isAsking && share.unused === 0) share.note(check.policy, decision, nowMs)
    }
  }

  /** Reads how often counters have been reset, for which no check waits. */
  #learnResets(): void {
    if (!this.#isReadingResets) void this.#readResets().catch(() => undefined)
  }

  async #readResets(): Promise<void> {
    this.#isReadingResets = true
    try {
      this.#resets = await this.#store.resets?.()
      this.#knowsResets = true
    } catch (error) {
      this.#knowsResets = false
      throw error
    } finally {
      this.#isReadingResets = false
    }
  }

  #open(key: string, nowMs: number): void {
    if (this.#shares.size >= MAX_SHARES) {
      const [oldest, share] = this.#oldest.step() ?? []
      if (share !== undefined) this.#ended.push(...share.end(nowMs))
      if (oldest !== undefined) this.#shares.delete(oldest)
    }
    this.#shares.set(key, new Share(key, this.#options.leaseMs, nowMs))
  }

  #forget(keys: readonly string[]): void {
    for (const key of keys) this.#shares.delete(key)
    this.#ended = this.#ended.filter(({ key }) => !keys.includes(key))
  }

  #sweep(): void {
    const nowMs = this.#options.now()
    for (const [key, share] of this.#shares) {
      if (!share.isAsking && !share.isInForce(nowMs)) this.#ended.push(...share.end(nowMs))
      if (share.isIdle(nowMs)) this.#shares.delete(key)
    }
    void this.#settleShares()
  }

  /** Gives back what has ended, after what is being given back. */
  #settleShares(): Promise<void> {
    this.#settling = this.#settling.then(() => this.#settleEnded())
    return this.#settling
  }

  async #settleEnded(): Promise<void> {
    if (this.#ended.length === 0) return
    try {
      const known = this.#resets
      await this.#readResets()
      if (known !== this.#resets) this.forgetAll()
      while (this.#ended.length > 0) {
        await this.#store.settle?.(this.#ended.splice(0, MAX_SETTLED), this.#options.now())
      }
    } catch {
      // What a failing store has counted stays counted.
      this.#ended = []
    }
  }
}

/** Whether a limit can have shares: what drains from a bucket would be admitted by two processes. */
function hasShares({ algorithm }: Policy): boolean {
  return algorithm === 'fixed_window' || algorithm === 'sliding_window'
}

function costOf(checks: Asking['checks']): number {
  return checks.reduce((sum, { check }) => sum + check.cost, 0)
}

/** Returns one check for all checks on a counter and for a share of it. */
function sumOf(checks: Asking['checks'], taken: number): Check {
  const [first] = checks
  if (first === undefined) throw new RangeError('no checks of a counter')
  return { ...first.check, cost: costOf(checks) + taken }
}
