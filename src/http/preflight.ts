import type { FastifyInstance, FastifyRequest, onRequestHookHandler, RouteOptions } from 'fastify'

/** What `@fastify/cors` decorates requests with. */
const CORS_DECORATOR = 'corsPreflightEnabled'
/** Marks the config of a route that has `checkLate`. */
const CHECKED_LATE = Symbol('fastify-smart-ratelimit: checked late')

/** As browsers send it: with credentials it may be a guess that another hook answers. */
function isPreflight({ method, headers }: FastifyRequest): boolean {
  return (
    method === 'OPTIONS' &&
    headers.origin !== undefined &&
    headers['access-control-request-method'] !== undefined &&
    headers.authorization === undefined &&
    headers.cookie === undefined
  )
}

/**
 * Leaves preflights to a `@fastify/cors` that is registered behind the plugin. Whether it answers one is only known
 * when its hook has run, so that preflights of its routes are checked by a hook of the route, which runs after all
 * hooks of the app: one that comes so far was not answered.
 *
 * @param checkLate checks a request for which `isLate` is true
 */
export function createPreflights(checkLate: onRequestHookHandler) {
  let someAreLate = false
  return {
    /** @param scope where the route is declared */
    noteRoute(scope: FastifyInstance, route: RouteOptions): void {
      if (![route.method].flat().includes('OPTIONS') || !scope.hasRequestDecorator(CORS_DECORATOR)) return
      someAreLate = true
      route.config = Object.assign({}, route.config, { [CHECKED_LATE]: true })
      route.onRequest = [checkLate, ...[route.onRequest ?? []].flat()]
    },
    isLate(request: FastifyRequest): boolean {
      return someAreLate && isPreflight(request) && CHECKED_LATE in request.routeOptions.config
    },
  }
}
