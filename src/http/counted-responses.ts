/** Counts requests by the statuses of their responses, for limits that count those instead of requests. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { toDecision, toQuestion, toUse } from '../limiter/ahead.js'
import type { Check, Decision } from '../limiter/algorithm.js'
import type { Limiter } from '../limiter/limiter.js'
import { countsStatus } from '../rules/counts.js'
import { after } from './after.js'
import type { CheckedRequest } from './decide.js'
import { UnderWay } from './under-way.js'

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
  /** What the store is counting. */
  readonly underWay: UnderWay

  /** @param failed reports that a response could not be counted, as with a clock of the host that throws */
  constructor(limiter: Pick<Limiter, 'check'>, now: () => number, failed: (error: unknown) => void) {
    this.#limiter = limiter
    this.#now = now
    this.#failed = failed
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
      try {
        this.#use(asked)
      } catch (error) {
        // Nothing would catch it.
        this.#failed(error)
      }
    })
  }

  /** Waits until the store has counted all responses. */
  close(): Promise<void> {
    return this.underWay.close()
  }

  #use(asked: Check): void {
    const counted = this.#limiter.check(toUse(asked), this.#now())
    if (counted instanceof Promise) this.underWay.add(asked.key, counted)
  }
}
