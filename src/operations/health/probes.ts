/** The probes of all parts, for servers and commands. */

import type { Geo } from '../../clients/geo.js'
import type { NamedLists } from '../../clients/named-lists.js'
import type { Database } from '../../database/database.js'
import { redactUrl } from '../../database/database-url.js'
import { countOf } from '../../ground/number-text.js'
import { type Clock, DAY_MS, latestStartMs, MINUTE_MS, SECOND_MS } from '../../ground/time/clock.js'
import { isoDay } from '../../ground/time/iso-time.js'
import type { Limiter } from '../../limiter/limiter.js'
import type { Store } from '../../limiter/stores/store.js'
import type { EventLogReadings } from '../../log/event-log-state.js'
import { USAGE_TABLE } from '../../log/usage/usage-table.js'
import { loadActiveRules } from '../../rules/rule-repository.js'
import type { JobLeases, JobRecord } from '../schedule/job-leases.js'
import type { Probe } from './health.js'

/** The longest wait of an event in a log that keeps up: a batch takes milliseconds. */
const MAX_LAG_MS = 10 * SECOND_MS

/** The number of keys that almost certainly reaches every server of a cluster. */
const REDIS_PROBES = 16
/** An older failure of a job does not count in a report on all apps: perhaps no app has that job any more. */
const OLD_FAILURE_MS = 2 * DAY_MS

/**
 * Creates a probe that the database answers, and has all tables.
 *
 * @param store a store to count in, where counting is to be probed too
 */
export function databaseProbe(database: Database, clock: Clock, store?: Store): Probe {
  return async () => {
    await database.requireMigrations()
    if (store !== undefined) await count(store, clock, ['health'])
    return `${redactUrl(database.url)} answers, and is migrated`
  }
}

/** Creates a probe that Redis counts: without its replicas, or a part of its cluster, Redis still answers. */
export function redisProbe(store: Store, clock: Clock): Probe {
  const keys = Array.from({ length: REDIS_PROBES }, (_, index) => `health:${index}`)
  return async () => {
    await count(store, clock, keys)
    return 'answers'
  }
}

/** Counts as for a request, in keys that belong to no client. */
async function count(store: Store, clock: Clock, keys: readonly string[]): Promise<void> {
  const policy = { algorithm: 'fixed_window', limit: 2_147_483_647, periodMs: MINUTE_MS } as const
  await store.check(
    keys.map((key) => ({ key, policy, cost: 1 })),
    clock.now(),
  )
}

/** Creates a probe that the rule table can be read; it names invalid rules, which servers leave out. */
export function ruleTableProbe(database: Database): Probe {
  return async () => {
    const { rules, rejected } = await loadActiveRules(database)
    const names = rejected.map(({ name }) => JSON.stringify(name)).join(', ')
    return `${countOf(rules.length, 'active rule')}${rejected.length === 0 ? '' : `; left out, being wrong: ${names}`}`
  }
}

/** Creates a probe of this process's log of events or usage: whether it can be written, keeps up, and loses nothing. */
export function eventLogProbe(events: EventLogReadings): Probe {
  return () => {
    const lagMs = events.lagMs()
    const { buffered, spooled, dropped, lastError } = events.stats()
    const waiting = spooled === 0 ? `${buffered} waiting` : `${buffered} waiting, ${spooled} more in the spool`
    const state = `${lagMs / SECOND_MS} s behind, ${waiting}, ${dropped} lost since the start`
    if (lagMs > MAX_LAG_MS || events.isFailing)
      throw new Error(`${state}${lastError === null ? '' : ` (${lastError})`}`)
    return state
  }
}

/** Creates a probe of this process's charges and refunds: whether the store has counted them. */
export function chargesProbe(
  limiter: Pick<Limiter, 'owedCharges' | 'lostCharges' | 'owedRefunds' | 'lostRefunds'>,
): Probe {
  return () => {
    const { owedCharges, lostCharges, owedRefunds, lostRefunds } = limiter
    const owed = `${countOf(owedCharges, 'charge')} and ${countOf(owedRefunds, 'refund')} owed to the store`
    const state = `${owed}; ${countOf(lostCharges, 'charge')} and ${countOf(lostRefunds, 'refund')} lost since the start`
    if (owedCharges + owedRefunds > 0) throw new Error(state)
    return state
  }
}

/** Creates a probe of the named lists: whether each was read, and how many entries it has. */
export function listsProbe(keeper: { problems(): string[] }, named: Pick<NamedLists, 'names' | 'sizeOf'>): Probe {
  return () => {
    const problems = keeper.problems()
    if (problems.length > 0) throw new Error(problems.join('; '))
    return named.names.map((name) => `${name} has ${countOf(named.sizeOf(name), 'entry', 'entries')}`).join('; ')
  }
}

/** Creates a probe of the last day on which any process wrote usage. */
export function lastUsageProbe(database: Database): Probe {
  return async () => {
    const [last] = await database.query<{ day: string | null }>(
      `SELECT MAX(period) AS day FROM ${database.dialect.table(USAGE_TABLE)} WHERE span = 'day'`,
    )
    return last?.day ? `the last is of ${last.day}` : 'there is none yet'
  }
}

/** Creates a probe of the age of the last event, of any process. */
export function lastEventProbe(database: Database, clock: Clock): Probe {
  return async () => {
    const { dialect, query } = database
    const [last] = await query<{ timestamp: number }>(
      `SELECT "timestamp" FROM ${dialect.table('rate_limit_event')} WHERE "timestamp" <= ${dialect.fromMs('$1')}
       ORDER BY "timestamp" DESC LIMIT 1`,
      [latestStartMs(clock.now())],
    )
    if (last === undefined) return 'there is none yet'
    return `the last one is ${Math.max(0, Math.round((clock.now() - last.timestamp) / SECOND_MS))} s old`
  }
}

/** Creates a probe that the files about addresses can be read as they are; it says when they were built. */
export function geoProbe(geo: Geo): Probe {
  return () => {
    const files = geo.files()
    const state = files.map(({ kind, type, builtAtMs }) => `${kind}: ${type}, built on ${isoDay(builtAtMs)}`).join('; ')
    const problems = files.flatMap(({ kind, problem }) =>
      problem === undefined ? [] : [`${kind} cannot be read: ${problem}`],
    )
    if (problems.length > 0) throw new Error(`${problems.join('; ')} (in use: ${state})`)
    return state
  }
}

/**
 * Creates a probe of the last run of each job.
 *
 * @param names the jobs to probe; all that any app has, or had, unless given
 */
export function scheduleProbe(leases: JobLeases, clock: Clock, names?: readonly string[]): Probe {
  return async () => {
    const nowMs = clock.now()
    const records = (await leases.records()).filter(({ name }) => names?.includes(name) ?? true)
    const isOld = ({ startedMs }: JobRecord) => names === undefined && nowMs - startedMs > OLD_FAILURE_MS
    const failed = records.flatMap((record) => (isOld(record) ? [] : (failureFor(record, nowMs) ?? [])))
    if (failed.length > 0) throw new Error(failed.join('; '))
    return records.map((record) => stateFor(record, nowMs)).join('; ') || 'nothing was due yet'
  }
}

function failureFor({ name, finishedMs, leaseUntilMs, error }: JobRecord, nowMs: number): string | undefined {
  if (error !== null) return `${name} failed: ${error}`
  return finishedMs === null && leaseUntilMs < nowMs ? `${name} did not end: the process that ran it died` : undefined
}

function stateFor(record: JobRecord, nowMs: number): string {
  const { name, startedMs, finishedMs } = record
  const seconds = (ms: number) => Math.max(0, Math.round((nowMs - ms) / SECOND_MS))
  const failure = failureFor(record, nowMs)
  if (failure !== undefined) return `${failure} (${seconds(startedMs)} s ago, and did not run since)`
  return finishedMs === null
    ? `${name} began ${seconds(startedMs)} s ago`
    : `${name} ended ${seconds(finishedMs)} s ago`
}
