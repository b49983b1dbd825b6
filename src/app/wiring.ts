/** Creates the parts of the plugin from its settings. */
import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import type { FastifyBaseLogger } from 'fastify'
import { type Analytics, analyticsFor } from '../analytics/analytics.js'
import { prepareTopOffenders } from '../analytics/top-offenders.js'
import type { OpenDatabase } from '../client.js'
import { errorMessage } from '../errors.js'
import { EventLog } from '../events/event-log.js'
import { createEventTable } from '../events/event-table.js'
import { openSpools } from '../events/spool.js'
import { CountedResponses } from '../http/counted-responses.js'
import { createRoutedPath, type RouterOptions } from '../http/request-path.js'
import { fallbackFor } from '../limiter/fallback.js'
import { createLimiter, type Limiter, type LimiterOptions } from '../limiter/limiter.js'
import { createPreview, type Preview, type PreviewDependencies } from '../preview/preview.js'
import { RollupKeeper } from '../rollups/keeper.js'
import type { Settings } from '../settings/resolve.js'
import { CurrentSnapshot } from '../snapshot/current-snapshot.js'
import { DatabaseStore } from '../stores/database-store.js'
import { newEntry } from '../stores/memory-entry.js'
import { MemoryStore } from '../stores/memory-store.js'
import { RedisStore } from '../stores/redis-store.js'
import { StateSweep } from '../stores/state-sweep.js'
import type { Store } from '../stores/store.js'
import { Poll } from '../time/poll.js'
import type { Component } from './components.js'

/** The longest wait of a report for the latest events, in milliseconds. */
const FLUSH_TIMEOUT_MS = 5_000

export function createStore({ middleware: { backend }, namespace, redis }: Settings, { client }: OpenDatabase): Store {
  if (typeof backend === 'object') return backend
  if (backend === 'redis' && redis !== undefined) return new RedisStore({ redis, namespace })
  if (backend === 'memory') return new MemoryStore()
  return new DatabaseStore({ database: client, namespace })
}

/** Prepares Redis, and closes the store unless it is the host's own. */
export function createStoreComponent(
  { middleware: { backend } }: Settings,
  store: Store,
  log: Pick<FastifyBaseLogger, 'error'>,
): Component {
  return {
    prepare: async () => {
      if (!(store instanceof RedisStore) || store === backend) return
      await store.load()
      store.ready().catch((error: unknown) => {
        const message = `Rate limit Redis: ${errorMessage(error)}: onStoreError decides until it can be reached`
        log.error({ err: error }, message)
      })
    },
    close: () => (store === backend ? undefined : store.close()),
  }
}

export function createStoreLimiter(settings: Settings, store: Store, log: LimiterOptions['log']): Limiter {
  if (store instanceof MemoryStore) return createMemoryLimiter(store)
  const { leaseMs } = settings.middleware
  const memory = new MemoryStore()
  const fallback = fallbackFor(settings.onStoreError, {
    decide: (check, nowMs) => memory.checkOne(check, nowMs),
    reset: (keys) => memory.reset(keys),
  })
  const limiter: Limiter = createLimiter({
    store,
    fallback,
    refusalsPoll: createRefusalsPoll(settings, store, () => limiter.forgetAll()),
    lease: leaseMs === undefined ? undefined : { leaseMs, now: () => Math.floor(settings.clock.now()) },
    timeoutMs: settings.storeTimeoutMs,
    log,
  })
  return limiter
}

export function createCountedResponses(
  { clock }: Settings,
  limiter: Limiter,
  log: Pick<FastifyBaseLogger, 'error'>,
): CountedResponses {
  return new CountedResponses(
    limiter,
    () => Math.floor(clock.now()),
    (error) => log.error({ err: error }, 'Rate limit failed to count a response'),
  )
}

/** Creates the limiter of a store that answers at once and never fails: it needs no wrapper. */
function createMemoryLimiter(store: MemoryStore): Limiter {
  const check: Limiter['check'] = (asked, nowMs) => store.checkOne(asked, nowMs)
  return {
    check,
    checkLeased: check,
    reset: async (keys) => store.reset(keys),
    forgetAll: () => undefined,
    close: () => undefined,
    storeIsDown: false,
    storeErrors: 0,
  }
}

/** Creates the poll by which a process notices that another one reset a counter. */
function createRefusalsPoll({ clock, storeTimeoutMs }: Settings, store: Store, changed: () => void): Poll | undefined {
  const { resets } = store
  if (resets === undefined) return undefined
  let known: number | undefined
  async function look(): Promise<void> {
    const counted = await resets?.call(store)
    if (counted !== known) changed()
    known = counted
  }
  return new Poll({ look, now: () => clock.now(), timeoutMs: storeTimeoutMs })
}

/**
 * Creates the limiter of the staff pages. While the store fails, it counts in memory, whatever `onStoreError` is:
 * password guesses stay limited, and staff are never locked out. The other limiter logs the failure. A memory store is
 * a separate one, since clients that invent keys could evict the counters of the staff pages.
 */
export function createStaffLimiter(settings: Settings, store: Store): Limiter {
  const silent = { error: () => undefined, info: () => undefined }
  const ownStore = store instanceof MemoryStore ? new MemoryStore() : store
  const middleware = { ...settings.middleware, leaseMs: undefined }
  return createStoreLimiter({ ...settings, middleware, onStoreError: 'local' }, ownStore, silent)
}

export function createCurrentSnapshot(
  { clock, enabled, useDynamicRules, ruleCacheTimeoutMs, storeTimeoutMs }: Settings,
  { database }: OpenDatabase,
  router: RouterOptions,
  log: FastifyBaseLogger,
): CurrentSnapshot {
  return new CurrentSnapshot({
    database,
    router,
    isInUse: enabled && useDynamicRules,
    ttlMs: ruleCacheTimeoutMs,
    timeoutMs: storeTimeoutMs,
    now: () => clock.now(),
    log,
  })
}

export function createEventLog(settings: Settings, { database }: OpenDatabase, log: FastifyBaseLogger): EventLog {
  const { clock, enabled, logEvents, eventSpool } = settings
  const isLogging = enabled && logEvents !== false
  const spools = isLogging && eventSpool !== undefined ? openSpools(eventSpool) : undefined
  return new EventLog({
    table: createEventTable(database, clock, spools !== undefined),
    writer: spools?.own.writer ?? randomUUID(),
    spools,
    batchSize: database.dialect.rowsPerInsert,
    bufferSize: settings.eventBuffer,
    now: () => clock.now(),
    log,
  })
}

/** Writes buffered events before every report and when the app closes. */
export function createFlush({ database: { beforeReport } }: OpenDatabase, events: EventLog): Component {
  // A long spool takes minutes to be written, for which no report waits.
  const flush = () => Promise.race([events.flush(), delay(FLUSH_TIMEOUT_MS, undefined, { ref: false })])
  beforeReport.add(flush)
  return {
    close: () => {
      beforeReport.delete(flush)
      return events.close()
    },
  }
}

export function createReports(
  { clock, alerts, logEvents }: Settings,
  { database }: OpenDatabase,
  log: Pick<FastifyBaseLogger, 'error'>,
): Analytics {
  return analyticsFor(database, clock, { settings: alerts, log }, logEvents === 'blocked')
}

export function createStateSweep({ clock }: Settings, { database }: OpenDatabase, log: FastifyBaseLogger): StateSweep {
  return new StateSweep({ database, clock, log })
}

export function createRollupKeeper(
  { clock }: Settings,
  { database }: OpenDatabase,
  log: FastifyBaseLogger,
): RollupKeeper {
  return new RollupKeeper({ database, clock, prepare: () => prepareTopOffenders(database, clock), log })
}

/** @param known the gaps and notes that this process knows */
export function createRulePreview(
  { clock }: Settings,
  { database }: OpenDatabase,
  router: RouterOptions,
  known: Pick<PreviewDependencies, 'gaps' | 'notes'>,
): Preview {
  return createPreview({
    database,
    clock,
    router,
    requestPath: createRoutedPath(router),
    newCounter: (policy) => newEntry(policy),
    ...known,
  })
}

/** Returns why the log may lack requests. Losses of other processes, and of this one before it started, are unknown. */
export function findLogGaps({ logEvents }: Settings, events?: EventLog): string[] {
  const gaps: string[] = []
  if (logEvents === 'blocked') gaps.push("logEvents is 'blocked': requests within their limit are not in the log.")
  if (events !== undefined && logEvents === false) gaps.push('logEvents is false: this process logs no requests.')
  const { dropped = 0 } = events?.stats() ?? {}
  if (dropped > 0) gaps.push(`This process lost ${dropped} event(s) since it started.`)
  return gaps
}

/** @param pricedRoutes the number of routes that have a cost of their own */
export function previewNotesFor(
  { useDynamicRules, middleware: { ceiling } }: Settings,
  pricedRoutes: number,
): string[] {
  const notes: string[] = []
  if (!useDynamicRules) notes.push('useDynamicRules is false: this app applies no rules.')
  if (ceiling !== undefined) {
    notes.push('middleware.ceiling refuses requests whatever the rule says: the preview does not take it into account.')
  }
  if (pricedRoutes > 0) {
    notes.push(
      `${pricedRoutes} route(s) have a cost of their own, which is not in the log: every request is replayed at the cost of the rule alone.`,
    )
  }
  return notes
}
