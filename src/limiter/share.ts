import { type Check, type Decision, type PlainPolicy, type Settlement, samePolicy } from './algorithm.js'

/** A client with fewer requests in a lease's time has no share: it would save no call of the store. */
const FEWEST_REQUESTS = 4
/** The factor by which a share may exceed the usage so far of a client that was not watched for a lease's time yet. */
const GROWTH = 8

/** The share that a process holds of one client's counter, a fixed window: units that the store counted, and no request used. */
export class Share {
  /** Whether a batch that takes more is on its way to the store. */
  isTaking = false
  #unused = 0
  /** The store's last answer, and its time. The count includes the unused units. */
  #policy: PlainPolicy | undefined
  #count = 0
  #remaining = 0
  #answeredMs = 0
  /** The end of the window, and of the share with it. */
  #endMs = 0
  /** The client's requests and their cost, since a time. */
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
  spend({ cost }: Check, policy: PlainPolicy, nowMs: number): Decision | undefined {
    this.#requests++
    this.#spent += cost
    if (cost > this.#unused || !this.isInForce(nowMs) || !this.isOf(policy)) return undefined
    this.#unused -= cost
    const { limit } = policy
    // The store counts what it refuses, too.
    const count = Math.min(limit, Math.max(cost, this.#count - this.#unused))
    return { allowed: true, count, limit, remaining: limit - count, resetMs: this.#endMs - nowMs, retryAfterMs: 0 }
  }

  /** Returns whether neither the lease's time nor the window is over, and the clock was not set back. */
  isInForce(nowMs: number): boolean {
    return nowMs < this.#answeredMs + this.leaseMs && this.#isUsable(nowMs)
  }

  /** Returns whether the client has sent nothing for so long that its pace is unknown. */
  isIdle(nowMs: number): boolean {
    return this.#unused === 0 && Math.abs(nowMs - this.#sinceMs) >= 2 * this.leaseMs
  }

  /** Returns whether the store's last answer was to this policy. */
  isOf(policy: PlainPolicy): boolean {
    return this.#policy !== undefined && samePolicy(this.#policy, policy)
  }

  /** Ends the share. Returns what has to be given back. */
  end(nowMs: number): Settlement[] {
    return this.giveBack(this.#unused, nowMs)
  }

  /**
   * Returns how much to take beside requests of this cost, and gives back what is too much. Where that is 0, the share
   * goes on with what it has.
   */
  renew(cost: number, nowMs: number): { taken: number; ended: Settlement[] } {
    const wanted = this.#wanted(nowMs)
    // A little too much is kept: it would be taken again soon.
    const kept = this.#isUsable(nowMs) ? Math.min(this.#unused, 2 * wanted) : 0
    const ended = this.giveBack(this.#unused - kept, nowMs)
    // The store is asked about a new window first, since it counts what it refuses.
    const left = nowMs < this.#endMs ? this.#remaining : 0
    // Half of what was left, so that other processes find something, and that the store seldom refuses a share.
    const room = Math.floor((left - cost) / 2)
    return { taken: Math.max(0, Math.min(wanted - kept, room)), ended }
  }

  /** Notes an answer of the store. Returns what has to be given back: what belongs to another window or policy. */
  note(policy: PlainPolicy, { count, remaining, resetMs }: Decision, nowMs: number): Settlement[] {
    const endMs = nowMs + resetMs
    const ended = endMs === this.#endMs && this.isOf(policy) ? [] : this.end(nowMs)
    this.#policy = policy
    this.#count = count
    this.#remaining = remaining
    this.#answeredMs = nowMs
    this.#endMs = endMs
    return ended
  }

  /** Adds what the store has counted for the share: the answer to it was noted. */
  add(taken: number): void {
    this.#unused += taken
  }

  /** Gives units back: returns the settlement, where the window has not ended. */
  giveBack(cost: number, nowMs: number): Settlement[] {
    this.#unused -= cost
    const policy = this.#policy
    if (cost === 0 || policy === undefined || nowMs >= this.#endMs) return []
    return [{ key: this.key, policy, cost, marks: [this.#endMs] }]
  }

  /** Returns whether the units may be used: none of another window may. */
  #isUsable(nowMs: number): boolean {
    return nowMs < this.#endMs && nowMs >= this.#answeredMs - this.leaseMs
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
}
