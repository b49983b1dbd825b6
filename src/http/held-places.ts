/** The places that requests in progress hold, for limits that count those. */
import { randomInt } from 'node:crypto'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { type Decision, isPlain, type Settlement } from '../limiter/algorithm.js'
import type { Limiter } from '../limiter/limiter.js'
import { after } from './after.js'
import type { CheckedRequest } from './decide.js'
import { atRequestEnd } from './request-end.js'
import { UnderWay } from './under-way.js'

/** The property of a request that holds its reply, which code that has only the request needs. */
export const REPLY = Symbol('fastify-smart-ratelimit.reply')

type RequestWithReply = FastifyRequest & { [REPLY]?: FastifyReply | null }

/** Processes count their places from random numbers below this on, so that they have no identities in common. */
const FIRST_PLACES = 2 ** 48 - 1

/** How much one request takes before what is free by itself is looked for. */
const FIRST_SWEEP = 32

/** What one request holds. That of a WebSocket may take places with each message, for days. */
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
 * Takes the places of requests, and gives them back when the request has ended: once, whatever ends it. What is not given
 * back, as when this process is killed, is free after the period.
 */
export class HeldPlaces {
  /** Whether some limit counts requests in progress, or a rule may, so that replies have to be kept. */
  isNeeded = false
  readonly #limiter: Pick<Limiter, 'settle'>
  readonly #now: () => number
  readonly #failed: (error: unknown) => void
  readonly #held = new Map<FastifyRequest, Held>()
  /** What the store is giving back. */
  readonly underWay: UnderWay
  #nextPlace = randomInt(FIRST_PLACES)

  /** @param failed reports that places could not be given back, as with a clock of the host that throws */
  constructor(limiter: Pick<Limiter, 'settle'>, now: () => number, failed: (error: unknown) => void) {
    this.#limiter = limiter
    this.#now = now
    this.#failed = failed
    this.underWay = new UnderWay(failed)
  }

  /** Keeps the reply of a request, for checks that come from code. */
  keepReply(request: RequestWithReply, reply: FastifyReply): void {
    if (this.isNeeded) request[REPLY] = reply
  }

  /**
   * Checks a request, and holds what it takes until the request ends.
   *
   * @param ask asks the limiter
   */
  take({ request, asked, nowMs }: CheckedRequest, ask: Limiter['check']): Decision | Promise<Decision> {
    const { policy } = asked
    if (!isPlain(policy)) throw new RangeError('requests in progress are counted in one window')
    const taken = { ...asked, policy, place: this.#nextPlace++ }
    return after(ask(taken, nowMs), (decision) => {
      if (decision.allowed && taken.cost > 0) this.#hold(request, taken, nowMs)
      return decision
    })
  }

  /** Gives back what requests still hold, such as those that own their connection, and waits for the store. */
  async close(): Promise<void> {
    for (const request of this.#held.keys()) this.#end(request)
    await this.underWay.close()
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
    atRequestEnd(request, request[REPLY] ?? undefined, () => this.#end(request))
  }

  #end(request: FastifyRequest): void {
    const held = this.#held.get(request)
    this.#held.delete(request)
    for (const { taken } of held?.all ?? []) this.#giveBack(taken)
  }

  #giveBack(taken: Settlement): void {
    try {
      const settled = this.#limiter.settle(taken, this.#now())
      if (settled instanceof Promise) this.underWay.add(taken.key, settled)
    } catch (error) {
      // Nothing would catch it.
      this.#failed(error)
    }
  }
}
