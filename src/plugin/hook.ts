import type { FastifyInstance, FastifyReply, HookHandlerDoneFunction, RouteOptions } from 'fastify'
import { type ClientKind, countsBy } from '../clients/client-kind.js'
import { createHeaderHash } from '../clients/limit-client.js'
import { clientText } from '../clients/override-client.js'
import { createdByFirstCall, memoize } from '../ground/remember.js'
import { systemClock } from '../ground/time/clock.js'
import { createAsk } from '../http/ask.js'
import { type Ceiling, createCeiling } from '../http/ceiling.js'
import { type CheckedRequest, NOTHING_IN_FORCE, type ToClient } from '../http/checked-request.js'
import { listCodeLimits } from '../http/code-limits.js'
import { createRuleChooser } from '../http/conditions.js'
import { DeclaredRoutes } from '../http/declared-routes.js'
import { createHeaders } from '../http/headers.js'
import { createFunctionClient, createKindClient, type KeyFunction, type KeyOptions } from '../http/kind-client.js'
import { createRouteRate, createStaticLimits, denialForRule, limitForOverride, limitForRule } from '../http/limits.js'
import { createDecide, createOnRequest, createRefusalNotice, type HookDependencies } from '../http/on-request.js'
import { notePreflights } from '../http/preflight.js'
import { noteErrorHandler } from '../http/refusal.js'
import { createRequestPath, hasPath, PathPrefixes } from '../http/request-path.js'
import { REPLY, type RequestWithReply } from '../http/request-reply.js'
import { createLateUserWarning, createRequestUser } from '../http/request-user.js'
import { applyConfigLimit, RouteCosts } from '../http/route-config.js'
import { createRouteLimit, type RouteLimitHook, type RouteLimitOptions } from '../http/route-limit.js'
import { type Check, isRate, type Policy } from '../limiter/algorithm.js'
import { timedCheck } from '../operations/metrics/timed-check.js'
import type { ActiveOverride } from '../rules/overrides/override-set.js'
import type { Rule } from '../rules/rule.js'
import type { HookComponents } from './hook-components.js'
import { createKeyWarnings, type KeyWarnings } from './key-warnings.js'
import { createRecords } from './record.js'
import { canSettle, requireSettle } from './settings/middleware.js'
import type { Settings } from './settings/resolve.js'
import { resolveRouteLimit } from './settings/route-limit.js'

export type Hook = ReturnType<typeof createHook>

/** Creates the functions of the hot path, so that it reads no option. */
export function createHook(components: HookComponents) {
  const { app, settings, router, counters, responses, places, current } = components
  const { log } = app
  const { skipPaths } = settings.middleware
  const skipped = new PathPrefixes(
    skipPaths.map((prefix) => [prefix, true] as const),
    router,
  )
  let haveRouteLimits = false
  const records = createRecords(components)
  const warnings = createKeyWarnings(app, settings)
  const keys = keyOptions(components)
  const isSkipped = (checked: CheckedRequest): boolean =>
    !settings.enabled || (!skipped.isEmpty && skipped.find(checked.path) !== undefined && hasPath(checked.request))
  const costs = new RouteCosts({
    log,
    rateFor: createRateForRoutes(components),
    skipsNothing: skipped.isEmpty,
    isSkipped,
  })
  const { check, checkLeased } = createChecks(components)
  const common = {
    // Whole milliseconds, whatever the host's clock returns.
    now: settings.clock === systemClock ? systemClock.now : () => Math.floor(settings.clock.now()),
    address: components.addresses.client,
    check,
    checkLeased,
    underWay: (counter: string) => places.underWay.get(counter) ?? responses.underWay.get(counter),
    checkAhead: (asked: Check, nowMs: number, waitedMs: number) => responses.checkAhead(asked, nowMs, waitedMs, check),
    storeTimeoutMs: settings.storeTimeoutMs,
    takePlaces: (checked: CheckedRequest) => places.take(checked, check),
    awaitResponse: (checked: CheckedRequest, reply: FastifyReply) => responses.await(checked, reply),
    noteRefusal: createRefusalNotice(settings.onRefused, log),
    failed: (error: unknown) => log.error({ err: error }, 'Rate limit check failed: the request goes on without it'),
  }
  const requestUser = createRequestUser(settings.user, log)
  const dependencies: HookDependencies = {
    ...common,
    decide: createDecide(settings.skip, log),
    path: needsPath(settings) ? createRequestPath(router) : () => '/',
    costs,
    needsUser: needsUser(settings),
    user(checked) {
      const late = requestUser(checked)
      if (!checked.inForce.overrides.hasUsers) return late
      warnings.warnOfUsers()
      return late === undefined ? keys.users.noteNeed(checked) : late.then(() => keys.users.noteNeed(checked))
    },
    inForce: settings.useDynamicRules ? current.at.bind(current) : () => NOTHING_IN_FORCE,
    overrideLimit: createOverrideLimit(components, keys),
    chooseRule: createRuleChooser(components.conditions, (checked) => {
      warnings.warnOfConditions()
      keys.users.noteNeed(checked)
    }),
    ruleLimit: createRuleLimit(components, keys, warnings),
    staticLimit: createStaticLimit(components, keys, warnings),
    ceiling: createAppCeiling(components),
    headers: createHeaders(settings.headers),
    record: records.record,
  }
  const checkLate = createOnRequest({ ...dependencies, costs: costs.late })

  const routes = new DeclaredRoutes()

  function createLimitHook(options: RouteLimitOptions, setting: string, isShared: boolean): RouteLimitHook {
    const { key, ...resolved } = resolveRouteLimit(options, setting)
    if (resolved.algorithm === 'concurrency') {
      requireSettle(settings.middleware.backend, `${setting}.algorithm`, resolved.algorithm)
    }
    const isByUser = typeof key === 'object' && countsBy(key, 'user')
    if (typeof key === 'object') {
      counters.addKind(key)
      warnings.noteKind(key)
    }
    const limit = createRouteLimit(
      { ...resolved, setting, isShared },
      {
        ...common,
        enabled: settings.enabled,
        note: (hook, explained) => routes.noteLimit(hook, explained),
        needsUser: isByUser,
        user: requestUser,
        variant: settings.headers,
        toClient: createToClient(key, `${setting}.key`, keys),
        counters,
        router,
        log,
        record: records.recordRoute,
      },
    )
    records.noteLimit()
    haveRouteLimits = true
    return limit
  }

  /** Validates a route's config when it is declared, and registers the route. */
  function noteRoute(this: FastifyInstance, route: RouteOptions): void {
    // A limit without a name is that of its route.
    applyConfigLimit(route, settings.hook, (options) =>
      createLimitHook(options, 'config.smartRateLimit', Boolean(options.name)),
    )
    if (settings.hook === 'onRequest') notePreflights(this, route, checkLate)
    noteErrorHandler(route)
    costs.noteRoute(route)
    counters.addRoute(route)
    routes.noteRoute(route)
  }

  return {
    onRequest: createOnRequest(dependencies),
    /** A hook for requests that code may check before the plugin does. */
    keepReply(request: RequestWithReply, reply: FastifyReply, done: HookHandlerDoneFunction): void {
      request[REPLY] = reply
      done()
    },
    ask: createAsk(dependencies, isSkipped, () => 1),
    explain: createdByFirstCall(async () => {
      const { createAppExplain } = await import('./explain.js')
      return createAppExplain(components, dependencies, routes, isSkipped)
    }),
    codeLimits: () => listCodeLimits(settings.middleware, routes.listLimits()),
    routeLimit: (options: RouteLimitOptions) => createLimitHook(options, 'limit', false),
    noteRoute,
    postponed: records.postponed,
    /** What routes have of their own, so far. */
    routeSettings: () => ({ costs: costs.count, haveLimits: haveRouteLimits }),
  }
}

/** Creates the function that returns the rate of a route, where neither rules nor settings leave another one. */
function createRateForRoutes({ settings, router }: HookComponents): ReturnType<typeof createRouteRate> {
  const { enabled, useDynamicRules, middleware } = settings
  return enabled && !useDynamicRules ? createRouteRate(middleware, router) : () => undefined
}

/** Returns whether a request needs its user whatever rules and overrides are in force. */
function needsUser({ logEvents, middleware: { key } }: Settings): boolean {
  return logEvents !== false || (typeof key === 'object' && countsBy(key, 'user'))
}

function needsPath({ useDynamicRules, middleware: { skipPaths, rateLimits } }: Settings): boolean {
  return useDynamicRules || skipPaths.length > 0 || Object.keys(rateLimits).length > 0
}

function keyOptions({ app: { log }, settings: { hashSecret, privacy, user } }: HookComponents): KeyOptions {
  return {
    log,
    hashHeader: hashSecret === undefined ? undefined : createHeaderHash(hashSecret),
    privacy,
    users: createLateUserWarning(user, log),
  }
}

function createToClient(key: ClientKind | KeyFunction, setting: string, options: KeyOptions): ToClient {
  return typeof key === 'function' ? createFunctionClient(key, setting, options) : createKindClient(key, options)
}

/** Creates the function that returns the limit of a request for which there is no rule. */
function createStaticLimit(
  { app, settings, router, counters }: HookComponents,
  options: KeyOptions,
  warnings: KeyWarnings,
): HookDependencies['staticLimit'] {
  const { key, ...middleware } = settings.middleware
  if (typeof key === 'object') {
    counters.addKind(key)
    if (settings.enabled) app.addHook('onReady', async () => warnings.noteKind(key))
  }

  return createStaticLimits({
    ...middleware,
    setting: 'middleware.defaultRate',
    policyName: 'default',
    toClient: createToClient(key, 'middleware.key', options),
    counters,
    router,
    log: app.log,
  })
}

/** Creates the function that returns the limit of a rule. */
function createRuleLimit(
  components: HookComponents,
  options: KeyOptions,
  warnings: KeyWarnings,
): HookDependencies['ruleLimit'] {
  return memoize((rule: Rule) => {
    warnings.noteKind(rule.client)
    return canCount(components, rule.policy, `rule ${rule.name}`)
      ? limitForRule(rule, options, components.bans.forRule(rule, denialForRule(rule, options)))
      : null
  })
}

/** Creates the limit of what an address may request in all, where the settings have one. */
function createAppCeiling({ settings, limiter }: HookComponents): Ceiling | undefined {
  const { ceiling } = settings.middleware
  if (ceiling === undefined) return undefined
  return createCeiling(ceiling, {
    check: (asked, nowMs, waitedMs) => limiter.check(asked, nowMs, waitedMs, true),
    known: limiter.known,
  })
}

/** Creates the function that returns the limit of an override. */
function createOverrideLimit(components: HookComponents, options: KeyOptions): HookDependencies['overrideLimit'] {
  return memoize((override: ActiveOverride) => {
    const { effect, client } = override
    const isCounted = typeof effect === 'string' || canCount(components, effect, `override for ${clientText(client)}`)
    return isCounted ? limitForOverride(override, options) : null
  })
}

/** Returns whether the store can count by a policy; logs where it cannot, when the policy is first met. */
function canCount({ app, settings }: HookComponents, policy: Policy, what: string): boolean {
  if (isRate(policy) || canSettle(settings.middleware.backend)) return true
  app.log.error(
    `Rate limit ${what} has the algorithm concurrency, but the Store given as backend has no method settle: add it. Requests go on as if there were no such ${what.split(' ', 1)}`,
  )
  return false
}

/** Returns the functions that ask the limiter; with metrics they also measure the duration. */
function createChecks({ limiter, metrics }: HookComponents): Pick<HookDependencies, 'check' | 'checkLeased'> {
  const { check, checkLeased } = limiter
  if (metrics === undefined) return { check, checkLeased }
  return { check: timedCheck(check, metrics.observe), checkLeased: timedCheck(checkLeased, metrics.observe) }
}
