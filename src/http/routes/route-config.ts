/** The config of routes for the plugin: a limit of their own, or the cost of their requests. */

import { inspect } from 'node:util'
import type { FastifyBaseLogger, FastifyReply, FastifyRequest, HookHandlerDoneFunction, RouteOptions } from 'fastify'
import { errorMessage, InvalidSettingError } from '../../ground/errors.js'
import { validateCostUnder } from '../../limiter/cost.js'
import type { CheckedRequest } from '../checked-request.js'
import { type Cost, createCost } from '../cost.js'
import type { RequestCosts } from '../on-request.js'
import { isCheckedLate, isMarkedLate } from '../preflight.js'
import type { RouteLimitOptions } from './route-limit.js'

type LimitHook = (request: FastifyRequest, reply: FastifyReply, done: HookHandlerDoneFunction) => void

const COST = 'config.smartRateLimit.cost'

/** The mark in the config of a route whose hooks have its limit. */
const LIMITED = Symbol('fastify-smart-ratelimit: limited')

/** Returns whether the config of a route is a limit of its own. */
function isConfigLimit(config: unknown): config is RouteLimitOptions {
  return typeof config === 'object' && config !== null && 'rate' in config
}

/**
 * Puts the limit of a route before its other hooks.
 *
 * @param hook the hook of the plugin's own check
 * @param createLimit creates the hook of a limit; throws InvalidSettingError
 * @throws InvalidSettingError for an invalid limit
 */
export function applyConfigLimit(
  route: RouteOptions,
  hook: 'onRequest' | 'preHandler',
  createLimit: (options: RouteLimitOptions) => LimitHook,
): void {
  const config = route.config?.smartRateLimit
  if (!isConfigLimit(config) || (route.config && LIMITED in route.config)) return
  const limit = createLimit(config)
  route.config = Object.assign({}, route.config, { [LIMITED]: true })
  if (hook === 'onRequest') route.onRequest = [limit, ...[route.onRequest ?? []].flat()]
  else route.preHandler = [limit, ...[route.preHandler ?? []].flat()]
}

/** The cost of a route's requests for the plugin's own limit. */
export interface RouteCost {
  readonly cost: Cost
}

/**
 * The config of a route: `false` exempts its requests, `cost` alone sets their cost, and with `rate` it is a limit of
 * its own, whose counter routes with the same `name` share.
 */
export type RouteConfig = false | RouteCost | RouteLimitOptions

type CostFunction = (request: FastifyRequest) => number

/**
 * The number of requests that are examined for a route which was declared before the plugin: only its requests show its
 * config, and to read that takes a fifth of a check. They are all examined once a route has a cost.
 */
const EXAMINED = 1_000

export interface RouteCostOptions {
  readonly log: FastifyBaseLogger
  /** Returns the rate that limits the requests of a route, with its setting; undefined where that depends. */
  rateFor(url: string): { readonly setting: string; readonly rate: string } | undefined
  /** Whether no path is exempt. */
  readonly skipsNothing: boolean
  isSkipped(checked: CheckedRequest): boolean
  /** Warns of a route whose config has the limit of another plugin. */
  noteForeignLimit(request: FastifyRequest): void
}

/** The costs of requests by the `config.smartRateLimit` of their routes. */
export class RouteCosts implements RequestCosts {
  readonly #options: RouteCostOptions
  readonly #costs = new Map<unknown, CostFunction>([[false, () => 0]])
  /**
   * Whether some route has a cost. It is a flag, since Fastify creates the options of a route anew each time they are
   * read.
   */
  #differ = false
  /** Whether only routes that are not known yet can have a cost but 1. */
  #mayBeOne: boolean
  #unexamined = EXAMINED
  areOne = false
  /** The number of routes that have a cost, so far. */
  count = 0
  /** The costs in the check of preflights by a hook of their route. */
  readonly late: RequestCosts = {
    areOne: false,
    costFor: (checked) => this.costFor(checked, true),
  }

  constructor(options: RouteCostOptions) {
    this.#options = options
    this.#mayBeOne = options.skipsNothing
  }

  /** @param isLate whether a hook of the route checks */
  costFor(checked: CheckedRequest, isLate = false): number {
    if (isCheckedLate(checked.request) !== isLate) return 0
    const cost = this.#differ || this.#unexamined > 0 ? this.#routeCost(checked.request) : 1
    if (this.#unexamined > 0 && --this.#unexamined === 0) this.areOne = this.#mayBeOne
    return cost === 0 || this.#options.isSkipped(checked) ? 0 : cost
  }

  /** @throws InvalidSettingError for an invalid config of a route */
  noteRoute({ config, url }: RouteOptions): void {
    const routeConfig = config?.smartRateLimit
    if (config && isMarkedLate(config)) this.#mayDiffer()
    if (routeConfig === undefined) return
    if (!isConfigLimit(routeConfig)) this.#noteDifference()
    if (routeConfig === false) return
    const { log, rateFor } = this.#options
    this.#costs.set(routeConfig, isConfigLimit(routeConfig) ? costOne : createRouteCost(routeConfig, log))
    if (isConfigLimit(routeConfig)) return
    this.count++
    const { cost } = routeConfig
    if (typeof cost !== 'number') return
    const limited = rateFor(url)
    if (limited) validateCostUnder(COST, cost, limited.setting, limited.rate)
  }

  #routeCost(request: FastifyRequest): number {
    const { config, method, url } = request.routeOptions
    const routeConfig = config.smartRateLimit
    if (this.#unexamined > 0 && 'rateLimit' in config) this.#options.noteForeignLimit(request)
    if (routeConfig === undefined) return 1
    if (!isConfigLimit(routeConfig)) this.#noteDifference()
    const costFor = this.#costs.get(routeConfig) ?? this.#resolveEarly(routeConfig, `${method} ${url}`)
    return costFor(request)
  }

  #noteDifference(): void {
    this.#differ = true
    this.#mayDiffer()
  }

  #mayDiffer(): void {
    this.#mayBeOne = false
    this.areOne = false
  }

  /** Resolves the config of a route that was declared before the plugin: too late to refuse it. */
  #resolveEarly(config: RouteConfig, route: string): CostFunction {
    const { log } = this.#options
    let cost: CostFunction = costOne
    if (isConfigLimit(config)) {
      log.warn(
        `Rate limit: the limit of ${route} has no effect, since the route was declared before rateLimitPlugin: register the plugin first and await it, or declare the route in app.after()`,
      )
    } else {
      try {
        cost = createRouteCost(config, log)
      } catch (error) {
        log.error({ err: error }, `Rate limit: ${errorMessage(error)}. Requests of the route cost 1`)
      }
    }
    this.#costs.set(config, cost)
    return cost
  }
}

function costOne(): number {
  return 1
}

/** @throws InvalidSettingError for a config that is no cost, or a wrong one */
function createRouteCost(config: unknown, log: FastifyBaseLogger): CostFunction {
  validateRouteCost(config)
  return createCost(COST, config.cost, log)
}

function validateRouteCost(config: unknown): asserts config is RouteCost {
  if (typeof config === 'object' && config !== null && Object.keys(config).join() === 'cost') return
  throw new InvalidSettingError(
    `Setting "config.smartRateLimit" is ${inspect(config)}: give false, or { cost }, or a limit such as { rate: '5/m' }`,
  )
}
