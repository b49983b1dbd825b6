/**
 * The costs that requests charge when their responses start, and the permits that they give back when they have ended.
 */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { type Check, type Decision, isPlain, type Settlement } from '../limiter/algorithm.js'
import { numberPermits } from '../limiter/core/held-permits.js'
import { countsStatus } from '../limiter/limit/counted-statuses.js'
import type { Limiter } from '../limiter/limiter.js'
import { toDecision, toPeek } from '../limiter/peek.js'
import type { CheckedRequest } from './checked-request.js'
import { after } from './host-function.js'
import type { Notices } from './notices.js'
import { REPLY, type RequestWithReply } from './request-reply.js'
import { atRequestEnd, atResponseStart, hasEnded } from './response-events.js'

/** The writes to counters after requests have ended. `decide` waits for those of a counter before the next check on it. */
class PendingWrites {
  readonly #byKey = new Map<string, Promise<unknown>>()
  readonly #failed: (error: unknown) => void

  constructor(failed: (error: unknown) => void) {
    this.#failed = failed
  }

  /** Returns the pending writes of a counter. Never rejects. */
  get(key: string): Promise<unknown> | undefined {
    return this.#byKey.get(key)
  }

  /** Runs a write after a request. Nothing else would catch its failure, which is reported. */
  run(key: string, work: () => unknown): void {
    try {
      const result = work()
      if (result instanceof Promise) this.#add(key, result)
    } catch (error) {
      this.#failed(error)
    }
  }

  #add(key: string, work: Promise<unknown>): void {
    const underWay = Promise.all([this.#byKey.get(key), work])
      .catch(this.#failed)
      .finally(() => {
        if (this.#byKey.get(key) === underWay) this.#byKey.delete(key)
      })
    this.#byKey.set(key, underWay)
  }

  /** Waits until all is done. */
  async close(): Promise<void> {
    await Promise.all(this.#byKey.values())
  }
}

/** The requests whose responses may count; requests that a limit refuses are not among them. */
const awaited = new WeakSet<FastifyRequest>()

/** Keeps the answer to a refused request from counting, also for limits that let the request through before. */
export function forgetResponse(request: FastifyRequest): void {
  awaited.delete(request)
}

/**
 * The responses that limits count. A request is checked without using anything, and its cost is used when its status is
 * decided, so that at most the limit and the requests in progress get through.
 *
 * It watches single responses: rules can begin to count responses while the server runs, and others cost nothing.
 */
export class CountedResponses {
  readonly #limiter: Pick<Limiter, 'charge'>
  readonly #now: () => number
  readonly #notices: Pick<Notices, 'note'>
  /** The charges that the store is counting. */
  readonly pending: PendingWrites

  /** @param failed reports that a response could not be counted, as with a clock of the host that throws */
  constructor(
    limiter: Pick<Limiter, 'charge'>,
    now: () => number,
    notices: Pick<Notices, 'note'>,
    failed: (error: unknown) => void,
  ) {
    this.#limiter = limiter
    this.#now = now
    this.#notices = notices
    this.pending = new PendingWrites(failed)
  }

  /**
   * Decides whether a request is within its limit, and uses nothing. The count is what stands, plus the cost.
   *
   * @param ask asks the limiter
   */
  checkAhead(
    check: Check,
    nowMs: number,
    waitedMs: number,
    leads: number | undefined,
    ask: Limiter['check'],
  ): Decision | Promise<Decision> {
    return after(ask(toPeek(check), nowMs, waitedMs, leads), (decision) => toDecision(check, decision))
  }

  /** Uses the costs of a request when its response starts with a status that counts, whatever becomes of the body. */
  await(checked: CheckedRequest, reply: FastifyReply): void {
    const { request, applied = [checked] } = checked
    for (const { limit, client, check } of applied) {
      const { counts } = limit
      if (counts === null) continue
      awaited.add(request)
      atResponseStart(request, reply, (status) => {
        if (!countsStatus(counts, status) || !awaited.has(request)) return
        this.pending.run(check.key, () => {
          const nowMs = this.#now()
          const note = (decision: Decision | undefined) => this.#notices.note({ limit, client, check }, decision, nowMs)
          return after(this.#limiter.charge(check, nowMs), note)
        })
      })
    }
  }

  /** Waits until the store has counted all responses. */
  close(): Promise<void> {
    return this.pending.close()
  }
}

/** The time between examinations of requests whose end Node does not tell. */
const SWEEP_MS = 1_000

/** The number of permits that one request takes before the expired ones are looked for. */
const FIRST_SWEEP = 32

/** The permits of one request. That of a WebSocket may take permits with each message, for days. */
class Held {
  all: { readonly taken: Settlement; readonly untilMs: number }[] = []
  #sweepAt = FIRST_SWEEP

  add(taken: Settlement, nowMs: number): void {
    if (this.all.length >= this.#sweepAt) {
      this.all = this.all.filter(({ untilMs }) => untilMs > nowMs)
      this.#sweepAt = Math.max(FIRST_SWEEP, 2 * this.all.length)
    }
    this.all.push({ taken, untilMs: nowMs + taken.policy.periodMs })
  }
}

/**
 * Takes the permits of requests, and gives them back when the request has ended: once, whatever ends it. Permits that are
 * not given back, as when this process is killed, are free after the period.
 */
export class HeldPermits {
  readonly #limiter: Pick<Limiter, 'settle'>
  readonly #now: () => number
  readonly #held = new Map<RequestWithReply, Held>()
  /** The permits that the store is taking back. */
  readonly pending: PendingWrites
  readonly #nextPermit = numberPermits()
  #sweeping: NodeJS.Timeout | undefined

  /** @param failed reports that permits could not be given back, as with a clock of the host that throws */
  constructor(limiter: Pick<Limiter, 'settle'>, now: () => number, failed: (error: unknown) => void) {
    this.#limiter = limiter
    this.#now = now
    this.pending = new PendingWrites(failed)
  }

  /**
   * Checks a request, and holds what it takes until the request ends.
   *
   * @param ask asks the limiter
   */
  take(
    { request, nowMs, waitedMs }: CheckedRequest,
    check: Check,
    leads: number | undefined,
    ask: Limiter['check'],
  ): Decision | Promise<Decision> {
    const { policy } = check
    if (!isPlain(policy)) throw new RangeError('requests in progress are counted in one window')
    const taken = { ...check, policy, permit: this.#nextPermit() }
    return after(ask(taken, nowMs, waitedMs, leads), (decision) => {
      if (decision.allowed && taken.cost > 0) this.#hold(request, taken, nowMs)
      return decision
    })
  }

  /** Ends the hold on what a check of a request took last, and returns what gives it back. */
  release(request: FastifyRequest, { key }: Check): Settlement | undefined {
    const all = this.#held.get(request)?.all ?? []
    const index = all.findLastIndex(({ taken }) => taken.key === key)
    return index === -1 ? undefined : all.splice(index, 1)[0]?.taken
  }

  /** Gives back what requests still hold, such as those that own their connection, and waits for the store. */
  async close(): Promise<void> {
    this.#stopSweeping()
    for (const request of this.#held.keys()) this.#end(request)
    await this.pending.close()
  }

  #hold(request: RequestWithReply, taken: Settlement, nowMs: number): void {
    const others = this.#held.get(request)
    if (others !== undefined) {
      others.add(taken, nowMs)
      return
    }
    const held = new Held()
    held.add(taken, nowMs)
    this.#held.set(request, held)
    this.#sweeping ??= setInterval(() => this.#sweep(), SWEEP_MS).unref()
    atRequestEnd(request, request[REPLY] ?? undefined, () => this.#end(request))
  }

  /** Ends the requests that have ended without an event; stops when none is held any more. */
  #sweep(): void {
    for (const request of this.#held.keys()) if (hasEnded(request, request[REPLY] ?? undefined)) this.#end(request)
    if (this.#held.size === 0) this.#stopSweeping()
  }

  #stopSweeping(): void {
    clearInterval(this.#sweeping)
    this.#sweeping = undefined
  }

  #end(request: FastifyRequest): void {
    const held = this.#held.get(request)
    this.#held.delete(request)
    for (const { taken } of held?.all ?? []) {
      this.pending.run(taken.key, () => this.#limiter.settle(taken, this.#now()))
    }
  }
}
