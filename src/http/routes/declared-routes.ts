import type { RouteOptions } from 'fastify'
import type { ExplainableLimit } from './route-limit.js'

export interface RouteWithLimit {
  readonly route: RouteOptions
  readonly limit: ExplainableLimit
}

/** The routes that were declared after the plugin, and the limits among their hooks. */
export class DeclaredRoutes {
  readonly #routes: RouteOptions[] = []
  readonly #limits = new WeakMap<object, ExplainableLimit>()

  get all(): readonly RouteOptions[] {
    return this.#routes
  }

  noteRoute(route: RouteOptions): void {
    this.#routes.push(route)
  }

  noteLimit(hook: object, limit: ExplainableLimit): void {
    this.#limits.set(hook, limit)
  }

  /** Returns the limits that are hooks of a route, in the order in which they run. */
  limitsOf(route: RouteOptions): ExplainableLimit[] {
    return hooksOf(route).flatMap((hook) => this.#limits.get(hook) ?? [])
  }

  /** Returns the routes that a hook is of. */
  withHook(hook: object): RouteOptions[] {
    return this.#routes.filter((route) => hooksOf(route).includes(hook))
  }

  /** Returns the limits of all routes, each with its route. */
  listLimits(): RouteWithLimit[] {
    return this.#routes.flatMap((route) => this.limitsOf(route).map((limit) => ({ route, limit })))
  }
}

/** Returns the hooks of a route that may have limits. */
function hooksOf({ onRequest, preParsing, preValidation, preHandler }: RouteOptions): object[] {
  return [onRequest, preParsing, preValidation, preHandler].flat().flatMap((hook) => hook ?? [])
}
