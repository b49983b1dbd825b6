/** Records decisions after the hooks of a request, where a limit of the route may refuse it until then. */
import type { FastifyReply, FastifyRequest, HookHandlerDoneFunction, RouteOptions } from 'fastify'
import type { CheckedRequest } from './checked-request.js'
import { atResponseStart, hasEnded } from './response-events.js'

/**
 * @param checked by the plugin's own check
 * @param refused by a limit of the route, which then is what came of the request
 */
export type RecordDecision = (checked: CheckedRequest, refused?: CheckedRequest) => void

interface Waiting {
  readonly checked: CheckedRequest
  readonly reply: FastifyReply
}

/**
 * The time between examinations of requests that no response of this process answers: upgrades, and those of clients
 * that left.
 */
const SWEEP_MS = 1_000

/** The requests whose decision is not recorded yet. Each is recorded exactly once. */
export class PostponedRecords {
  readonly #record: RecordDecision
  readonly #waiting = new Map<FastifyRequest, Waiting>()
  #sweeping: NodeJS.Timeout | undefined
  readonly #passHooks = (request: FastifyRequest, _reply: unknown, done: HookHandlerDoneFunction): void => {
    this.#settle(request)
    done()
  }

  constructor(record: RecordDecision) {
    this.#record = record
  }

  /** Adds a last hook to a route: its requests wait no longer, whatever its handler waits for. */
  noteRoute(route: RouteOptions): void {
    route.preHandler = [...[route.preHandler ?? []].flat(), this.#passHooks]
  }

  /** Waits until the hooks have passed, the answer starts, the host has taken the connection over, or it is gone. */
  add(checked: CheckedRequest, reply: FastifyReply): void {
    const { request } = checked
    this.#waiting.set(request, { checked, reply })
    atResponseStart(request, reply, () => this.#settle(request))
    this.#sweeping ??= setInterval(() => this.sweep(), SWEEP_MS).unref()
  }

  /** Records that a limit of the route has refused a request; nothing where the plugin's own check did not run. */
  takeOver(refused: CheckedRequest): void {
    this.#settle(refused.request, refused)
  }

  /** Records requests that no hook can refuse any more; stops when none waits. */
  sweep(): void {
    for (const [request, { reply }] of this.#waiting) {
      if (reply.sent || hasEnded(request, reply)) this.#settle(request)
    }
    if (this.#waiting.size === 0) this.#stopSweeping()
  }

  /** Records the requests in progress. */
  close(): void {
    this.#stopSweeping()
    for (const request of this.#waiting.keys()) this.#settle(request)
  }

  #settle(request: FastifyRequest, refused?: CheckedRequest): void {
    const waiting = this.#waiting.get(request)
    if (waiting === undefined) return
    this.#waiting.delete(request)
    this.#record(waiting.checked, refused)
  }

  #stopSweeping(): void {
    clearInterval(this.#sweeping)
    this.#sweeping = undefined
  }
}
