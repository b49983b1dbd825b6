/** Records decisions after all hooks of a route have run, where one of these may refuse the request. */
import type { FastifyInstance, FastifyReply, FastifyRequest, HookHandlerDoneFunction, RouteOptions } from 'fastify'
import type { CheckedRequest } from './checked-request.js'
import { atRequestEnd, atResponseStart } from './response-events.js'
import { isConfigLimit } from './route-config.js'

/**
 * @param checked by the plugin's own check
 * @param refused by a limit of the route, which then is what came of the request
 */
export type RecordDecision = (checked: CheckedRequest, refused?: CheckedRequest) => void

/** The requests whose decision is not recorded yet. Each is recorded exactly once. */
export class PostponedRecords {
  readonly #record: RecordDecision
  readonly #waiting = new Map<FastifyRequest, CheckedRequest>()

  constructor(record: RecordDecision) {
    this.#record = record
  }

  /** Waits until the request has passed its hooks, the answer of one of them starts, or its connection is gone. */
  add(checked: CheckedRequest, reply: FastifyReply): void {
    const { request } = checked
    const settle = () => this.settle(request)
    this.#waiting.set(request, checked)
    atResponseStart(request, reply, settle)
    atRequestEnd(request, reply, settle)
  }

  /** Records what the plugin's own check has decided. */
  settle(request: FastifyRequest): void {
    const checked = this.#take(request)
    if (checked !== undefined) this.#record(checked)
  }

  /** Records that a limit of the route has refused a request; nothing where the plugin's own check did not run. */
  takeOver(refused: CheckedRequest): void {
    const checked = this.#take(refused.request)
    if (checked !== undefined) this.#record(checked, refused)
  }

  /** Records the requests in progress. */
  close(): void {
    for (const request of [...this.#waiting.keys()]) this.settle(request)
  }

  #take(request: FastifyRequest): CheckedRequest | undefined {
    const checked = this.#waiting.get(request)
    if (checked !== undefined) this.#waiting.delete(request)
    return checked
  }
}

/** The mark in the config of a route whose own hooks have a limit. */
const ROUTE_LIMITED = Symbol('fastify-smart-ratelimit: route limited')
/** The marks of a scope whose hooks have a limit. The scopes in it inherit the marks, as they do the hooks. */
const SCOPE_LIMITED = Symbol('fastify-smart-ratelimit: scope limited')
const NOT_FOUND_LIMITED = Symbol('fastify-smart-ratelimit: not found limited')

export type LimitedRoutes = ReturnType<typeof createLimitedRoutes>

/**
 * Begins to watch which routes and scopes of an app get limits among their hooks.
 *
 * @param hadRoutes whether the app already has routes, which may have limits in their config
 * @param passed called with each request that has passed all hooks of such a route
 */
export function createLimitedRoutes(
  app: FastifyInstance,
  hadRoutes: boolean,
  passed: (request: FastifyRequest) => void,
) {
  const limits = new WeakSet<object>()
  let someAreLimited = hadRoutes

  function haveLimit(...hooks: readonly unknown[]): boolean {
    return hooks.flat().some((hook) => typeof hook === 'function' && limits.has(hook))
  }

  function markScope(scope: object, mark: symbol): void {
    Reflect.set(scope, mark, true)
    someAreLimited = true
  }

  // Fastify tells plugins of routes, and not of hooks.
  app.addHook = new Proxy(app.addHook, {
    apply(addHook, scope, given) {
      if (haveLimit(given[1])) markScope(scope, SCOPE_LIMITED)
      return Reflect.apply(addHook, scope, given)
    },
  })
  app.setNotFoundHandler = new Proxy(app.setNotFoundHandler, {
    apply(setNotFoundHandler, scope, given) {
      const { preValidation, preHandler } = Object(given[0])
      if (haveLimit(preValidation, preHandler)) markScope(scope, NOT_FOUND_LIMITED)
      return Reflect.apply(setNotFoundHandler, scope, given)
    },
  })

  function passHooks(request: FastifyRequest, _reply: unknown, done: HookHandlerDoneFunction): void {
    passed(request)
    done()
  }

  return {
    /** Notes a hook that is a limit. */
    noteLimit(limit: object): void {
      limits.add(limit)
    },
    /** Adds a last hook to a route that has a limit. Where its scope gets one later, the route has none. */
    noteRoute(scope: FastifyInstance, route: RouteOptions): void {
      if (route.config && ROUTE_LIMITED in route.config) return
      const { onRequest, preParsing, preValidation, preHandler = [] } = route
      if (!(SCOPE_LIMITED in scope) && !haveLimit(onRequest, preParsing, preValidation, preHandler)) return
      someAreLimited = true
      route.config = Object.assign({}, route.config, { [ROUTE_LIMITED]: true })
      route.preHandler = [...[preHandler].flat(), passHooks]
    },
    /** Returns whether a hook that is yet to run may be a limit. */
    has(request: FastifyRequest): boolean {
      // The first line is all that apps without such limits pay.
      if (!someAreLimited) return false
      const { server, routeOptions } = request
      if (SCOPE_LIMITED in server || (request.is404 && NOT_FOUND_LIMITED in server)) return true
      return ROUTE_LIMITED in routeOptions.config || isConfigLimit(routeOptions.config.smartRateLimit)
    },
  }
}
