import { once } from 'node:events'
import type { AddressPrivacy } from '../../clients/address-privacy.js'
import { type ClientKind, parseClientKind } from '../../clients/client-kind.js'
import { allDatabases, type Database } from '../../database/database.js'
import type { RedisClient } from '../../database/redis-client.js'
import { errorMessage } from '../../ground/errors.js'
import { countOf } from '../../ground/number-text.js'
import type { Clock } from '../../ground/time/clock.js'
import { createBatchTable, type RowKind } from '../../log/batch-table.js'
import { EVENT_ROWS } from '../../log/event.js'
import { EventLogState } from '../../log/event-log-state.js'
import { findSpooled, openSpoolFolder, type SpooledTraces } from '../../log/spool-folder.js'
import { SpooledTable } from '../../log/spooled-table.js'
import { USAGE_ROWS, usageSpool } from '../../log/usage/usage-table.js'
import type { Batches } from './batches.js'
import { countShared, eraseEvents, eraseSums } from './erase-events.js'
import { eraseNotices } from './erase-notices.js'
import { ERASED, eraseOverrides, OVERWRITE_DELETED } from './erase-overrides.js'
import { eraseAlerts, eraseCounters, eraseRedisCounters } from './erase-state.js'
import { eraseUsage } from './erase-usage.js'
import { ErasedClient } from './erased-client.js'

export interface EraseDependencies {
  readonly database: Database
  readonly clock: Clock
  readonly ipv6Subnet: number
  readonly privacy: AddressPrivacy | undefined
  readonly redis: string | RedisClient | undefined
  /** The namespace of the counters in Redis; those of the database are erased in all namespaces. */
  readonly namespace: string | undefined
  readonly eventSpool: string | undefined
}

/** The deleted traces of a client; with `dryRun`, those that would be deleted. */
export interface ErasedTraces {
  /** The spellings that were looked for. */
  readonly clients: readonly string[]
  readonly events: number
  /** Events of others that named the client as the user or the peer, without that now. */
  readonly emptied_events: number
  /** Hours whose sums were counted again. */
  readonly recounted_hours: number
  readonly counters: number
  readonly redis_counters: number
  /** Sums of its usage, by day and by month. */
  readonly usage: number
  /** What alerts remember of it, and notices of its use. */
  readonly alerts: number
  readonly overrides: number
  /** Changes in the history whose client was replaced. */
  readonly changes: number
  /** The traces that were kept, and why, in sentences. */
  readonly kept: readonly string[]
  /** The parts that could not be reached, and may have more of the client. */
  readonly failures: readonly string[]
}

/**
 * Deletes what is stored of one client: its events and their sums, counters, usage, alerts, overrides and bans, and its name in
 * their history. It works in batches beside running servers, can be interrupted at any time, and run again.
 *
 * @param client `ip:203.0.113.7`, `user:7`, or another client as the reports spell it; the pseudonym of an address is
 * derived
 * @throws InvalidSettingError for what is no single client
 */
export async function eraseClient(
  dependencies: EraseDependencies,
  client: string,
  batches: Batches,
): Promise<ErasedTraces> {
  const { database, clock, ipv6Subnet, privacy, redis, namespace, eventSpool } = dependencies
  const kinds = new Map<string, ClientKind>()
  const erased = new ErasedClient(client, ipv6Subnet, privacy, kinds)
  // The database of rules may have events of the time before the log got one of its own.
  const databases = allDatabases(database)
  for (const each of databases) {
    await each.ready()
    if (each.dialect.provider === 'sqlite' && !batches.dryRun) await each.query(OVERWRITE_DELETED)
  }
  for (const [name, kind] of await readKinds(database)) kinds.set(name, kind)
  const spool = await writeSpool(dependencies, eventSpool, EVENT_ROWS, erased, batches)
  const usageFolder = usageSpool(eventSpool)
  const spooledUsage = await writeSpool(dependencies, usageFolder, USAGE_ROWS, erased, batches)
  // Bans first: a client that is refused meanwhile may be banned again, and is then found by the next run.
  const { overrides, changes, networks } = await eraseOverrides(database, erased, clock.now(), batches)
  const events = { deleted: 0, emptied: 0, left: 0 }
  let recounted_hours = 0
  let usage = 0
  let shared = 0
  for (const log of databases) {
    const ofLog = await eraseEvents(log, erased, () => clock.now(), batches)
    events.deleted += ofLog.deleted
    events.emptied += ofLog.emptied
    events.left += ofLog.left
    if (!batches.signal?.aborted) recounted_hours += await eraseSums(log, erased, clock.now(), batches)
    usage += await eraseUsage(log, erased, batches)
    if (erased.shared !== undefined) shared += await countShared(log, erased.shared)
  }
  const counters = await eraseCounters(database, erased, batches)
  const failures: string[] = []
  const redis_counters =
    redis === undefined
      ? 0
      : await eraseRedisCounters(redis, namespace, erased, batches).catch((error: unknown) => {
          failures.push(`${errorMessage(error)}: run it again, or let each counters expire`)
          return 0
        })
  const notices = await eraseNotices(database, erased, batches)
  const alerts = notices + (await eraseAlerts(database, erased, clock.now(), batches))
  const kept = [
    changes > 0 &&
      `${countOf(changes, 'change of its overrides and incidents stays', 'changes of its overrides and incidents stay')} in the history, with the time and the author: the client is "${ERASED}" there, and the note is empty.`,
    networks > 0 && `${countOf(networks, 'override')} of networks that contain it: networks have other clients, too.`,
    shared > 0 &&
      `${countOf(shared, 'event')} of ${erased.shared}: they do not tell which address of that network they are of.`,
    events.left > 0 && `${countOf(events.left, 'event')} written meanwhile: run it again.`,
    spool.events > 0 &&
      `${countOf(spool.events, 'event')} in the spool of a running server: run it again when they are in the database.`,
    spooledUsage.events > 0 &&
      `${countOf(spooledUsage.events, 'sum of usage', 'sums of usage')} in the spool of a running server: run it again when they are in the database.`,
    spool.unreadable + spooledUsage.unreadable > 0 &&
      `${countOf(spool.unreadable + spooledUsage.unreadable, 'file')} of the spool that cannot be read (*.unreadable) and may name it: delete them.`,
    'The totals of each hour, which have no clients.',
  ]
  return {
    clients: erased.names,
    events: events.deleted,
    emptied_events: events.emptied,
    recounted_hours,
    counters,
    redis_counters,
    usage,
    alerts,
    overrides,
    changes,
    kept: kept.filter((sentence) => typeof sentence === 'string'),
    failures,
  }
}

/** Returns by what the rules count; a rule that raw SQL broke is left out. */
async function readKinds(database: Database): Promise<(readonly [string, ClientKind])[]> {
  const rules = await database.query<{ name: string; kind: string }>(
    `SELECT name, key AS kind FROM ${database.dialect.table('rate_limit_rule')}`,
  )
  return rules.flatMap(({ name, kind }) => {
    try {
      return [[name, parseClientKind(kind)] as const]
    } catch {
      return []
    }
  })
}

/**
 * Writes what servers that are gone left in a spool to the table, where it is found.
 *
 * @returns what stays: the rows of the client in the spools of servers that run, and the files that cannot be read
 */
async function writeSpool(
  { database: { log }, clock }: EraseDependencies,
  spool: string | undefined,
  rows: RowKind,
  erased: ErasedClient,
  { dryRun, signal }: Batches,
): Promise<SpooledTraces> {
  if (spool === undefined) return { events: 0, unreadable: 0 }
  if (!dryRun) {
    const table = new SpooledTable({
      table: createBatchTable(log, clock, true, rows),
      folder: openSpoolFolder(spool),
      batchSize: log.dialect.rowsPerInsert,
      rows,
      state: new EventLogState(() => clock.now(), { error: () => undefined }, rows),
    })
    const aborted = signal === undefined ? [] : [once(signal, 'abort').catch(() => undefined)]
    if (!signal?.aborted) await Promise.race([table.replayed, ...aborted])
    await table.close()
  }
  return findSpooled(spool, (row) => row.some((value) => isName(value, erased)), rows)
}

function isName(value: unknown, erased: ErasedClient): boolean {
  return typeof value === 'string' && (erased.has(value, true) || erased.hasAddress(value))
}
