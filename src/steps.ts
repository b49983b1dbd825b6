import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { EventLog } from './events/event-log.js'
import { after } from './http/after.js'
import { createHeaderHash } from './http/client-key.js'
import { setRateLimitHeaders } from './http/headers.js'
import {
  createStaticLimits,
  type KeyOptions,
  keyOfFunction,
  keyOfKind,
  type Limit,
  limitOfRule,
} from './http/limits.js'
import type { OnRequestSteps, Outcome } from './http/on-request.js'
import type { RequestAddresses } from './http/request-address.js'
import { createRequestPath, PathPrefixes, type RouterOptions, receivedPath } from './http/request-path.js'
import { createRequestUser, integerUserId } from './http/request-user.js'
import type { Limiter } from './limiter/limiter.js'
import type { Rule } from './rules/rule.js'
import type { RuleCache } from './rules/rule-cache.js'
import type { Settings } from './settings.js'

export interface StepParts {
  readonly app: FastifyInstance
  readonly settings: Settings
  readonly router: RouterOptions
  readonly addresses: RequestAddresses
  readonly limiter: Limiter
  readonly rules: RuleCache
  readonly events: EventLog
}

/** Resolves the steps of the hot path, so that it looks up no option. */
export function createSteps(parts: StepParts): OnRequestSteps {
  const { app, settings, router, addresses, limiter } = parts
  const skipped = new PathPrefixes(
    settings.middleware.skipPaths.map((prefix) => [prefix, true] as const),
    router,
  )
  return {
    // Whole milliseconds, whatever the host's clock answers.
    now: () => Math.floor(settings.clock.now()),
    path: createRequestPath(router),
    isExempt: (request, path) =>
      request.routeOptions.config.smartRateLimit === false || skipped.find(path) !== undefined,
    address: addresses.client,
    user: needsUser(settings) ? createRequestUser(settings.user, app.log) : () => null,
    limit: createLimit(parts),
    check: (check, nowMs) => limiter.check(check, nowMs),
    headers: settings.headers === 'none' ? () => undefined : setRateLimitHeaders,
    record: createRecord(parts),
    failed: (error) => app.log.error({ err: error }, 'Rate limit check failed: the request goes on without it'),
  }
}

function needsUser({ logEvents, useDynamicRules, middleware: { key } }: Settings): boolean {
  return logEvents !== false || useDynamicRules || (typeof key === 'object' && key.kind === 'user')
}

/** Which limit holds for a request: that of the matching rule, else the static one. */
function createLimit({ app, settings, router, rules }: StepParts): OnRequestSteps['limit'] {
  const { log } = app
  const { key, ...middleware } = settings.middleware
  const options: KeyOptions = {
    log,
    hashHeader: settings.hashSecret === undefined ? undefined : createHeaderHash(settings.hashSecret),
  }
  const warnOfUsers = createUserWarning(app, settings)
  if (typeof key === 'object' && key.kind === 'user') app.addHook('onReady', async () => warnOfUsers())

  const keyOf = typeof key === 'function' ? keyOfFunction(key, options) : keyOfKind(key, options)
  const staticLimit = createStaticLimits({ ...middleware, keyOf, router, log })
  if (!settings.useDynamicRules) return staticLimit

  const limits = new WeakMap<Rule, Limit>()
  function ruleLimit(rule: Rule): Limit {
    let limit = limits.get(rule)
    if (limit === undefined) {
      if (rule.client.kind === 'user') warnOfUsers()
      limit = limitOfRule(rule, options)
      limits.set(rule, limit)
    }
    return limit
  }
  return (request, path, nowMs) =>
    after(rules.current(nowMs), (set) => {
      const rule = set.match(path, request.method)
      return rule === undefined ? staticLimit(request, path) : ruleLimit(rule)
    })
}

/** Says once that limits by user have nobody to tell them who that is. */
function createUserWarning(app: FastifyInstance, { user }: Settings): () => void {
  let warned = user !== undefined
  return function warnOfUsers() {
    if (warned || app.hasRequestDecorator('user')) return
    warned = true
    app.log.warn(
      'Rate limits by user count by IP address: no request has a user. Give the option "user", or decorate requests with "user" before this plugin\'s hook runs',
    )
  }
}

function createRecord({ settings: { logEvents }, addresses, events }: StepParts): OnRequestSteps['record'] {
  if (logEvents === false) return () => undefined
  const blockedOnly = logEvents === 'blocked'
  return function record(request: FastifyRequest, outcome: Outcome): void {
    const { decision, client } = outcome
    if (blockedOnly && decision.allowed) return
    events.record({
      timestampMs: outcome.nowMs,
      key: client.name,
      ruleName: outcome.ruleName,
      path: receivedPath(request.originalUrl),
      method: request.method,
      allowed: !outcome.refused,
      count: decision.count,
      limit: decision.limit,
      ipAddress: addresses.peer(request),
      userId: integerUserId(outcome.user),
      clientIp: client.byAddress && outcome.address.plain !== null ? outcome.address.key : null,
    })
  }
}
