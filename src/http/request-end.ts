/** The end of a request: its response is finished, or its connection is gone. */

import { randomInt } from 'node:crypto'
import type { EventEmitter } from 'node:events'
import { Duplex } from 'node:stream'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { toDecision, toQuestion, toUse } from '../limiter/ahead.js'
import { type Check, type Decision, isPlain, type Settlement } from '../limiter/algorithm.js'
import type { Limiter } from '../limiter/limiter.js'
import { countsStatus } from '../rules/counts.js'
import type { CheckedRequest } from './decide.js'
import { after } from './host-function.js'

/**
 * The requests that wait for a connection to close. Each connection has one listener, since many pipelined requests may
 * share it, and Node tells only the response that is being sent.
 */
const waiting = new WeakMap<EventEmitter, Set<() => void>>()

/** Returns whether a request is an upgrade: Node sets the flag where a listener of the server handles upgrades. */
export function isUpgrade({ raw }: FastifyRequest): boolean {
  return 'upgrade' in raw && raw.upgrade === true
}

/**
 * Calls back when a request has ended, at once where it has already. A request that upgraded its connection ends when
 * the connection is closed, as does one whose host took the connection over.
 *
 * @param reply undefined where it is not known; then only the end of the connection is
 * @param end called once or more often
 */
function atRequestEnd(request: FastifyRequest, reply: FastifyReply | undefined, end: () => void): void {
  const { raw } = request
  // HTTP/2 has a stream for each request.
  const stream = 'stream' in raw ? raw.stream : undefined
  if (stream instanceof Duplex) {
    if (stream.destroyed || stream.writableFinished) end()
    else stream.once('finish', end).once('close', end)
    return
  }
  const { socket } = raw
  const response = isUpgrade(request) ? undefined : reply?.raw
  if (socket.destroyed || response?.writableFinished) {
    end()
    return
  }
  const leave = joinWaiting(socket, end)
  response?.once('finish', end).once('finish', leave).once('close', end).once('close', leave)
}

/** @returns a function that ends the wait */
function joinWaiting(socket: EventEmitter, end: () => void): () => void {
  let others = waiting.get(socket)
  if (others === undefined) {
    const ends = new Set<() => void>()
    waiting.set(socket, ends)
    socket.once('close', () => {
      for (const each of ends) each()
    })
    others = ends
  }
  const joined = others.add(end)
  return () => {
    joined.delete(end)
  }
}

/** What the store is doing for counters after requests have ended: `decide` waits for it before the next check on a counter. */
class UnderWay {
  readonly #byKey = new Map<string, Promise<unknown>>()
  readonly #failed: (error: unknown) => void

  constructor(failed: (error: unknown) => void) {
    this.#failed = failed
  }

  /** Returns what is under way for a counter. Never rejects. */
  get(key: string): Promise<unknown> | undefined {
    return this.#byKey.get(key)
  }

  /** Runs work after a request, which nothing else would catch: its failure is reported. */
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
 * The responses that limits count. A request is checked without using anything, and its cost is used when its response
 * has finished, so that at most the limit and the requests in progress get through.
 *
 * It listens to single responses: rules can begin to count responses while the server runs, and others cost nothing.
 */
export class CountedResponses {
  readonly #limiter: Pick<Limiter, 'check'>
  readonly #now: () => number
  /** What the store is counting. */
  readonly underWay: UnderWay

  /** @param failed reports that a response could not be counted, as with a clock of the host that throws */
  constructor(limiter: Pick<Limiter, 'check'>, now: () => number, failed: (error: unknown) => void) {
    this.#limiter = limiter
    this.#now = now
    this.underWay = new UnderWay(failed)
  }

  /**
   * Decides whether a request is within its limit, and uses nothing. The count is what stands, plus the cost.
   *
   * @param ask asks the limiter
   */
  checkAhead(asked: Check, nowMs: number, ask: Limiter['check']): Decision | Promise<Decision> {
    return after(ask(toQuestion(asked), nowMs), (decision) => toDecision(asked, decision))
  }

  /** Uses the cost of a request when its response is complete and has a status that counts. */
  await({ request, limit: { counts }, asked }: CheckedRequest, reply: FastifyReply): void {
    if (counts === null) return
    awaited.add(request)
    const { raw } = reply
    raw.once('finish', () => {
      // HTTP/2 has this event for aborted responses too.
      const isComplete = raw.writableEnded && !raw.destroyed
      if (!isComplete || !countsStatus(counts, raw.statusCode) || !awaited.has(request)) return
      this.underWay.run(asked.key, () => this.#limiter.check(toUse(asked), this.#now()))
    })
  }

  /** Waits until the store has counted all responses. */
  close(): Promise<void> {
    return this.underWay.close()
  }
}

/** The property of a request that holds its reply, which code that has only the request needs. */
export const REPLY = Symbol('fastify-smart-ratelimit.reply')

export type RequestWithReply = FastifyRequest & { [REPLY]?: FastifyReply | null }

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
  readonly #limiter: Pick<Limiter, 'settle'>
  readonly #now: () => number
  readonly #held = new Map<FastifyRequest, Held>()
  /** What the store is giving back. */
  readonly underWay: UnderWay
  #nextPlace = randomInt(FIRST_PLACES)

  /** @param failed reports that places could not be given back, as with a clock of the host that throws */
  constructor(limiter: Pick<Limiter, 'settle'>, now: () => number, failed: (error: unknown) => void) {
    this.#limiter = limiter
    this.#now = now
    this.underWay = new UnderWay(failed)
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
    for (const { taken } of held?.all ?? []) {
      this.underWay.run(taken.key, () => this.#limiter.settle(taken, this.#now()))
    }
  }
}
