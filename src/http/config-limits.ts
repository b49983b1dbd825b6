/** The limits that routes have in their config, beside the plugin's own check. */
import type { FastifyBaseLogger, FastifyReply, FastifyRequest, HookHandlerDoneFunction, RouteOptions } from 'fastify'
import { errorMessage } from '../errors.js'
import type { RouteLimitOptions } from './route-limit.js'

type LimitHook = (request: FastifyRequest, reply: FastifyReply, done: HookHandlerDoneFunction) => void

/** The mark in the config of a route whose hooks have its limit. */
const LIMITED = Symbol('fastify-smart-ratelimit: limited')

/** Returns whether the config of a route is a limit of its own. */
export function isConfigLimit(config: unknown): config is RouteLimitOptions {
  return typeof config === 'object' && config !== null && 'rate' in config
}

/**
 * Creates the functions that apply the limits of routes.
 *
 * @param hook the hook of the plugin's own check
 * @param createLimit creates the hook of a limit; throws InvalidSettingError
 * @param passed called with each request that the limit of a route declared before the plugin lets through
 */
export function createConfigLimits(
  hook: 'onRequest' | 'preHandler',
  createLimit: (options: RouteLimitOptions) => LimitHook,
  passed: (request: FastifyRequest) => void,
  log: FastifyBaseLogger,
) {
  const lateLimits = new WeakMap<object, LimitHook>()

  function lateLimitFor(config: RouteLimitOptions): LimitHook {
    let limit = lateLimits.get(config)
    if (limit === undefined) {
      try {
        limit = createLimit(config)
      } catch (error) {
        log.error({ err: error }, `Rate limit: ${errorMessage(error)}. The route goes on without this limit`)
        limit = (_request, _reply, done) => done()
      }
      lateLimits.set(config, limit)
    }
    return limit
  }

  return {
    /**
     * Puts the limit of a route before its other hooks.
     *
     * @throws InvalidSettingError for an invalid limit
     */
    noteRoute(route: RouteOptions): void {
      const config = route.config?.smartRateLimit
      if (!isConfigLimit(config) || (route.config && LIMITED in route.config)) return
      const limit = createLimit(config)
      route.config = Object.assign({}, route.config, { [LIMITED]: true })
      if (hook === 'onRequest') route.onRequest = [limit, ...[route.onRequest ?? []].flat()]
      else route.preHandler = [limit, ...[route.preHandler ?? []].flat()]
    },
    /** Applies the limit of a route that was declared before the plugin, after the plugin's own check. */
    limitLate(request: FastifyRequest, reply: FastifyReply, done: HookHandlerDoneFunction): void {
      const { config } = request.routeOptions
      const { smartRateLimit } = config
      if (!isConfigLimit(smartRateLimit) || LIMITED in config) {
        done()
        return
      }
      lateLimitFor(smartRateLimit)(request, reply, (error?: Error) => {
        if (error === undefined) passed(request)
        done(error)
      })
    },
  }
}
