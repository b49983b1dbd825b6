import { setTimeout as delay } from 'node:timers/promises'
import type { FastifyInstance, FastifyPluginAsync } from 'fastify'
import fp from 'fastify-plugin'
import { type OpenDatabase, openDatabase } from '../client.js'
import { warnAboutNode20 } from '../db/sqlite-driver.js'
import { errorMessage, InvalidSettingError } from '../errors.js'
import type { EventLog } from '../events/event-log.js'
import { exportRules, importRules } from '../exchange/exchange.js'
import { listChanges, revertChange } from '../history/history.js'
import { type RouteConfig, validateCost } from '../http/cost.js'
import { CounterScopes, countersForOverrides } from '../http/counter-scopes.js'
import { warnOfScope } from '../http/coverage.js'
import { DECISION, keptDecision } from '../http/on-request.js'
import { createRequestAddresses, readPeers } from '../http/request-address.js'
import { readRouterOptions } from '../http/request-path.js'
import { validateRouter } from '../http/router-version.js'
import { warnOfTrustedHops } from '../http/trust-proxy.js'
import { attachInternals } from '../internals.js'
import { openMetrics } from '../metrics/open-metrics.js'
import type { RateLimitOptions } from '../settings/options.js'
import { resolveSettings } from '../settings/resolve.js'
import type { CurrentSnapshot } from '../snapshot/current-snapshot.js'
import { RedisStore } from '../stores/redis-store.js'
import { createHealth, needsDatabase } from './health.js'
import { createHook } from './hook.js'
import { createReadings } from './metrics.js'
import { prepareDatabase } from './prepare-database.js'
import { createScheduler } from './schedule.js'
import type { SmartRateLimit } from './smart-rate-limit.js'
import {
  createCurrentSnapshot,
  createEventLog,
  createReports,
  createRollupKeeper,
  createRulePreview,
  createStaffLimiter,
  createStateSweep,
  createStore,
  createStoreLimiter,
  findLogGaps,
  previewNotesFor,
} from './wiring.js'

declare module 'fastify' {
  interface FastifyInstance {
    smartRateLimit: SmartRateLimit
  }
  interface FastifyContextConfig {
    /** `false` exempts the route from the limit, the event log and the headers; `{ cost: 5 }` makes requests cost 5. */
    smartRateLimit?: RouteConfig
  }
}

/** The longest wait for the last events at closing, in milliseconds. */
const CLOSE_TIMEOUT_MS = 5_000
/** The longest wait for the rules at start, in milliseconds: enough for thousands of them. */
const WARM_UP_TIMEOUT_MS = 3_000

/** Limits requests, logs the decisions, and decorates the app with `smartRateLimit`. */
export const rateLimitPlugin: FastifyPluginAsync<RateLimitOptions> = fp(registerRateLimit, {
  fastify: '5.x',
  name: 'fastify-smart-ratelimit',
})

async function registerRateLimit(app: FastifyInstance, options: RateLimitOptions): Promise<void> {
  if (app.hasDecorator('smartRateLimit')) {
    throw new InvalidSettingError(
      'rateLimitPlugin is registered already, on this app or on one around it: once is enough',
    )
  }
  warnAboutNode20()
  const settings = resolveSettings(options, process.env)
  const metrics = settings.enabled && settings.metrics ? await openMetrics(settings.metrics) : undefined
  const opened = openDatabase(settings.database, settings.schema, settings.clock)
  if (settings.enabled) opened.database.useThreads({ logsEvents: settings.logEvents !== false })
  const router = readRouterOptions(app)
  const store = createStore(settings, opened)
  const limiter = createStoreLimiter(settings, store, app.log)
  const staffLimiter = createStaffLimiter(settings, store)
  const addresses = createRequestAddresses(settings.ipv6Subnet, settings.middleware.lists, app.log)
  const current = createCurrentSnapshot(settings, opened, router, app.log)
  const events = createEventLog(settings, opened, app.log)
  const scopes = new CounterScopes()
  const steps = createHook({ app, settings, router, addresses, limiter, current, events, scopes, metrics })
  app.addHook('onRoute', steps.noteRoute)
  app.decorateRequest(DECISION, null)
  if (settings.enabled) {
    validateRouter()
    warnOfTrustedHops(app)
    if (needsDatabase(settings)) await prepareDatabase(opened.database, app)
    if (store instanceof RedisStore && settings.middleware.backend === 'redis') await prepareRedis(store, app)
    if (settings.useDynamicRules) app.addHook('onReady', () => current.refresh(WARM_UP_TIMEOUT_MS))
    readPeers(app.server)
    app.addHook(settings.hook, steps.onRequest)
    app.addHook('onReady', async () => warnOfScope(app))
  }
  const analytics = createReports(settings, opened, app.log)
  const decoration: SmartRateLimit = {
    client: opened.client,
    store,
    analytics,
    health: createHealth(settings, { opened, store, current, events }),
    events: { flush: () => events.flush(), stats: () => events.stats() },
    rules: {
      invalidateCache: () => current.invalidate(),
      reload: async () => {
        await current.reload()
        return current.lastGood().rules.rules.length
      },
      active: async () => (await current.at(settings.clock.now())).rules.rules,
      export: () => exportRules(opened.database, settings.clock),
      import: (document, options) => importRules(opened.database, settings.clock, document, options),
      history: (name, options) => listChanges(opened.database, name, options),
      revert: (changeId) => revertChange(opened, changeId),
      preview: createRulePreview(settings, opened, router, {
        gaps: () => findLogGaps(settings, events),
        notes: () => previewNotesFor(settings, steps.pricedRoutes()),
      }),
    },
    limit: steps.routeLimit,
    decisionOf: keptDecision,
    check: async (request, { cost = 1 } = {}) => steps.ask(request, validateCost('check.cost', cost)),
    peek: (request) => steps.ask(request, 0),
    reset: (key) =>
      limiter.reset([...scopes.countersFor(key), ...countersForOverrides(current.lastGood().overrides, key)]),
  }
  app.decorate('smartRateLimit', decoration)
  attachInternals(decoration, {
    database: opened.database,
    staffLimiter,
    clock: settings.clock,
    switches: settings,
    places: { dashboards: [], panels: [] },
    eventStats: () => events.stats(),
    countsByUser: (ruleName) => {
      const { key } = settings.middleware
      if (ruleName === undefined) return typeof key === 'object' && key.kind === 'user'
      return current.lastGood().rules.rules.some(({ name, client }) => name === ruleName && client.kind === 'user')
    },
    clientAddress: (request) => addresses.client(request).key,
  })
  if (metrics !== undefined) {
    const leave = metrics.join(createReadings(settings, { limiter, events, current }))
    // Closing hooks run from the last to the first: the last events are written before this one.
    app.addHook('onClose', async () => leave())
  }
  connect(app, opened, current, events)
  app.addHook('onClose', async () => {
    limiter.close()
    staffLimiter.close()
  })
  // The host closes a store of its own.
  if (store !== settings.middleware.backend) app.addHook('onClose', async () => store.close())
  const scheduler = settings.enabled ? createScheduler(settings, opened, analytics, app.log) : undefined
  if (scheduler !== undefined) {
    app.addHook('onReady', async () => scheduler.start())
    app.addHook('onClose', () => Promise.race([scheduler.stop(), delay(CLOSE_TIMEOUT_MS, undefined, { ref: false })]))
  }
  if (settings.enabled && settings.logEvents !== false) {
    const keeper = createRollupKeeper(settings, opened, app.log)
    keeper.start()
    app.addHook('onClose', () => Promise.race([keeper.stop(), delay(CLOSE_TIMEOUT_MS, undefined, { ref: false })]))
  }
  if (settings.enabled && settings.middleware.backend === 'database') {
    const sweep = createStateSweep(settings, opened, app.log)
    sweep.start()
    app.addHook('onClose', async () => sweep.stop())
  }
}

/** Connects the parts to the database, which may outlive the app, and disconnects them when the app closes. */
function connect(app: FastifyInstance, opened: OpenDatabase, current: CurrentSnapshot, events: EventLog): void {
  const { ruleListeners, beforeReport } = opened.database
  const changed = () => current.refresh()
  const flush = () => events.flush()
  ruleListeners.add(changed)
  beforeReport.add(flush)
  app.addHook('onClose', async () => {
    current.close()
    await Promise.race([events.flush(), delay(CLOSE_TIMEOUT_MS, undefined, { ref: false })])
    ruleListeners.delete(changed)
    beforeReport.delete(flush)
    await opened.close()
  })
}

/** Loads ioredis, which must be installed. An unreachable server is logged. */
async function prepareRedis(store: RedisStore, app: FastifyInstance): Promise<void> {
  await store.load()
  store.ready().catch((error: unknown) => {
    app.log.error(
      { err: error },
      `Rate limit Redis: ${errorMessage(error)}: onStoreError decides until it can be reached`,
    )
  })
}
