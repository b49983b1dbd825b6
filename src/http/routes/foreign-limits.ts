import type { FastifyBaseLogger, FastifyInstance, RouteOptions } from 'fastify'
import { routeName } from '../code-counters.js'

/** The most routes that the warning names. */
const SHOWN_ROUTES = 5

/** The `config.rateLimit` of routes, which @fastify/rate-limit reads, where it is not registered. */
export class ForeignLimits {
  /** The routes by name: each GET route has a HEAD route beside it. */
  readonly #routes = new Set<string>()

  /** @param scope the scope of the route: the other plugin decorates the scope in which it is registered */
  noteRoute(scope: FastifyInstance, route: RouteOptions): void {
    const limit: unknown = route.config && Reflect.get(route.config, 'rateLimit')
    if (limit !== undefined && limit !== null && !scope.hasDecorator('rateLimit')) this.#routes.add(routeName(route))
  }

  /** Warns once of all routes so far. */
  warn(log: FastifyBaseLogger): void {
    if (this.#routes.size === 0) return
    const more = this.#routes.size - SHOWN_ROUTES
    const shown = [...this.#routes].slice(0, SHOWN_ROUTES).join(', ')
    log.warn(
      `Rate limit: config.rateLimit has no effect on ${shown}${more > 0 ? ` and ${more} more` : ''}: @fastify/rate-limit is not registered there. Write config.smartRateLimit instead, such as { rate: '5/m' }, or false for a route without a limit`,
    )
  }
}
