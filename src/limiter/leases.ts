import { type Check, type Decision, isPlain, type PlainPolicy, type Policy, type Settlement } from './algorithm.js'
import type { Answers, BatchStore, WrappedStore } from './batch-store.js'
import { CyclicIterator } from './cyclic-iterator.js'
import { Share } from './share.js'

/** Further clients push out the oldest; each takes about 300 bytes. */
const MAX_SHARES = 10_000
/** The number of settlements that are sent at once, so that checks do not wait long. */
const MAX_SETTLED = 512

export interface LeaseOptions {
  /** The time for which a share may be used, in milliseconds. */
  readonly leaseMs: number
  /** The clock of requests. */
  readonly now: () => number
}

/** The units that a batch takes for a share, beside the requests of the client. */
interface Taking {
  readonly share: Share
  readonly policy: PlainPolicy
  cost: number
  taken: number
}

/**
 * Takes shares of what is left to busy clients, so that their requests are decided in memory: a batch that goes to the
 * store anyway has one check more, for the share. A share is taken only of what the last decision left, so that all
 * processes together never admit more than the limit; what is unused goes back when the lease's time is over.
 *
 * Limits of one fixed window have shares. A share ends with its window, when its policy differs from that of a check,
 * and when a counter is reset. A process that dies loses its shares: they stay counted until the window ends. So does
 * one whose store fails, or where another process has reset a counter, since it might be this one, where there is
 * nothing to be given back.
 */
export class Leases implements WrappedStore {
  readonly concurrency: number
  readonly #store: BatchStore
  readonly #options: LeaseOptions
  // Insertion order is the order of eviction.
  readonly #shares = new Map<string, Share>()
  readonly #oldest = new CyclicIterator(this.#shares)
  readonly #sweeping: NodeJS.Timeout
  #ended: Settlement[] = []
  #settling: Promise<void> = Promise.resolve()
  /** The number of resets of counters when the shares were taken. No shares are taken before it has been read. */
  #resets: number | undefined
  #knowsResets = false
  #isReadingResets = false

  constructor(store: BatchStore, options: LeaseOptions) {
    this.concurrency = store.concurrency
    this.#store = store
    this.#options = options
    this.#sweeping = setInterval(() => this.#sweep(), options.leaseMs / 2).unref()
  }

  decideLocally(check: Check, nowMs: number): Decision | undefined {
    const { key, policy, cost } = check
    if (cost === 0 || !hasShares(policy)) return undefined
    const share = this.#shares.get(key)
    if (share === undefined) this.#open(key, nowMs)
    return share?.spend(check, policy, nowMs)
  }

  async check(checks: readonly Check[], nowMs: number): Promise<Answers> {
    const unsuited = checks.flatMap((check) => this.#endUnsuited(check, nowMs))
    const takings = this.#plan(checks, nowMs)
    if (unsuited.length > 0) {
      this.#ended.push(...unsuited)
      await this.#settleShares()
    }
    try {
      const shares = takings.map(({ share, policy, taken }) => ({ key: share.key, policy, cost: taken }))
      const answers = await this.#store.check([...checks, ...shares], nowMs)
      const decisions = answers.slice(0, checks.length)
      for (const [index, check] of checks.entries()) this.#note(check, decisions[index], nowMs)
      const refused = takings.flatMap((taking, index) => this.#take(taking, answers[checks.length + index], nowMs))
      if (refused.length > 0) {
        this.#ended.push(...refused)
        await this.#settleShares()
      }
      return decisions
    } finally {
      for (const { share } of takings) share.isTaking = false
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
      // A share may have been taken meanwhile.
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

  /** Ends a share that does not suit a check, which the store answers when it has the share back. */
  #endUnsuited({ key, policy, cost }: Check, nowMs: number): Settlement[] {
    const share = this.#shares.get(key)
    if (share === undefined || (cost > 0 && hasShares(policy) && share.isOf(policy))) return []
    return share.end(nowMs)
  }

  /** Plans what a batch takes for the shares of its clients. */
  #plan(checks: readonly Check[], nowMs: number): Taking[] {
    const takings = new Map<Share, Taking>()
    for (const { key, policy, cost } of checks) {
      const share = this.#shares.get(key)
      if (share === undefined || share.isTaking || cost === 0 || !hasShares(policy) || !share.isOf(policy)) continue
      const taking = takings.get(share) ?? { share, policy, cost: 0, taken: 0 }
      taking.cost += cost
      takings.set(share, taking)
    }
    if (takings.size > 0 && !this.#knowsResets) {
      this.#learnResets()
      return []
    }
    return [...takings.values()].filter((taking) => {
      const { taken, ended } = taking.share.renew(taking.cost, nowMs)
      this.#ended.push(...ended)
      taking.taken = taken
      taking.share.isTaking = taken > 0
      return taken > 0
    })
  }

  /** Adds to a share what the store has granted. Returns what has to be given back, since it counts what it refuses. */
  #take({ share, policy, taken }: Taking, decision: Decision | undefined, nowMs: number): Settlement[] {
    if (decision === undefined) return []
    this.#ended.push(...share.note(policy, decision, nowMs))
    share.add(taken)
    return decision.allowed ? [] : share.giveBack(taken, nowMs)
  }

  #note({ key, policy }: Check, decision: Decision | undefined, nowMs: number): void {
    const share = this.#shares.get(key)
    if (share === undefined || decision === undefined || !hasShares(policy)) return
    this.#ended.push(...share.note(policy, decision, nowMs))
  }

  /** Reads the number of resets in the background: no check waits for it. */
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
      if (!share.isTaking && !share.isInForce(nowMs)) this.#ended.push(...share.end(nowMs))
      if (share.isIdle(nowMs)) this.#shares.delete(key)
    }
    void this.#settleShares()
  }

  /** Gives ended shares back, after those that are being given back. */
  #settleShares(): Promise<void> {
    this.#settling = this.#settling.then(() => this.#settleEnded())
    return this.#settling
  }

  async #settleEnded(): Promise<void> {
    if (this.#ended.length === 0) return
    try {
      const before = this.#resets
      await this.#readResets()
      if (before !== this.#resets) this.forgetAll()
      while (this.#ended.length > 0) {
        await this.#store.settle?.(this.#ended.splice(0, MAX_SETTLED), this.#options.now())
      }
    } catch {
      // The units that a failing store has counted stay counted.
      this.#ended = []
    }
  }
}

/** Returns whether a limit has shares: those of one fixed window. */
function hasShares(policy: Policy): policy is PlainPolicy {
  return policy.algorithm === 'fixed_window' && isPlain(policy)
}
