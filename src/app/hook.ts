import type { FastifyInstance, FastifyReply, RouteOptions } from 'fastify'
import type { EventLog } from '../events/event-log.js'
import { after } from '../http/after.js'
import { createAsk } from '../http/ask.js'
import { type Ceiling, createCeiling } from '../http/ceiling.js'
import { createHeaderHash } from '../http/client-key.js'
import { type ConditionReports, createRuleChooser } from '../http/conditions.js'
import { createConfigLimits, isConfigLimit } from '../http/config-limits.js'
import { createRouteCost } from '../http/cost.js'
import type { CountedResponses } from '../http/counted-responses.js'
import type { CounterScopes } from '../http/counter-scopes.js'
import { type CheckedRequest, NOTHING_IN_FORCE } from '../http/decide.js'
import { createHeaders } from '../http/headers.js'
import { createDecide, createRefusalNotice } from '../http/host-hooks.js'
import {
  createFunctionKey,
  createKindKey,
  type DeriveClientKey,
  type KeyFunction,
  type KeyOptions,
} from '../http/kind-key.js'
import { createStaticLimits, limitForOverride, limitForRule, TOO_LONG_LIMIT } from '../http/limits.js'
import { memoize } from '../http/memoize.js'
import { createOnRequest, type HookDependencies } from '../http/on-request.js'
import { createPreflights } from '../http/preflight.js'
import { createErrorHandlerCheck } from '../http/refusal.js'
import type { RequestAddresses } from '../http/request-address.js'
import { createRequestPath, hasPath, PathPrefixes, type RouterOptions } from '../http/request-path.js'
import { createLateUserWarning, createRequestUser } from '../http/request-user.js'
import { createRouteLimit, type RouteLimitOptions } from '../http/route-limit.js'
import type { Check } from '../limiter/algorithm.js'
import type { Limiter } from '../limiter/limiter.js'
import type { Metrics } from '../metrics/metrics.js'
import { timedCheck } from '../metrics/timed-check.js'
import type { ActiveOverride } from '../overrides/override-table.js'
import { type ClientKind, countsBy } from '../rules/client-kind.js'
import type { Rule } from '../rules/rule.js'
import type { Settings } from '../settings/resolve.js'
import { resolveRouteLimit } from '../settings/route-limit.js'
import type { CurrentSnapshot } from '../snapshot/current-snapshot.js'
import type { Snapshot } from '../snapshot/snapshot.js'
import { createKeyWarnings, type KeyWarnings } from './key-warnings.js'
import { createRecord, createRouteRecord } from './record.js'

export interface HookComponents {
  readonly app: FastifyInstance
  readonly settings: Settings
  readonly router: RouterOptions
  readonly addresses: RequestAddresses
  readonly limiter: Limiter
  readonly responses: CountedResponses
  readonly current: CurrentSnapshot
  readonly events: EventLog
  readonly scopes: CounterScopes
  readonly metrics: Metrics | undefined
  readonly conditions: ConditionReports
}

type OnRequest = ReturnType<typeof createOnRequest>

export type Hook = ReturnType<typeof createHook>

/** Creates the functions of the hot path, so that it reads no option. */
export function createHook(components: HookComponents) {
  const { app, settings, router, scopes, responses } = components
  const { log } = app
  const { skipPaths } = settings.middleware
  const skipped = new PathPrefixes(
    skipPaths.map((prefix) => [prefix, true] as const),
    router,
  )
  const hadRoutes = hasRoutes(app)
  const routeCost = createRouteCost(log, hadRoutes)
  const configLimits = createConfigLimits(
    settings.hook,
    // A limit without a name is that of its route.
    (options) => createLimitHook(options, 'config.smartRateLimit', Boolean(options.name)),
    log,
  )
  const errorHandlers = createErrorHandlerCheck()
  const warnings = createKeyWarnings(app, settings)
  const keys = keyOptions(components)
  const isSkipped = (checked: CheckedRequest): boolean =>
    !settings.enabled || (!skipped.isEmpty && skipped.find(checked.path) !== undefined && hasPath(checked.request))
  const costFor = (checked: CheckedRequest) => (isSkipped(checked) ? 0 : routeCost.costFor(checked.request))
  const check = createCheck(components)
  const ask: Limiter['check'] = (asked, nowMs) => check(asked, nowMs, false)
  const common = {
    // Whole milliseconds, whatever the host's clock returns.
    now: () => Math.floor(settings.clock.now()),
    address: components.addresses.client,
    check,
    checkAhead: (asked: Check, nowMs: number) => responses.checkAhead(asked, nowMs, ask),
    awaitResponse: (checked: CheckedRequest, reply: FastifyReply) => responses.await(checked, reply),
    noteRefusal: createRefusalNotice(settings.onRefused, log),
    hasErrorHandler: errorHandlers.hasErrorHandler,
    failed: (error: unknown) => log.error({ err: error }, 'Rate limit check failed: the request goes on without it'),
  }
  const dependencies: HookDependencies = {
    ...common,
    decide: createDecide(settings.skip, log),
    path: createRequestPath(router),
    cost: (checked) => (preflights.isLate(checked.request) ? 0 : costFor(checked)),
    user: needsUser(settings) ? createRequestUser(settings.user, log) : () => undefined,
    inForce: createSnapshotReader(components, warnings.warnOfUsers),
    overrideLimit: createOverrideLimit(keys),
    limit: createLimitFinder(components, keys, warnings),
    ceiling: createAppCeiling(components),
    headers: createHeaders(settings.headers),
    record: createRecord(components),
    proceed: hadRoutes ? configLimits.limitLate : undefined,
  }
  const preflights = createPreflights(
    createOnRequest({
      ...dependencies,
      cost: (checked) => (preflights.isLate(checked.request) ? costFor(checked) : 0),
    }),
  )

  function createLimitHook(options: RouteLimitOptions, setting: string, isShared: boolean): OnRequest {
    const { key, ...resolved } = resolveRouteLimit(options, setting)
    const isByUser = typeof key === 'object' && countsBy(key, 'user')
    if (typeof key === 'object') {
      scopes.addKind(key)
      warnings.noteKind(key)
    }
    const hook = createRouteLimit(
      { ...resolved, setting, isShared },
      {
        ...common,
        user: isByUser ? createRequestUser(settings.user, log) : () => undefined,
        variant: settings.headers,
        deriveClientKey: createKeyFunction(key, `${setting}.key`, keys),
        scopes,
        router,
        log,
        record: createRouteRecord(components),
      },
    )
    return settings.enabled ? hook : (_request, _reply, done) => done()
  }

  let pricedRoutes = 0
  /** Validates a route's config when it is declared, and registers the route. */
  function noteRoute(this: FastifyInstance, route: RouteOptions): void {
    const { method, url, config } = route
    configLimits.noteRoute(route)
    if (settings.hook === 'onRequest') preflights.noteRoute(this, route)
    errorHandlers.noteRoute(route)
    routeCost.validateConfig(config?.smartRateLimit)
    if (typeof config?.smartRateLimit === 'object' && !isConfigLimit(config.smartRateLimit)) pricedRoutes++
    scopes.addRoute({ method, url })
  }

  return {
    onRequest: createOnRequest(dependencies),
    ask: createAsk(dependencies, isSkipped),
    routeLimit: (options: RouteLimitOptions) => createLimitHook(options, 'limit', false),
    noteRoute,
    /** Returns the number of routes that have a cost of their own. */
    pricedRoutes: () => pricedRoutes,
  }
}

function hasRoutes(app: FastifyInstance): boolean {
  return !app.printRoutes().startsWith('(empty tree)')
}

function needsUser({ logEvents, useDynamicRules, middleware: { key } }: Settings): boolean {
  return logEvents !== false || useDynamicRules || (typeof key === 'object' && countsBy(key, 'user'))
}

function keyOptions({ app: { log }, settings: { hashSecret, user } }: HookComponents): KeyOptions {
  return {
    log,
    hashHeader: hashSecret === undefined ? undefined : createHeaderHash(hashSecret),
    users: createLateUserWarning(user, log),
  }
}

function createKeyFunction(key: ClientKind | KeyFunction, setting: string, options: KeyOptions): DeriveClientKey {
  return typeof key === 'function' ? createFunctionKey(key, setting, options) : createKindKey(key, options)
}

/** Creates the function that finds a request's limit: that of the matching rule, else the static one. */
function createLimitFinder(
  components: HookComponents,
  options: KeyOptions,
  warnings: KeyWarnings,
): HookDependencies['limit'] {
  const { app, settings, router, scopes } = components
  const { key, ...middleware } = settings.middleware
  if (typeof key === 'object') {
    scopes.addKind(key)
    if (settings.enabled) app.addHook('onReady', async () => warnings.noteKind(key))
  }

  const staticLimit = createStaticLimits({
    ...middleware,
    setting: 'middleware.defaultRate',
    policyName: 'default',
    deriveClientKey: createKeyFunction(key, 'middleware.key', options),
    scopes,
    router,
    log: app.log,
  })
  if (!settings.useDynamicRules) return staticLimit

  const ruleLimit = memoize((rule: Rule) => {
    warnings.noteKind(rule.client)
    return limitForRule(rule, options)
  })
  const chooseRule = createRuleChooser(components.conditions, warnings.warnOfConditions)
  return (checked) => {
    const { rules } = checked.inForce
    let rule = rules.size === 0 ? undefined : rules.match(checked.path, checked.request.method, checked.nowMs)
    if (rule?.condition !== undefined) rule = chooseRule(checked)
    if (rule === null) return TOO_LONG_LIMIT
    return rule === undefined ? staticLimit(checked) : ruleLimit(rule)
  }
}

/** Creates the function that reads the rules and overrides in force. */
function createSnapshotReader(
  { settings, current }: HookComponents,
  warnOfUsers: () => void,
): HookDependencies['inForce'] {
  if (!settings.useDynamicRules) return () => NOTHING_IN_FORCE
  function checkUsers(inForce: Snapshot): Snapshot {
    if (inForce.overrides.hasUsers) warnOfUsers()
    return inForce
  }
  return (nowMs) => after(current.at(nowMs), checkUsers)
}

/** Creates the limit of what an address may request in all, where the settings have one. */
function createAppCeiling({ settings, scopes, limiter }: HookComponents): Ceiling | undefined {
  const { ceiling } = settings.middleware
  if (ceiling === undefined) return undefined
  return createCeiling(ceiling, scopes.addCeiling(), (asked, nowMs) => limiter.check(asked, nowMs, true))
}

/** Creates the function that returns the limit of an override. */
function createOverrideLimit(options: KeyOptions): HookDependencies['overrideLimit'] {
  return memoize((override: ActiveOverride) => limitForOverride(override, options))
}

/** Creates the function that asks the limiter; with metrics it also measures the duration. */
function createCheck({ limiter, metrics, settings }: HookComponents): HookDependencies['check'] {
  const isLeasing = settings.middleware.leaseMs !== undefined
  const check: HookDependencies['check'] = isLeasing
    ? (asked, nowMs, refuses) => (refuses ? limiter.checkLeased(asked, nowMs) : limiter.check(asked, nowMs))
    : (asked, nowMs) => limiter.check(asked, nowMs)
  return metrics === undefined ? check : timedCheck(check, metrics.observe)
}
