/** The decision about a request, by the plugin's own check and by limits of single routes. */
import type { FastifyRequest } from 'fastify'
import { countsByUser } from '../../clients/client-kind.js'
import { REQUESTS } from '../../ground/unit.js'
import { type CheckedRequest, NOTHING_IN_FORCE } from '../../http/checked-request.js'
import { createHeaders } from '../../http/headers.js'
import { createDecide, createRefusalNotice, type HookDependencies } from '../../http/on-request.js'
import { createRouteRate } from '../../http/policy-limits.js'
import { refuse } from '../../http/refusal.js'
import { createRequestPath, hasPath, PathPrefixes } from '../../http/request-path.js'
import { RouteCosts } from '../../http/routes/route-config.js'
import type { CommonDependencies } from '../../http/routes/route-limit.js'
import { createRuleChooser } from '../../http/rule-choice.js'
import { wholeMs } from '../../limiter/core/store-limiter.js'
import { timedCheck } from '../../operations/metrics/timed-check.js'
import type { Settings } from '../settings/resolve.js'
import type { HookComponents } from './hook-components.js'
import type { Limits } from './hook-limits.js'
import type { Keys } from './keys.js'
import type { Records } from './records.js'

/** Creates what all limits of the app have in common. */
export function createChecks(components: HookComponents): CommonDependencies {
  const { app, settings, addresses, limiter, permits, responses, units, notices } = components
  const { check, checkLeased } = createTimedChecks(components)
  return {
    now: wholeMs(settings.clock),
    address: addresses.client,
    check,
    checkLeased,
    pendingWrites: (counter) => permits.pending.get(counter) ?? responses.pending.get(counter),
    remembered: limiter.remembered,
    checkAhead: (ahead, nowMs, waitedMs, leads) => responses.checkAhead(ahead, nowMs, waitedMs, leads, check),
    countsAtOnce: false,
    storeTimeoutMs: settings.storeTimeoutMs,
    takePermits: (checked, taken, leads) => permits.take(checked, taken, leads, check),
    releasePermits: ({ request }, taken) => permits.release(request, taken),
    giveBack: limiter.giveBack,
    awaitResponse(checked, reply) {
      responses.await(checked, reply)
      units.hold(checked)
    },
    holdUnits: (checked) => units.hold(checked),
    noteUse: (checked) => notices.noteChecked(checked),
    noteRefusal: createRefusalNotice(settings.onRefused, app.log),
    refuse,
    failed: (error) => app.log.error({ err: error }, 'Rate limit check failed: the request goes on without it'),
  }
}

/** Returns the functions that check requests; with metrics they also measure the duration. */
function createTimedChecks({ limiter, metrics }: HookComponents): Pick<HookDependencies, 'check' | 'checkLeased'> {
  const { check, checkLeased } = limiter
  if (metrics === undefined) return { check, checkLeased }
  return { check: timedCheck(check, metrics.observe), checkLeased: timedCheck(checkLeased, metrics.observe) }
}

/** Creates the function that returns whether a request is left alone before it is examined. */
export function createSkip({ settings, router }: HookComponents): (checked: CheckedRequest) => boolean {
  if (!settings.enabled) return () => true
  const prefixes = settings.middleware.skipPaths.map((prefix) => [prefix, true] as const)
  const skipped = new PathPrefixes(prefixes, router)
  if (skipped.isEmpty) return () => false
  return ({ path, request }) => skipped.find(path) !== undefined && hasPath(request)
}

/** Creates what requests cost by their routes. */
export function createCosts(
  { app, settings, router }: HookComponents,
  isSkipped: ReturnType<typeof createSkip>,
  noteForeignLimit: (request: FastifyRequest) => void,
) {
  const { enabled, useDynamicRules, middleware } = settings
  // A rule may allow what neither the default rate nor a prefix does.
  const isKnown = enabled && !useDynamicRules && middleware.unit === REQUESTS
  const rateFor = isKnown ? createRouteRate(middleware, router) : () => undefined
  return new RouteCosts({
    log: app.log,
    rateFor,
    skipsNothing: middleware.skipPaths.length === 0,
    isSkipped,
    noteForeignLimit,
  })
}

/** Creates the plugin's own check. */
export function createDecision(
  { app, settings, router, current, conditions }: HookComponents,
  { options: { users }, warnings, findUser }: Keys,
  checks: CommonDependencies,
  limits: Limits,
  costs: RouteCosts,
  { record }: Pick<Records, 'record'>,
): HookDependencies {
  return {
    ...checks,
    ...limits,
    decide: createDecide(settings.skip, app.log),
    path: needsPath(settings) ? createRequestPath(router) : () => '/',
    costs,
    needsUser: needsUser(settings),
    user(checked) {
      const late = findUser(checked)
      if (!checked.inForce.overrides.hasUsers) return late
      warnings.warnOfUsers()
      return late === undefined ? users.noteNeed(checked) : late.then(() => users.noteNeed(checked))
    },
    inForce: settings.useDynamicRules ? current.at.bind(current) : () => NOTHING_IN_FORCE,
    chooseRule: createRuleChooser(conditions, (checked) => {
      warnings.warnOfConditions()
      users.noteNeed(checked)
    }),
    headers: createHeaders(settings.headers),
    record,
  }
}

/** Returns whether a request needs its user whatever rules and overrides are in force. */
function needsUser({ logEvents, middleware: { key } }: Settings): boolean {
  return logEvents !== false || (typeof key === 'object' && countsByUser(key))
}

function needsPath({ useDynamicRules, middleware: { skipPaths, rateLimits } }: Settings): boolean {
  return useDynamicRules || skipPaths.length > 0 || Object.keys(rateLimits).length > 0
}
