import { setTimeout as delay } from 'node:timers/promises'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { analyticsOf } from './analytics/analytics.js'
import { type OpenDatabase, openDatabase } from './client.js'
import { MissingTableError, messageOf } from './errors.js'
import type { EventLog } from './events/event-log.js'
import { checkCost } from './http/cost.js'
import { CounterScopes } from './http/counter-scopes.js'
import { createOnRequest } from './http/on-request.js'
import { createRequestAddresses } from './http/request-address.js'
import { routerOptionsOf } from './http/request-path.js'
import { attachInternals } from './internals.js'
import type { RateLimitOptions } from './options.js'
import {
  createCurrentRules,
  createEventLog,
  createLimiter,
  createRevisionPoll,
  createRuleCache,
  createStaffLimiter,
  createStateSweep,
  createStore,
} from './parts.js'
import { listChanges, revertChange } from './rules/history.js'
import type { RevisionPoll } from './rules/revision-poll.js'
import type { RuleCache } from './rules/rule-cache.js'
import { resolveSettings, type Settings } from './settings.js'
import type { SmartRateLimit } from './smart-rate-limit.js'
import { createSteps } from './steps.js'
import { RedisStore } from './stores/redis-store.js'

/** How long closing waits for the last events, in milliseconds. */
const CLOSE_TIMEOUT_MS = 5_000
/** How long starting waits for the rules, in milliseconds. */
const WARM_UP_TIMEOUT_MS = 3_000

/** Limits requests, logs the decisions, and decorates the app with `smartRateLimit`. */
export const rateLimitPlugin = fp(registerRateLimit, { fastify: '>=5.12.1 <6', name: 'fastify-smart-ratelimit' })

async function registerRateLimit(app: FastifyInstance, options: RateLimitOptions): Promise<void> {
  const settings = resolveSettings(options, process.env)
  const opened = openDatabase(settings.database, settings.schema, settings.clock)
  const router = routerOptionsOf(app)
  const store = createStore(settings, opened)
  const limiter = createLimiter(settings, store, app.log)
  const staffLimiter = createStaffLimiter(settings, store)
  const addresses = createRequestAddresses(settings.ipv6Subnet, settings.middleware.lists, app.log)
  const rules = createRuleCache(settings, opened, router, app.log)
  const poll = createRevisionPoll(settings, opened, () => rules.invalidate())
  const currentRules = createCurrentRules(rules, poll)
  const events = createEventLog(settings, opened, app.log)
  const scopes = new CounterScopes()
  const steps = createSteps({ app, settings, router, addresses, limiter, rules: currentRules, events, scopes })
  app.addHook('onRoute', steps.noteRoute)
  if (settings.enabled) {
    if (needsDatabase(settings)) await prepareDatabase(opened, app)
    if (store instanceof RedisStore && settings.middleware.backend === 'redis') await prepareRedis(store, app)
    if (settings.useDynamicRules) app.addHook('onReady', () => warmUp(rules))
    app.addHook(settings.hook, createOnRequest(steps.onRequest))
  }
  const decoration: SmartRateLimit = {
    client: opened.client,
    store,
    analytics: analyticsOf(opened.database, settings.clock, settings.alertThreshold),
    events: { flush: () => events.flush(), stats: () => events.stats() },
    rules: {
      invalidateCache: () => rules.invalidate(),
      reload: async () => (await rules.reload(settings.clock.now())).rules.length,
      active: async () => (await currentRules.current(settings.clock.now())).rules,
      history: (name, options) => listChanges(opened.database, name, options),
      revert: (changeId) => revertChange(opened, changeId),
    },
    limit: steps.routeLimit,
    check: async (request, { cost = 1 } = {}) => steps.ask(request, checkCost('check.cost', cost)),
    peek: (request) => steps.ask(request, 0),
    reset: async (key) => {
      for (const counter of scopes.countersOf(key)) await limiter.reset(counter)
    },
  }
  app.decorate('smartRateLimit', decoration)
  attachInternals(decoration, {
    database: opened.database,
    staffLimiter,
    clock: settings.clock,
    clientAddress: (request) => addresses.client(request).key,
  })
  connect(app, opened, rules, poll, events)
  app.addHook('onClose', async () => {
    limiter.close()
    staffLimiter.close()
  })
  // A store of the host's own is not ours to close.
  if (store !== settings.middleware.backend) app.addHook('onClose', async () => store.close())
  if (settings.enabled && settings.middleware.backend === 'database') {
    const sweep = createStateSweep(settings, opened, app.log)
    sweep.start()
    app.addHook('onClose', async () => sweep.stop())
  }
}

/** Thousands of rules are compiled before the first request, unless the database is away. */
async function warmUp(rules: RuleCache): Promise<void> {
  await Promise.race([rules.warm(), delay(WARM_UP_TIMEOUT_MS, undefined, { ref: false })])
}

/** Ties the parts to the database, which may outlive the app, and lets go of it when the app closes. */
function connect(
  app: FastifyInstance,
  opened: OpenDatabase,
  rules: RuleCache,
  poll: RevisionPoll,
  events: EventLog,
): void {
  const { ruleListeners, beforeReport } = opened.database
  const invalidate = () => rules.invalidate()
  const flush = () => events.flush()
  ruleListeners.add(invalidate)
  beforeReport.add(flush)
  app.addHook('onClose', async () => {
    poll.close()
    await Promise.race([events.flush(), delay(CLOSE_TIMEOUT_MS, undefined, { ref: false })])
    ruleListeners.delete(invalidate)
    beforeReport.delete(flush)
    await opened.close()
  })
}

function needsDatabase({ middleware, logEvents, useDynamicRules }: Settings): boolean {
  return middleware.backend === 'database' || logEvents !== false || useDynamicRules
}

/** The embedded database has to open: a wrong path is found at start. A server may be away, and is told about. */
async function prepareDatabase({ database }: OpenDatabase, app: FastifyInstance): Promise<void> {
  if (database.dialect.provider === 'sqlite') {
    await database.ready()
    return
  }
  database.checkMigrations().catch((error: unknown) => {
    const remedy = error instanceof MissingTableError ? '' : ': onStoreError decides until it can be reached'
    app.log.error({ err: error }, `Rate limit database: ${messageOf(error)}${remedy}`)
  })
}

/** ioredis has to be there. The server may be away, and is told about. */
async function prepareRedis(store: RedisStore, app: FastifyInstance): Promise<void> {
  await store.load()
  store.ready().catch((error: unknown) => {
    app.log.error({ err: error }, `Rate limit Redis: ${messageOf(error)}: onStoreError decides until it can be reached`)
  })
}
