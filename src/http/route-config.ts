/** What routes have in their config for the plugin: a limit of their own, or the cost of their requests. */

import { inspect } from 'node:util'
import type { FastifyBaseLogger, FastifyReply, FastifyRequest, HookHandlerDoneFunction, RouteOptions } from 'fastify'
import { errorMessage, InvalidSettingError } from '../ground/errors.js'
import { type Cost, createCost, validateCostUnder } from './cost.js'
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
 */
export function createConfigLimits(
  hook: 'onRequest' | 'preHandler',
  createLimit: (options: RouteLimitOptions) => LimitHook,
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
      lateLimitFor(smartRateLimit)(request, reply, done)
    },
  }
}

/** What a route's requests use of the plugin's own limit. */
export interface RouteCost {
  readonly cost: Cost
}

/**
 * The config of a route: `false` exempts its requests, `cost` alone sets their cost, and with `rate` it is a limit of
 * its own, whose counter routes with the same `name` share.
 */
export type RouteConfig = false | RouteCost | RouteLimitOptions

type RouteRate = (url: string) => { readonly setting: string; readonly rate: string } | undefined

/**
 * Creates the functions for a route's `config.smartRateLimit`; `costFor` returns a request's cost, 0 on exempt routes.
 *
 * @param rateFor returns the rate that limits the requests of a route, with its setting; undefined where that depends
 */
export function createRouteCost(log: FastifyBaseLogger, rateFor: RouteRate) {
  const costs = new WeakMap<object, (request: FastifyRequest) => number>()

  function resolve(config: RouteCost | RouteLimitOptions) {
    const cost = isConfigLimit(config) ? costOne : createRouteOwnCost(config, log)
    costs.set(config, cost)
    return cost
  }

  /** Resolves the config of a route declared before the plugin, at its first request: too late to refuse it. */
  function resolveLate(config: RouteCost | RouteLimitOptions) {
    try {
      return resolve(config)
    } catch (error) {
      log.error({ err: error }, `Rate limit: ${errorMessage(error)}. Requests of the route cost 1`)
      if (typeof config === 'object' && config !== null) costs.set(config, costOne)
      return costOne
    }
  }

  return {
    /** @throws InvalidSettingError for an invalid config of a route */
    validateConfig(config: RouteConfig | undefined, url: string): void {
      if (config === undefined || config === false) return
      resolve(config)
      if (isConfigLimit(config) || typeof config.cost !== 'number') return
      const limited = rateFor(url)
      if (limited) validateCostUnder('config.smartRateLimit.cost', config.cost, limited.setting, limited.rate)
    },
    costFor(request: FastifyRequest): number {
      const config = request.routeOptions.config.smartRateLimit
      if (config === undefined) return 1
      return config === false ? 0 : (costs.get(config) ?? resolveLate(config))(request)
    },
  }
}

function costOne(): number {
  return 1
}

function createRouteOwnCost(config: RouteCost, log: FastifyBaseLogger): (request: FastifyRequest) => number {
  validateRouteConfig(config)
  return createCost('config.smartRateLimit.cost', config.cost, log)
}

function validateRouteConfig(config: unknown): void {
  if (typeof config === 'object' && config !== null && Object.keys(config).join() === 'cost') return
  throw new InvalidSettingError(
    `Setting "config.smartRateLimit" is ${inspect(config)}: give false, or { cost }, or a limit such as { rate: '5/m' }`,
  )
}
