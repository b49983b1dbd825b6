/** Creates the parts of the plugin from its settings. */

import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import type { FastifyBaseLogger } from 'fastify'
import type { Database } from '../database/database.js'
import type { Component } from '../ground/components.js'
import { errorMessage } from '../ground/errors.js'
import { countOf } from '../ground/number-text.js'
import type { OutageLog } from '../ground/outage-log.js'
import { createdByFirstCall, madeOnce } from '../ground/remember.js'
import { REQUESTS } from '../ground/unit.js'
import { meetsEntries } from '../http/client-address.js'
import { Notices } from '../http/notices.js'
import { RefusalBans, type RefusalBansOptions } from '../http/refusal-bans.js'
import { CountedResponses, HeldPermits } from '../http/request-end.js'
import { createRoutedPath, type RouterOptions } from '../http/request-path.js'
import { canSettle } from '../limiter/core/counting-settings.js'
import { createStoreLimiter, type StoreLimiterSettings } from '../limiter/core/store-limiter.js'
import type { Limiter } from '../limiter/limiter.js'
import { claimByCounters, type Notice } from '../limiter/notice.js'
import { newEntry } from '../limiter/stores/memory/memory-entry.js'
import { MemoryStore } from '../limiter/stores/memory/memory-store.js'
import { type DeleteExpired, StateSweep, stateDeletions } from '../limiter/stores/sql/state-cleanup.js'
import type { Store } from '../limiter/stores/store.js'
import { createBatchTable, type RowKind } from '../log/batch-table.js'
import { EVENT_ROWS } from '../log/event.js'
import { EventLog } from '../log/event-log.js'
import { EventLogState } from '../log/event-log-state.js'
import type { RecordLogOptions } from '../log/record-log.js'
import { RollupKeeper } from '../log/rollups/keeper.js'
import { openSpoolFolder } from '../log/spool-folder.js'
import { SpooledTable } from '../log/spooled-table.js'
import { UsageLog } from '../log/usage/usage-log.js'
import { deleteOldUsage, USAGE_ROWS, usageSpool } from '../log/usage/usage-table.js'
import { channelsOn } from '../operations/alerts/channels/channels.js'
import { deleteOldNotices, NoticeTable } from '../operations/alerts/notice-table.js'
import type { NoticeMessages } from '../operations/alerts/notices.js'
import type { Preview, PreviewDependencies } from '../reports/preview/preview.js'
import { coverageFor } from '../reports/report.js'
import { deleteExpiredBans } from '../rules/bans/ban-table.js'
import { CurrentSnapshot } from '../rules/snapshot/current-snapshot.js'
import { analyticsFor } from './analytics.js'
import type { Analytics } from './analytics-interface.js'
import type { OpenDatabase } from './client/client.js'
import { databasesInUse } from './settings/databases-in-use.js'
import type { Settings } from './settings/resolve.js'

/**
 * The longest time for which events gather, in milliseconds: more rows share the cost of a statement, and the pages that
 * SQLite copies for each transaction. A process that is killed loses what has gathered.
 */
const MAX_GATHER_MS = 500
/** The time for which events gather that become one row where they are alike. */
const MAX_COLLAPSING_MS = 1_000
/** The longest wait of a report for the latest events, in milliseconds: a locked file may take none for longer. */
const FLUSH_TIMEOUT_MS = 2_000

/** Creates what tells of shares of windows that clients have used. */
export function createNotices(
  settings: Settings,
  { database }: OpenDatabase,
  limiter: Limiter,
  messages: Pick<NoticeMessages, 'send'>,
  log: FastifyBaseLogger,
): Notices {
  const { namespace, onNotice } = settings
  return new Notices({
    claims: databasesInUse(settings, database).includes(database)
      ? new NoticeTable(database, namespace)
      : { claim: (notices) => claimByCounters(limiter, notices) },
    onNotice,
    send: (notices) => messages.send(notices),
    log,
  })
}

/** Creates what sends messages about notices: few servers load it. */
export function createNoticeMessages(settings: Settings, { database }: OpenDatabase, log: Pick<OutageLog, 'error'>) {
  const { alerts, clock, namespace } = settings
  const kept = databasesInUse(settings, database).includes(database) ? database : undefined
  const load = madeOnce(async () => {
    const { NoticeMessages } = await import('../operations/alerts/notices.js')
    return new NoticeMessages({ database: kept, namespace, settings: alerts, clock, log })
  })
  let loaded: Promise<NoticeMessages | undefined> | undefined
  return {
    send(notices: readonly Notice[]): void {
      if (channelsOn(alerts).length === 0) return
      loaded = load()
        .then((messages) => {
          messages.send(notices)
          return messages
        })
        .catch((error: unknown) => {
          log.error({ err: error }, `Rate limit notices cannot be sent: ${errorMessage(error)}`)
          return undefined
        })
    },
    close: async () => (await loaded)?.close(),
  }
}

export function createCountedResponses(
  { clock }: Settings,
  limiter: Limiter,
  notices: Notices,
  log: Pick<OutageLog, 'error'>,
): CountedResponses {
  return new CountedResponses(
    limiter,
    () => Math.floor(clock.now()),
    notices,
    (error) => log.error({ err: error }, 'Rate limit failed to count a response'),
  )
}

export function createHeldPermits({ clock }: Settings, limiter: Limiter, log: Pick<OutageLog, 'error'>): HeldPermits {
  return new HeldPermits(
    limiter,
    () => Math.floor(clock.now()),
    (error) => log.error({ err: error }, 'Rate limit failed to give back the permit of a request: its period frees it'),
  )
}

/**
 * Creates the limiter of the staff pages. While the store fails, it counts in memory, whatever `onStoreError` is:
 * password guesses stay limited, and staff are never locked out. The other limiter logs the failure. A memory store is
 * a separate one, since clients that invent keys could evict the counters of the staff pages.
 */
export function createStaffLimiter(settings: StoreLimiterSettings, store: Store): Limiter {
  const silent = { error: () => undefined, info: () => undefined }
  const ownStore = store instanceof MemoryStore ? new MemoryStore() : store
  return createStoreLimiter({ ...settings, leaseMs: undefined, onStoreError: 'local' }, ownStore, silent)
}

export function createCurrentSnapshot(
  { clock, enabled, useDynamicRules, ruleCacheTimeoutMs, storeTimeoutMs, privacy }: Settings,
  { database }: OpenDatabase,
  router: RouterOptions,
  log: OutageLog,
): CurrentSnapshot {
  return new CurrentSnapshot({
    database,
    router,
    isInUse: enabled && useDynamicRules,
    ttlMs: ruleCacheTimeoutMs,
    timeoutMs: storeTimeoutMs,
    now: () => clock.now(),
    log,
    toLogged: privacy?.toCounted,
  })
}

export function createEventLog(settings: Settings, opened: OpenDatabase, log: OutageLog): EventLog {
  const isLogging = settings.enabled && settings.logEvents !== false
  const folder = isLogging ? settings.eventSpool : undefined
  const commits = createGroupCommits(settings, opened, log, EVENT_ROWS, folder)
  const { logEvents } = settings
  if (typeof logEvents !== 'object') return new EventLog(commits)
  return new EventLog({ ...commits, maxGatherMs: MAX_COLLAPSING_MS, gathersLong: true }, logEvents)
}

/** Returns the log of usage; undefined where the app keeps none. */
export function createUsageLog(settings: Settings, opened: OpenDatabase, log: OutageLog): UsageLog | undefined {
  const { enabled, usage, eventSpool } = settings
  const { database } = opened
  const isOpen = databasesInUse(settings, database).includes(database.log)
  if (!enabled || usage === false || usage?.length === 0 || !isOpen) return undefined
  const isKept = usage === undefined ? (unit: string) => unit !== REQUESTS : (unit: string) => usage.includes(unit)
  return new UsageLog(createGroupCommits(settings, opened, log, USAGE_ROWS, usageSpool(eventSpool)), isKept)
}

/** @param spool the folder of the spool; undefined where there is none */
function createGroupCommits(
  { clock, eventBuffer }: Settings,
  { database: { log: database } }: OpenDatabase,
  log: OutageLog,
  rows: RowKind,
  spool: string | undefined,
): RecordLogOptions {
  const folder = spool === undefined ? undefined : openSpoolFolder(spool)
  const now = () => clock.now()
  const state = new EventLogState(now, log, rows)
  const batchSize = database.dialect.rowsPerInsert
  const table = createBatchTable(database, clock, folder !== undefined, rows)
  return {
    table: folder === undefined ? state.counting(table) : new SpooledTable({ table, folder, batchSize, rows, state }),
    writer: folder?.writer ?? randomUUID(),
    batchSize,
    maxGatherMs: MAX_GATHER_MS,
    bufferSize: eventBuffer,
    now,
    state,
  }
}

/** Writes buffered rows before every report and when the app closes. */
export function createFlush(
  {
    database: {
      log: { beforeReport },
    },
  }: OpenDatabase,
  log: Pick<EventLog, 'flush' | 'close'>,
): Component {
  // A long spool takes minutes to be written, for which no report waits.
  const flush = () => Promise.race([log.flush(), delay(FLUSH_TIMEOUT_MS, undefined, { ref: false })])
  beforeReport.add(flush)
  return {
    close: () => {
      beforeReport.delete(flush)
      return log.close()
    },
  }
}

export function createReports(
  { clock, alerts, logEvents, privacy }: Settings,
  { database }: OpenDatabase,
  log: Pick<OutageLog, 'error'>,
): Analytics {
  return analyticsFor(database, clock, { settings: alerts, log }, coverageFor(logEvents), privacy)
}

/** Creates the sweep of what expires in the tables that this server uses. */
export function createStateSweep(
  settings: Settings,
  { database }: OpenDatabase,
  log: OutageLog,
  usage: UsageLog | undefined,
): StateSweep {
  const { clock, middleware, useDynamicRules } = settings
  const counters = middleware.backend === 'database' ? stateDeletions(database) : []
  const bans: DeleteExpired = (cutoffMs, batchSize) => deleteExpiredBans(database, cutoffMs, batchSize)
  const oldNotices: DeleteExpired = (cutoffMs, batchSize) => deleteOldNotices(database, cutoffMs, batchSize)
  const deletions = [
    ...counters,
    ...(useDynamicRules ? [bans] : []),
    ...(usage !== undefined && database.log === database ? [deleteUsage(settings, database)] : []),
    ...(databasesInUse(settings, database).includes(database) ? [oldNotices] : []),
  ]
  return new StateSweep({ deletions, clock, log })
}

/** Creates the sweep of usage in a log that has a database of its own, which may be away while the other one is not. */
export function createUsageSweep(settings: Settings, { database }: OpenDatabase, log: OutageLog): StateSweep {
  return new StateSweep({ deletions: [deleteUsage(settings, database.log)], clock: settings.clock, log })
}

function deleteUsage({ keepUsageForMs }: Settings, database: Database): DeleteExpired {
  return (cutoffMs, batchSize) => deleteOldUsage(database, cutoffMs - keepUsageForMs, batchSize)
}

interface BanDependencies extends Pick<RefusalBansOptions, 'writer' | 'log'> {
  readonly store: Store
  readonly limiter: Limiter
  readonly current: CurrentSnapshot
}

/** Creates the counting of refusals, for rules that ban clients. */
export function createRefusalBans(
  { middleware: { addresses } }: Settings,
  { store, limiter, current, writer, log }: BanDependencies,
): RefusalBans {
  return new RefusalBans({
    limiter,
    writer,
    log,
    isAllowed: (client, nowMs) =>
      (client.kind === 'ip' && meetsEntries(addresses.allow, addresses.named, client)) ||
      current.lastGood().overrides.allows(client, nowMs),
    clear: (settlement, nowMs) =>
      // A reset would make all processes forget what they remember.
      canSettle(store) ? limiter.settle(settlement, nowMs) : limiter.reset([settlement.key]).catch(() => undefined),
  })
}

export function createRollupKeeper({ clock }: Settings, opened: OpenDatabase, log: OutageLog): RollupKeeper {
  const { log: database } = opened.database
  const prepare = async () => {
    const { prepareRankings } = await import('../reports/prepare-rankings.js')
    return prepareRankings(database, clock)
  }
  return new RollupKeeper({ database, clock, prepare, log })
}

/** @param processNotes the gaps and notes that this process knows */
export function createRulePreview(
  { clock, privacy }: Settings,
  { database }: OpenDatabase,
  router: RouterOptions,
  processNotes: Pick<PreviewDependencies, 'gaps' | 'notes'>,
): Preview {
  return createdByFirstCall(async () => {
    const { createPreview } = await import('../reports/preview/preview.js')
    return createPreview({
      database,
      clock,
      router,
      privacy,
      requestPath: createRoutedPath(router),
      newCounter: (policy) => newEntry(policy),
      ...processNotes,
    })
  })
}

/** Returns why the log may lack requests. Losses of other processes, and of this one before it started, are unknown. */
export function findLogGaps({ logEvents }: Settings, events?: EventLog): string[] {
  const gaps: string[] = []
  if (logEvents === 'blocked') gaps.push("logEvents is 'blocked': requests within their limit are not in the log.")
  if (events !== undefined && logEvents === false) gaps.push('logEvents is false: this process logs no requests.')
  const { dropped = 0 } = events?.stats() ?? {}
  if (dropped > 0) gaps.push(`This process lost ${countOf(dropped, 'event')} since it started.`)
  return gaps
}

/** The settings of single routes, which the log does not show. */
export interface RouteSettings {
  /** The number of routes that have a cost. */
  readonly costs: number
  /** Whether single routes have limits. */
  readonly haveLimits: boolean
}

export function previewNotesFor(
  { useDynamicRules, privacy, middleware: { ceiling } }: Settings,
  { costs, haveLimits }: RouteSettings,
): string[] {
  const notes: string[] = []
  if (!useDynamicRules) notes.push('useDynamicRules is false: this app applies no rules.')
  if (ceiling !== undefined) {
    notes.push('middleware.ceiling refuses requests whatever the rule says: the preview does not take it into account.')
  }
  if (privacy?.addresses === 'truncated') {
    notes.push(
      "privacy.addresses is 'truncated': the log has networks, whose clients the preview counts together. It refuses more than the rule would.",
    )
  }
  if (haveLimits) {
    notes.push(
      'Limits of single routes refuse requests whatever the rule says: the preview does not take them into account.',
    )
  }
  if (costs > 0) {
    notes.push(
      `${countOf(costs, 'route has', 'routes have')} a cost that is not in the log: every request is replayed at the cost of the rule alone.`,
    )
  }
  return notes
}
