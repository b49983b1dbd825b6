import type { FastifyInstance, FastifyRequest, onRequestHookHandler, RouteOptions } from 'fastify'

/** The decorator that `@fastify/cors` adds to requests. */
const CORS_DECORATOR = 'corsPreflightEnabled'
/** The mark in the config of a route that has `checkLate`. */
const CHECKED_LATE = Symbol('fastify-smart-ratelimit: checked late')

/** Returns whether a browser sent a preflight: one with credentials may be a guess that another hook answers. */
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
 * Leaves preflights to a `@fastify/cors` that is registered after the plugin. Whether it answers one is known only
 * after its hook, so a hook of the route checks preflights, after all hooks of the app: a preflight that gets there was
 * not answered.
 *
 * @param scope where the route is declared
 * @param checkLate checks a request for which `isCheckedLate` is true
 */
export function notePreflights(scope: FastifyInstance, route: RouteOptions, checkLate: onRequestHookHandler): void {
  if (![route.method].flat().includes('OPTIONS') || !scope.hasRequestDecorator(CORS_DECORATOR)) return
  route.config = Object.assign({}, route.config, { [CHECKED_LATE]: true })
  route.onRequest = [checkLate, ...[route.onRequest ?? []].flat()]
}

/** Returns whether a hook of its route checks a request. */
export function isCheckedLate(request: FastifyRequest): boolean {
  return isPreflight(request) && isMarkedLate(request.routeOptions.config)
}

/** Returns whether a route with this config checks preflights itself. */
export function isMarkedLate(config: object): boolean {
  return CHECKED_LATE in config
}
