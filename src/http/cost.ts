import { inspect } from 'node:util'
import type { FastifyBaseLogger, FastifyRequest } from 'fastify'
import { errorMessage, InvalidSettingError } from '../errors.js'
import { highestCost, parseRate } from '../limiter/rate.js'
import { isConfigLimit } from './config-limits.js'
import { isThenable, tolerate } from './host-function.js'
import type { RouteLimitOptions } from './route-limit.js'

/** The part of a limit that a request uses: an integer, 1 to 2147483647, or a function that returns one. */
export type Cost = number | ((request: FastifyRequest) => number)

const MAX_COST = 2_147_483_647

/** Returns what a request uses of a limit: its own cost times that of the limit. */
export function chargedCost(cost: number, limitCost: number): number {
  return Math.min(cost * limitCost, MAX_COST)
}

/** @throws InvalidSettingError for an invalid cost */
export function validateCost(setting: string, cost: unknown): number {
  if (typeof cost === 'number' && Number.isInteger(cost) && cost >= 1 && cost <= MAX_COST) return cost
  throw new InvalidSettingError(`Setting "${setting}" is ${String(cost)}: give an integer, 1 to ${MAX_COST}`)
}

/**
 * @param limited what the rate is called where it was given
 * @throws InvalidSettingError for a cost that the rate never allows
 */
export function validateCostUnder(setting: string, cost: number, limited: string, rate: string): void {
  const highest = highestCost(parseRate(rate))
  if (cost <= highest) return
  throw new InvalidSettingError(
    `Setting "${setting}" is ${cost}, more than "${limited}" ${JSON.stringify(rate)} ever allows: give at most ${highest}, or a rate with a higher count`,
  )
}

function validateAnswer(setting: string, answer: unknown): number {
  if (!isThenable(answer)) return validateCost(setting, answer)
  // The promise may reject later, when no code awaits it.
  Promise.resolve(answer).catch(() => undefined)
  throw new InvalidSettingError(`Setting "${setting}" answers a promise: give a function that is not async`)
}

/** Creates the function that returns a request's cost. A host's function that fails is logged once, and costs 1. */
export function createCost(setting: string, cost: Cost, log: FastifyBaseLogger): (request: FastifyRequest) => number {
  if (typeof cost !== 'function') {
    const checked = validateCost(setting, cost)
    return () => checked
  }
  const guarded = tolerate((request: FastifyRequest) => validateAnswer(setting, cost(request)), setting, log)
  return function costFor(request) {
    const answered = guarded(request)
    return typeof answered === 'number' ? answered : 1
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
 * @param hadRoutes whether the app already has routes that `check` has not seen
 * @param rateFor returns the rate that limits the requests of a route, with its setting; undefined where that depends
 */
export function createRouteCost(log: FastifyBaseLogger, hadRoutes: boolean, rateFor: RouteRate) {
  const costs = new WeakMap<object, (request: FastifyRequest) => number>()
  // A flag, since Fastify creates the options of a route anew each time they are read.
  let someSay = hadRoutes

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
      if (config === undefined) return
      // A limit of the route's own leaves the cost of the plugin's check as it is.
      if (!isConfigLimit(config)) someSay = true
      if (config === false) return
      resolve(config)
      if (isConfigLimit(config) || typeof config.cost !== 'number') return
      const limited = rateFor(url)
      if (limited) validateCostUnder('config.smartRateLimit.cost', config.cost, limited.setting, limited.rate)
    },
    costFor(request: FastifyRequest): number {
      if (!someSay) return 1
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
