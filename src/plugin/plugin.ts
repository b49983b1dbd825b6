import type { FastifyInstance, FastifyPluginAsync } from 'fastify'
import fp from 'fastify-plugin'
import { createDatabaseStart } from '../database/database-start.js'
import { warnAboutNode20 } from '../database/sqlite-driver.js'
import { Components } from '../ground/components.js'
import { InvalidSettingError } from '../ground/errors.js'
import { createOutageLog, createSharedOutageLog } from '../ground/outage-log.js'
import { ChargedUnits } from '../http/charged-units.js'
import { createRequestAddresses, readPeers } from '../http/client-address.js'
import { CodeCounters } from '../http/code-counters.js'
import { validateRouter, warnOfScope, warnOfTrustedPeers } from '../http/host-app.js'
import { DECIDED_BY, DECISION, WAITED } from '../http/on-request.js'
import { readRouterOptions } from '../http/request-path.js'
import { REPLY } from '../http/request-reply.js'
import type { RouteConfig } from '../http/routes/route-config.js'
import { ConditionReports } from '../http/rule-choice.js'
import { openCounting } from '../limiter/core/counting.js'
import { channelsOn } from '../operations/alerts/channels/channels.js'
import type { ListKeeper } from '../operations/lists/list-keeper.js'
import { BanWriter } from '../rules/bans/ban-writer.js'
import { openDatabase } from './client/client.js'
import { createDecoration, createInternals } from './decoration.js'
import { createHook } from './hook/hook.js'
import { attachInternals } from './internals.js'
import { openReadings } from './metrics.js'
import { databasesInUse } from './settings/databases-in-use.js'
import type { RateLimitOptions } from './settings/options.js'
import { resolveSettings, type Settings } from './settings/resolve.js'
import type { SmartRateLimit } from './smart-rate-limit.js'
import { createStartLine } from './start-line.js'
import {
  createCountedResponses,
  createCurrentSnapshot,
  createEventLog,
  createFlush,
  createHeldPermits,
  createNoticeMessages,
  createNotices,
  createRefusalBans,
  createReports,
  createRollupKeeper,
  createStaffLimiter,
  createStateSweep,
  createUsageLog,
  createUsageSweep,
} from './wiring.js'

declare module 'fastify' {
  interface FastifyInstance {
    smartRateLimit: SmartRateLimit
  }
  interface FastifyContextConfig {
    /**
     * `false` exempts the route from the limit, the event log and the headers; `{ cost: 5 }` makes requests cost 5;
     * `{ rate: '5/m' }` is a limit of its own, as `limit()` makes it.
     */
    smartRateLimit?: RouteConfig
  }
}

/** Limits requests, logs the decisions, and decorates the app with `smartRateLimit`. */
export const rateLimitPlugin: FastifyPluginAsync<RateLimitOptions> = fp(registerRateLimit, {
  fastify: '5.x',
  name: 'fastify-smart-ratelimit',
})

async function registerRateLimit(app: FastifyInstance, options: RateLimitOptions): Promise<void> {
  if (app.hasDecorator('smartRateLimit')) {
    throw new InvalidSettingError(
      'rateLimitPlugin is registered already, on this app or on one around it: remove one of the two registrations',
    )
  }
  warnAboutNode20()
  await registerWithSettings(app, resolveSettings(options, process.env))
}

/** Does what the plugin does, with settings that are resolved already. */
export async function registerWithSettings(app: FastifyInstance, settings: Settings): Promise<void> {
  const { enabled, clock } = settings
  const log = createOutageLog(app.log, clock)
  // Another server has outages of its own.
  const storeLog = settings.middleware.backend === 'database' ? log : createOutageLog(app.log, clock)
  const isLogging = enabled && settings.logEvents !== false
  const components = new Components(app.log)
  app.addHook('onReady', () => components.start())
  app.addHook('onClose', () => components.close())

  // Modules that few servers use are loaded by those that do.
  const metrics =
    enabled && settings.metrics
      ? await (await import('../operations/metrics/metrics.js')).openMetrics(settings.metrics)
      : undefined
  // The first alert would be too late to learn that a package is not installed.
  if (enabled) await Promise.all(channelsOn(settings.alerts).map((channel) => channel.prepare?.(settings.alerts)))
  const geo =
    enabled && settings.geo
      ? await (await import('../operations/geo/geo-files.js')).openGeoFiles(settings.geo, log)
      : undefined
  if (geo) components.open('files about addresses', geo)
  const opened = components.connect('database', openDatabase(settings))
  if (enabled) opened.database.sources = { lists: settings.lists.named, geo }
  const eventsLog = opened.database.log === opened.database ? log : createOutageLog(app.log, clock)
  const { backend, leaseMs } = settings.middleware
  const counting = { ...settings, backend, leaseMs }
  const { store, limiter } = await openCounting(counting, {
    components,
    log: storeLog,
    database: () => opened.database,
    haveGroups: () => current.lastGood().groups.length > 0,
  })
  const messages = components.open('messages of notices', createNoticeMessages(settings, opened, log))
  const notices = components.open('notices', createNotices(settings, opened, limiter, messages, app.log))
  const responses = components.open('counted responses', createCountedResponses(settings, limiter, notices, storeLog))
  const permits = components.open('requests in progress', createHeldPermits(settings, limiter, storeLog))
  const staffLimiter = components.open('limiter of staff pages', createStaffLimiter(counting, store))
  const router = readRouterOptions(app)
  const current = components.open('rules', createCurrentSnapshot(settings, opened, router, log))
  const events = createEventLog(settings, opened, eventsLog)
  const usage = createUsageLog(settings, opened, eventsLog)
  const conditions = new ConditionReports(app.log)
  const counters = new CodeCounters()
  const writer = components.open('bans', new BanWriter({ database: opened.database, log }))
  const bans = components.open('refusals', createRefusalBans(settings, { store, limiter, current, writer, log }))
  // Opened before what writes the last events, so that these are counted.
  const reports = createReports(settings, opened, log)
  if (metrics) {
    const incidents = () => reports.getIncidents({ days: 1 / 24 })
    const readings = { limiter, events, usage, current, conditions, incidents }
    components.open('metrics', openReadings(metrics, settings, readings))
  }
  components.open('events', createFlush(opened, events))
  if (usage) components.open('usage', createFlush(opened, usage))
  let lists: ListKeeper | undefined
  if (enabled) {
    const { database } = opened
    for (const used of databasesInUse(settings, database)) {
      const start =
        used === database ? createDatabaseStart(used, log, 'main') : createDatabaseStart(used, eventsLog, 'log')
      components.open('database at start', start)
    }
    if (settings.lists.sources.length > 0) {
      const { ListKeeper } = await import('../operations/lists/list-keeper.js')
      const { blockPrivateNetworks } = settings.alerts
      lists = components.open(
        'lists',
        new ListKeeper({ ...settings.lists, blockPrivateNetworks, database, clock, log }),
      )
    }
    if (settings.schedule) {
      const { createScheduler } = await import('./schedule.js')
      components.open('schedule', createScheduler(settings.schedule, settings, opened, reports, log))
    }
    if (isLogging) components.open('sums of events', createRollupKeeper(settings, opened, eventsLog))
    components.open('expired counters', createStateSweep(settings, opened, log, usage))
    if (usage && database.log !== database) {
      components.open('old usage', createUsageSweep(settings, opened, eventsLog))
    }
    database.useThreads({ logsEvents: isLogging && database.log === database })
    database.log.useThreads({ logsEvents: isLogging })
  }

  const addresses = createRequestAddresses(
    settings.ipv6Subnet,
    settings.middleware.addresses,
    app.log,
    settings.privacy,
  )
  const hook = createHook({
    app,
    settings,
    router,
    addresses,
    store,
    limiter,
    responses,
    permits,
    units: components.open(
      'charges',
      new ChargedUnits(
        limiter,
        () => Math.floor(clock.now()),
        usage,
        () => current.lastGood(),
        notices,
      ),
    ),
    notices,
    current,
    events,
    counters,
    metrics,
    conditions,
    bans,
  })
  // Opened after the event log, so that it is closed before.
  if (hook.postponed) components.open('last decisions', hook.postponed)
  // Opened last, so that the rules are read before.
  components.open('line at start', createStartLine(app, { settings, database: opened.database, current }))
  app.addHook('onRoute', hook.noteRoute)
  counters.addNotFound(app)
  app.addHook('onRegister', (scope) => counters.addNotFound(scope))
  app.decorateRequest(DECISION, null)
  app.decorateRequest(DECIDED_BY, null)
  app.decorateRequest(WAITED, 0)
  app.decorateRequest(REPLY, null)
  if (enabled) {
    validateRouter()
    warnOfTrustedPeers(app)
    await components.prepare()
    readPeers(app.server)
    if (settings.hook !== 'onRequest') app.addHook('onRequest', hook.keepReply)
    app.addHook(settings.hook, hook.onRequest)
    app.addHook('onReady', async () => {
      warnOfScope(app)
      hook.warnOfForeignLimits()
    })
  }
  const decorated = {
    settings,
    opened,
    router,
    addresses,
    store,
    limiter,
    current,
    events,
    usage,
    reports,
    counters,
    lists,
    hook,
  }
  const decoration = createDecoration(decorated)
  app.decorate('smartRateLimit', decoration)
  attachInternals(
    decoration,
    createInternals(decorated, staffLimiter, createSharedOutageLog(log, eventsLog), components),
  )
}
