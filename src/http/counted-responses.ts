/** Counts requests by the statuses of their responses, for limits that count those instead of requests. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { toDecision, toQuestion, toUse } from '../limiter/ahead.js'
import type { Check, Decision } from '../limiter/algorithm.js'
import type { Limiter } from '../limiter/limiter.js'
import { countsStatus } from '../rules/counts.js'
import { after } from './after.js'
import type { CheckedRequest } from './decide.js'

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
  readonly #failed: (error: unknown) => void
  /** What the store is counting, by counter. */
  readonly #underWay = new Map<string, Promise<unknown>>()

  /** @param failed reports that a response could not be counted, as with a clock of the host that throws */
  constructor(limiter: Pick<Limiter, 'check'>, now: () => number, failed: (error: unknown) => void) {
    this.#limiter = limiter
    this.#now = now
    this.#failed = failed
  }

  /**
   * Decides whether a request is within its limit, and uses nothing. The count is what stands, plus the cost. A client's
   * next request waits until the store has counted the last response, which the client may know before.
   *
   * @param ask asks the limiter
   */
  checkAhead(asked: Check, nowMs: number, ask: Limiter['check']): Decision | Promise<Decision> {
    const question = toQuestion(asked)
    const underWay = this.#underWay.get(asked.key)
    const standing = underWay === undefined ? ask(question, nowMs) : underWay.then(() => ask(question, nowMs))
    return after(standing, (decision) => toDecision(asked, decision))
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
      try {
        this.#use(asked)
      } catch (error) {
        // Nothing would catch it.
        this.#failed(error)
      }
    })
  }

  /** Waits until the store has counted all responses. */
  async close(): Promise<void> {
    await Promise.all(this.#underWay.values())
  }

  #use(asked: Check): void {
    const { key } = asked
    const counted = this.#limiter.check(toUse(asked), this.#now())
    if (!(counted instanceof Promise)) return
    const underWay = Promise.all([this.#underWay.get(key), counted])
      .catch(this.#failed)
      .finally(() => {
        if (this.#underWay.get(key) === underWay) this.#underWay.delete(key)
      })
    this.#underWay.set(key, underWay)
  }
}
