import type { FastifyBaseLogger, FastifyInstance, FastifyRequest } from 'fastify'
import { nearestName } from '../../ground/unknown-option.js'
import { type Route, routeName } from '../code-counters.js'

/** The most routes that the warning names. */
const SHOWN_ROUTES = 5

const OWN = 'smartRateLimit'

/**
 * What the config of routes has for a limit, and nothing reads: `rateLimit`, which @fastify/rate-limit reads, where it is
 * not registered, and misspelled names of this plugin's own.
 */
export class ForeignLimits {
  readonly #log: FastifyBaseLogger
  /** The routes by name: each GET route has a HEAD route beside it. */
  readonly #routes = new Set<string>()
  /** The first route of each misspelled name. */
  readonly #misspelled = new Map<string, string>()
  #warnedOf = 0
  #warnedOfMisspelled = 0

  constructor(log: FastifyBaseLogger) {
    this.#log = log
  }

  /** @param scope the scope of the route: the other plugin decorates the scope in which it is registered */
  noteRoute(scope: FastifyInstance, route: Route): void {
    for (const key of Object.keys(route.config ?? {})) {
      if (key === OWN || this.#misspelled.has(key) || nearestName(key, [OWN]) === undefined) continue
      this.#misspelled.set(key, routeName(route))
    }
    const limit: unknown = route.config && Reflect.get(route.config, 'rateLimit')
    if (limit !== undefined && limit !== null && !scope.hasDecorator('rateLimit')) this.#routes.add(routeName(route))
  }

  /** Warns of a route that was declared before the plugin: only its requests show its config. */
  noteRequest({ server, routeOptions: { method, url = '', config } }: FastifyRequest): void {
    this.noteRoute(server, { method, url, config })
    this.warn()
  }

  /** Warns of the routes and the names that are new since it last did. */
  warn(): void {
    for (const [key, route] of [...this.#misspelled].slice(this.#warnedOfMisspelled)) {
      this.#log.warn(
        `Rate limit: config.${key} of ${route} does not exist, and has no effect. Did you mean \`${OWN}\`?`,
      )
    }
    this.#warnedOfMisspelled = this.#misspelled.size
    const routes = [...this.#routes].slice(this.#warnedOf)
    if (routes.length === 0) return
    this.#warnedOf = this.#routes.size
    const more = routes.length - SHOWN_ROUTES
    const shown = routes.slice(0, SHOWN_ROUTES).join(', ')
    this.#log.warn(
      `Rate limit: config.rateLimit has no effect on ${shown}${more > 0 ? ` and ${more} more` : ''}: @fastify/rate-limit is not registered there. Write config.smartRateLimit instead, such as { rate: '5/m' }, or false for a route without a limit`,
    )
  }
}
