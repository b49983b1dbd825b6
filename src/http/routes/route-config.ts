/** What routes have in their config for the plugin: a limit of their own, or the cost of their requests. */

import { inspect } from 'node:util'
import type { FastifyBaseLogger, FastifyReply, FastifyRequest, HookHandlerDoneFunction, RouteOptions } from 'fastify'
import { errorMessage, InvalidSettingError } from '../../ground/errors.js'
import type { CheckedRequest } from '../checked-request.js'
import { type Cost, createCost, validateCostUnder } from '../cost.js'
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

/** What a route's requests use of the plugin's own limit. */
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
}

/** What requests cost by the `config.smartRateLimit` of their routes. */
export class RouteCosts implements RequestCosts {
  readonly #options: RouteCostOptions
  readonly #costs = new Map<unknown, CostFunction>([[false, () => 0]])
  /** Whether some route has a cost. A flag, since Fastify creates the options of a route anew each time they are read. */
  #differ = false
  /** Whether nothing but a route that is not known yet can cost anything but 1. */
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
    const own = config?.smartRateLimit
    if (config && isMarkedLate(config)) this.#mayDiffer()
    if (own === undefined) return
    if (!isConfigLimit(own)) this.#noteDifference()
    if (own === false) return
    const { log, rateFor } = this.#options
    this.#costs.set(own, isConfigLimit(own) ? costOne : createRouteCost(own, log))
    if (isConfigLimit(own)) return
    this.count++
    const { cost } = own
    if (typeof cost !== 'number') return
    const limited = rateFor(url)
    if (limited) validateCostUnder(COST, cost, limited.setting, limited.rate)
  }

  #routeCost(request: FastifyRequest): number {
    const { config, method, url } = request.routeOptions
    const own = config.smartRateLimit
    if (own === undefined) return 1
    if (!isConfigLimit(own)) this.#noteDifference()
    const costFor = this.#costs.get(own) ?? this.#resolveEarly(own, `${method} ${url}`)
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
        `Rate limit: the limit of ${route} does not hold, since the route was declared before rateLimitPlugin: register the plugin first and await it, or declare the route in app.after()`,
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
