import type { FastifyBaseLogger, FastifyReply, FastifyRequest, HookHandlerDoneFunction } from 'fastify'
import type { ClientKind } from '../../clients/client-kind.js'
import { routeLimitName, sharedLimitName } from '../../clients/counter.js'
import type { NamedLists } from '../../clients/named-lists.js'
import type { Algorithm } from '../../limiter/algorithm.js'
import { parseRate, periodsText } from '../../limiter/rate.js'
import { type Ask, createAsk } from '../ask.js'
import { NOTHING_IN_FORCE, type ToClient } from '../checked-request.js'
import { type AddressEntries, createAllowList } from '../client-address.js'
import { type CodeCounters, requestRoute } from '../code-counters.js'
import { type Cost, createCost, type Reserve } from '../cost.js'
import { decide } from '../decide.js'
import type { HeaderVariant } from '../header-variant.js'
import { createHeaders } from '../headers.js'
import type { KeyFunction } from '../kind-client.js'
import { createOnRequest, type HookDependencies } from '../on-request.js'
import { countedApart, createStaticLimits, type RateFunction, type StaticTerms } from '../policy-limits.js'
import type { RouterOptions } from '../request-path.js'
import type { AnyHook } from '../request-reply.js'

/** The options of `app.smartRateLimit.limit()`. */
export interface RouteLimitOptions {
  /** A rate such as `5/m`, or a function of the request that returns one, or null for no limit; may be async. */
  readonly rate: string | RateFunction
  /** The kind of clients that are counted, as `middleware.key`: `ip` unless given. */
  readonly key?: string | KeyFunction | undefined
  /** The algorithm that counts requests: `fixed_window` unless given. */
  readonly algorithm?: Algorithm | undefined
  /** What counts: `requests` unless given, or the responses with some statuses: `401,403`, `4xx,5xx`. */
  readonly counts?: string | undefined
  /** What the rate counts: `requests` unless given, or what the app charges later, such as `tokens`. */
  readonly unit?: string | undefined
  /**
   * How much of another unit than requests a request takes in advance: 0 to 2147483647, or a function of the request that
   * returns it; may be async. 0 unless given: a request passes while anything is left.
   */
  readonly reserve?: Reserve | undefined
  /**
   * The percentages of a window at which a client is near its limit: one to three whole ones, 1 to 100, rising, such as
   * `80,100`; none unless given. When a client has first used so much, `onNotice` is called, and one message goes through the
   * channels of alerts.
   */
  readonly noticeAt?: string | undefined
  /** Whether requests above the limit are refused; `false` only counts them. `true` unless given. */
  readonly block?: boolean | undefined
  /** The part of the limit that a request uses, or a function of the request that returns it; 1 unless given. */
  readonly cost?: Cost | undefined
  /** Distinguishes several limits of one route; clients see it in the draft's header fields. */
  readonly name?: string | undefined
  /**
   * `true` counts all routes that have a limit with this name together, and what workers ask a limit with this name and rate
   * of `createLimiter`; it needs a name. `false` counts each route by itself. By default a limit in the configuration of a
   * route is shared where it has a name, and `limit()` is not.
   */
  readonly shared?: boolean | undefined
  /** Addresses, networks and `list:<name>` that this limit leaves alone, beside those of `middleware.allowList`. */
  readonly allowList?: readonly string[] | undefined
}

/** The answer of `app.smartRateLimit.limit()`: a hook, and checks of the same limit from code. */
export type RouteLimitHook = AnyHook &
  Ask & {
    /**
     * Forgets what all clients have used of this limit, of a shared one in all apps and workers. Every process obeys within
     * 2 s. Of a hook of a scope these are the routes that this process has had requests for.
     *
     * @throws InvalidSettingError where a store of the host has no `resetAll`; the error of a store that cannot be reached
     */
    resetAll(): Promise<void>
  }

/** The validated options, with their defaults. */
interface RouteLimit extends StaticTerms {
  readonly rate: string | RateFunction
  readonly cost: Cost
  readonly name: string
  readonly allowList: AddressEntries
  /** Whether all routes with the name share a counter; otherwise each route has one. */
  readonly isShared: boolean
  /** By what requests are counted; null where a function of the host says so. */
  readonly kind: ClientKind | null
  /** The beginning of the names of its settings in messages. */
  readonly setting: string
}

/** The dependencies that all limits of an app have in common. */
export type CommonDependencies = Pick<
  HookDependencies,
  | 'now'
  | 'address'
  | 'check'
  | 'checkLeased'
  | 'pendingWrites'
  | 'checkAhead'
  | 'storeTimeoutMs'
  | 'remembered'
  | 'countsAtOnce'
  | 'takePermits'
  | 'releasePermits'
  | 'giveBack'
  | 'awaitResponse'
  | 'holdUnits'
  | 'noteUse'
  | 'noteRefusal'
  | 'refuse'
  | 'failed'
>

export interface RouteLimitDependencies
  extends CommonDependencies,
    Pick<HookDependencies, 'user' | 'needsUser' | 'record'> {
  /** Whether requests are checked at all. */
  readonly enabled: boolean
  /** Notes the hook, so that requests of its routes can be explained. */
  note(hook: object, limit: ExplainableLimit): void
  /** Returns the names of the routes that were declared with the hook. */
  routesOf(hook: object): string[]
  /** Forgets all counters of limits, by the limits' names. */
  resetLimits(limitNames: readonly string[]): Promise<void>
  readonly variant: HeaderVariant
  readonly toClient: ToClient
  readonly counters: CodeCounters
  readonly router: RouterOptions
  /** The lists that the allow list may name. */
  readonly lists: NamedLists
  readonly log: FastifyBaseLogger
}

/** A limit of a route as its explanation reads it. */
export interface ExplainableLimit {
  readonly policy: string
  /** The rate; null where a function of the request answers it. */
  readonly rate: string | null
  readonly unit: string
  dependenciesFor(address: HookDependencies['address']): HookDependencies
}

/** Creates a hook for single routes: a limit with a counter per route, which rules do not change; it logs no event. */
export function createRouteLimit(
  { rate, cost, name, allowList, isShared, kind, setting, ...terms }: RouteLimit,
  {
    enabled,
    note,
    routesOf,
    resetLimits,
    toClient,
    counters,
    router,
    log,
    variant,
    lists,
    ...common
  }: RouteLimitDependencies,
): RouteLimitHook {
  if (isShared) counters.addSharedLimit(name)
  else counters.addRouteLimit(name)
  const periodsSeen = new Set<string>()
  const routesSeen = new Set<string>()
  if (typeof rate === 'string') periodsSeen.add(counters.addPeriods(parseRate(rate)))
  const staticLimit = createStaticLimits({
    rateLimits: {},
    // A function even for a fixed rate, so that the counter includes the period.
    defaultRate: typeof rate === 'string' ? () => rate : rate,
    settings: { rate: `${setting}.rate`, reserve: `${setting}.reserve` },
    policyName: name || 'route',
    ...terms,
    toClient,
    kind,
    deriveWithPeriods(periods) {
      periodsSeen.add(periods)
      return isShared
        ? countedApart(sharedLimitName(periods, name), toClient)
        : countedPerRoute(periods, name, toClient, routesSeen)
    },
    counters,
    router,
    log,
  })
  const costFor = createCost(`${setting}.cost`, cost, log)
  const allow = createAllowList(allowList, lists)
  const which = name === '' ? 'a limit without a name' : `the limit ${JSON.stringify(name)}`
  const shown = typeof rate === 'string' ? ` (${rate})` : ''
  const logTwice = createSingleWarning(log)
  const logCounter = createSingleWarning(log)
  const warnOfTwice = () =>
    logTwice(`${which}${shown} is a hook of one request twice, and counts it once: remove one of the two`)
  const warnOfCounter = (request: FastifyRequest) =>
    logCounter(
      `${which}${shown} counts a request of ${requestRoute(request)} twice: two hooks have limits with this name, period and key, and so one counter. Remove one of the two, or give it another name`,
    )
  const dependenciesFor = (address: HookDependencies['address']): HookDependencies => ({
    ...common,
    address: (request) => allow(address(request)),
    decide,
    path: () => '/',
    costs: { areOne: cost === 1, costFor: ({ request }) => costFor(request) },
    inForce: () => NOTHING_IN_FORCE,
    overrideLimit: () => null,
    chooseRule: () => undefined,
    ruleLimit: () => null,
    ceiling: undefined,
    staticLimit,
    warnOfTwice,
    counter:
      typeof rate === 'string' && kind !== null
        ? JSON.stringify([isShared, name, periodsText(parseRate(rate)), terms.algorithm, kind])
        : undefined,
    warnOfCounter,
    headers: createHeaders(variant),
  })
  const dependencies = dependenciesFor(common.address)
  const hook = enabled ? createOnRequest(dependencies) : createPassOn()
  if (enabled)
    note(hook, {
      policy: name || 'route',
      rate: typeof rate === 'string' ? rate : null,
      unit: terms.unit,
      dependenciesFor,
    })
  return Object.assign(
    hook,
    createAsk(dependencies, () => !enabled, costFor),
    {
      async resetAll() {
        const routes = new Set([...routesSeen, ...routesOf(hook)])
        const names = [...periodsSeen].flatMap((periods) =>
          isShared ? sharedLimitName(periods, name) : [...routes].map((route) => routeLimitName(periods, name, route)),
        )
        await resetLimits(names)
      },
    },
  )
}

/** Creates a function that logs the first of its warnings. */
function createSingleWarning(log: FastifyBaseLogger): (text: string) => void {
  let hasWarned = false
  return function warnOnce(text) {
    if (hasWarned) return
    hasWarned = true
    log.warn(`Rate limit: ${text}`)
  }
}

/** Creates a hook that does nothing. Each limit needs one of its own, which gets the limit's methods. */
function createPassOn() {
  return function passOn(_request: FastifyRequest, _reply: FastifyReply, done: HookHandlerDoneFunction): void {
    done()
  }
}

/**
 * Gives clients a counter per route, remembered for each route.
 *
 * @param routesSeen receives the names of the routes
 */
function countedPerRoute(periods: string, name: string, toClient: ToClient, routesSeen: Set<string>): ToClient {
  const perRoute = new WeakMap<object, ToClient>()
  return function countedFor(checked) {
    const { request } = checked
    const { config } = request.routeOptions
    let derive = perRoute.get(config)
    if (derive === undefined) {
      const route = requestRoute(request)
      routesSeen.add(route)
      derive = countedApart(routeLimitName(periods, name, route), toClient)
      perRoute.set(config, derive)
    }
    return derive(checked)
  }
}
