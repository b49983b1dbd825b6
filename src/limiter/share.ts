import { type Check, type Decision, type Policy, type Settlement, samePolicy, type WindowState } from './algorithm.js'
import { singlePolicies, smallestLeft } from './windows.js'

/** A client with fewer requests in a lease's time has no share: it would save no call of the store. */
const FEWEST_REQUESTS = 4
/** How much a share may exceed what a client has used so far, where it was not watched for a lease's time yet. */
const GROWTH = 8

/**
 * What a process holds of one client's counter: units that the store has counted, in every window, and that no request
 * has used.
 */
export class Share {
  /** Whether a batch that asks for more is under way. It has what the share held. */
  isAsking = false
  #unused = 0
  /** The answer of the store that the share comes from; its count includes what is unused. */
  #policy: Policy | undefined
  #decision: Decision | undefined
  #takenMs = 0
  /** When each window forgets what was taken of it. */
  #resetsAtMs: readonly number[] = []
  /** When the first window ends, and the share with it. */
  #endMs = 0
  /** How much the client has used, in how many requests, since when. */
  #sinceMs: number
  #requests = 0
  #spent = 0

  constructor(
    readonly key: string,
    readonly leaseMs: number,
    nowMs: number,
  ) {
    this.#sinceMs = nowMs
  }

  /** Decides a request, where enough is held. */
  spend({ policy, cost }: Check, nowMs: number): Decision | undefined {
    this.#requests++
    this.#spent += cost
    if (cost > this.#unused || !this.isInForce(nowMs) || !this.isOf(policy)) return undefined
    this.#unused -= cost
    return this.decide(cost, this.#unused, nowMs)
  }

  /** Whether neither the lease's time nor a window is over, and the clock was not set back. */
  isInForce(nowMs: number): boolean {
    return nowMs < this.#takenMs + this.leaseMs && this.#isUsable(nowMs)
  }

  /** Whether the client has asked nothing for so long that what is known of it means nothing. */
  isIdle(nowMs: number): boolean {
    return this.#unused === 0 && Math.abs(nowMs - this.#sinceMs) >= 2 * this.leaseMs
  }

  /** Ends the share. Returns what has to be given back. */
  end(nowMs: number): Settlement[] {
    const unused = this.#unused
    this.#unused = 0
    return this.settlement(unused, nowMs)
  }

  /** Returns what gives so much back to every window that has not forgotten it. */
  settlement(cost: number, nowMs: number): Settlement[] {
    if (cost === 0 || this.#policy === undefined) return []
    const settlements: Settlement[] = []
    for (const [index, policy] of singlePolicies(this.#policy).entries()) {
      const forgottenAtMs = this.#resetsAtMs[index] ?? 0
      if (nowMs < forgottenAtMs) settlements.push({ key: this.key, policy, cost, forgottenAtMs })
    }
    return settlements
  }

  /**
   * Plans what to ask of the store: `taken` more than the `asked` of the requests. The share is empty until the answer;
   * it goes on with what is `kept`, and `ended` is given back.
   */
  renew(policy: Policy, asked: number, nowMs: number): { kept: number; taken: number; ended: Settlement[] } {
    const wanted = this.#wanted(nowMs)
    const usable = this.#isUsable(nowMs) ? this.#unused : 0
    // A little too much is kept: it would be taken again soon.
    const kept = Math.min(usable, 2 * wanted)
    const ended = this.settlement(this.#unused - kept, nowMs)
    this.#unused = 0
    // Half of what was left, so that other processes find something, and that the store seldom refuses a share.
    const room = Math.floor((this.#left(policy, nowMs) - asked) / 2)
    return { kept, taken: Math.max(0, Math.min(wanted - kept, room)), ended }
  }

  /** Holds again what was kept, since the store has failed. */
  restore(kept: number): void {
    this.#unused = kept
  }

  /**
   * Notes a decision of the store.
   *
   * @param kept what is carried over from before
   * @param taken what the store has granted beyond the requests
   * @returns what has to be given back of it, as it belongs to an earlier window
   */
  note(policy: Policy, decision: Decision, nowMs: number, kept = 0, taken = 0): Settlement[] {
    const resetsAtMs = windowsOf(decision).map(({ resetMs }) => nowMs + resetMs)
    const isCarried = kept === 0 || resetsAtMs.every((resetAtMs, index) => resetAtMs === this.#resetsAtMs[index])
    const ended = isCarried ? [] : this.settlement(kept, nowMs)
    this.#policy = policy
    this.#decision = decision
    this.#takenMs = nowMs
    this.#resetsAtMs = resetsAtMs
    this.#endMs = firstEndMs(policy, resetsAtMs)
    this.#unused = taken + (isCarried ? kept : 0)
    return ended
  }

  get unused(): number {
    return this.#unused
  }

  /** Returns the decision on an admitted request after which so much is unused. */
  decide(cost: number, unused: number, nowMs: number): Decision {
    const decision = this.#decision
    if (decision?.windows !== undefined) return this.#decideWindows(decision.windows, cost, unused, nowMs)
    const { limit, count } = decision ?? { limit: 0, count: 0 }
    const used = Math.max(cost, count - unused)
    const resetMs = Math.max(0, (this.#resetsAtMs[0] ?? 0) - nowMs)
    return { allowed: true, count: used, limit, remaining: Math.max(0, limit - used), resetMs, retryAfterMs: 0 }
  }

  #decideWindows(noted: readonly WindowState[], cost: number, unused: number, nowMs: number): Decision {
    const windows = noted.map(({ limit, remaining }, index) => {
      const used = Math.max(cost, limit - remaining - unused)
      const resetMs = Math.max(0, (this.#resetsAtMs[index] ?? 0) - nowMs)
      return { limit, remaining: Math.max(0, limit - used), resetMs, retryAfterMs: 0 }
    })
    const { limit, remaining, resetMs } = smallestLeft(windows)
    return { allowed: true, count: limit - remaining, limit, remaining, resetMs, retryAfterMs: 0, windows }
  }

  /** Whether what is held may be used: nothing of another window. */
  #isUsable(nowMs: number): boolean {
    return nowMs < this.#endMs && nowMs >= this.#takenMs - this.leaseMs
  }

  /** Returns what the store had left. A new fixed window is asked first, since it counts what it refuses. */
  #left({ algorithm }: Policy, nowMs: number): number {
    if (this.#decision === undefined) return 0
    const left = windowsOf(this.#decision).map(({ limit, remaining }, index) => {
      if (nowMs < (this.#resetsAtMs[index] ?? 0)) return remaining
      return algorithm === 'fixed_window' ? 0 : limit
    })
    return Math.min(...left)
  }

  /** Returns how much the client will use in a lease's time, at its pace. */
  #wanted(nowMs: number): number {
    const elapsedMs = nowMs - this.#sinceMs
    const [requests, spent] = [this.#requests, this.#spent]
    const isWatched = elapsedMs < 0 || elapsedMs >= this.leaseMs
    if (isWatched) {
      this.#sinceMs = nowMs
      this.#requests = 0
      this.#spent = 0
    }
    const times = elapsedMs < 0 ? 0 : this.leaseMs / Math.max(1, elapsedMs)
    const factor = isWatched ? times : Math.min(GROWTH, times)
    if (requests * factor < FEWEST_REQUESTS) return 0
    return Math.ceil(spent * factor)
  }

  /** Whether the store was asked by this policy last. */
  isOf(asked: Policy): boolean {
    const policy = this.#policy
    return policy === asked || (policy !== undefined && samePolicy(policy, asked))
  }
}

function windowsOf(decision: Decision): readonly WindowState[] {
  return decision.windows ?? [decision]
}

/** Returns when the first window of a policy ends, or the cell of a sliding one, which forgets a period later. */
function firstEndMs(policy: Policy, resetsAtMs: readonly number[]): number {
  if (policy.algorithm !== 'sliding_window') return Math.min(...resetsAtMs)
  return Math.min(...singlePolicies(policy).map(({ periodMs }, index) => (resetsAtMs[index] ?? 0) - periodMs))
}
