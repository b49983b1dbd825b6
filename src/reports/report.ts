import type { AddressPrivacy } from '../clients/address-privacy.js'
import type { Database } from '../database/database.js'
import type { Dialect, Query } from '../database/dialect.js'
import { InvalidSettingError } from '../ground/errors.js'
import { type Clock, MINUTE_MS } from '../ground/time/clock.js'
import type { EventDetail } from '../log/collapsing-buffer.js'
import { foldForReport } from '../log/rollups/catch-up.js'
import { readSums, type Sums } from '../log/rollups/sums.js'
import { ClosedHourCache } from './closed-hour-cache.js'
import type { WindowOptions } from './report-window.js'

/** The tables of rules and overrides, with the history of their changes, which no statement reads with the log. */
export type EntryTables = Pick<Database, 'query' | 'dialect'>

/** The event log as of one moment, which a report reads. */
export interface LogSnapshot {
  readonly query: Query
  readonly dialect: Dialect
  /** The rules and overrides: of the same snapshot, or of another database, which is read as it is. */
  readonly entries: EntryTables
  readonly nowMs: number
  /** The state of the rollups. */
  readonly sums: Sums
  /** The cache of all hours but the present one, of this process. */
  readonly closed: ClosedHourCache
  /** What this process's log lacks of requests. */
  readonly coverage: Coverage
  /** The way in which addresses are stored; undefined where they are stored in full, or this process does not know. */
  readonly privacy?: AddressPrivacy | undefined
}

/** Returns a client or a key, as an operator spells it, as the log has it. */
export function toLogged({ privacy }: Pick<LogSnapshot, 'privacy'>, text: string): string {
  return privacy === undefined ? text : privacy.toLogged(text)
}

/** The part of a report that says which requests it lacks. */
export interface Coverage {
  /** Present where this process logs only refusals and would-be refusals: the counts have no other requests. */
  readonly only_blocked?: true
  /** Present where this process only adds up allowed requests: the counts of clients have no others but refusals. */
  readonly only_sums?: true
  /**
   * Present where the log has got a database of its own, and the other one still has events: requests before this moment,
   * ISO 8601, are in no count.
   */
  readonly log_since?: string
}

/** Returns what the log of a process lacks, by its setting. */
export function coverageFor(logEvents: boolean | 'blocked' | EventDetail): Coverage {
  if (logEvents === 'blocked') return { only_blocked: true }
  return typeof logEvents === 'object' && logEvents.allowed === 'sums' ? { only_sums: true } : {}
}

/** A report whose options are valid. Several can read the same snapshot. */
export type Report<Result> = (snapshot: LogSnapshot) => Promise<Result>

export interface RankingOptions extends WindowOptions {
  /** The most rows to return: a whole number, 1 or more. */
  readonly limit?: number | undefined
}

const closedHourCaches = new WeakMap<Database, ClosedHourCache>()

/** Returns what this process knows of all hours but the present one. */
export function closedHourCacheFor({ log }: Database): ClosedHourCache {
  const existing = closedHourCaches.get(log)
  if (existing !== undefined) return existing
  const closed = new ClosedHourCache()
  closedHourCaches.set(log, closed)
  log.replacedListeners.add(() => closed.clear())
  return closed
}

/** Returns what reads the rules and overrides beside a snapshot of the log. */
export function entryTablesFor(database: Database, query: Query): EntryTables {
  return database.log === database ? { query, dialect: database.dialect } : database
}

/** The last event of the database of rules, where the log has got one of its own: no report reads what it has. */
interface LastEvent {
  readonly readAtMs: number
  readonly atMs: number | undefined
}

const lastEvents = new WeakMap<Database, LastEvent>()

/** Returns the moment that was read last, in milliseconds since the epoch; undefined where the other database has no events. */
export function logSince(database: Database): number | undefined {
  return lastEvents.get(database)?.atMs
}

/** Reads the moment, once a minute at most. While the database of rules is away, the last answer stands. */
async function readLogSince(database: Database, nowMs: number): Promise<void> {
  const known = lastEvents.get(database)
  if (database.log === database || (known && Math.abs(nowMs - known.readAtMs) < MINUTE_MS)) return
  lastEvents.set(database, { readAtMs: nowMs, atMs: known?.atMs })
  const { dialect, query } = database
  await query<{ atMs: number | null }>(
    `SELECT MAX("timestamp") AS "atMs" FROM ${dialect.table('rate_limit_event')}
     WHERE "timestamp" <= ${dialect.fromMs('$1')}`,
    [nowMs],
  ).then(
    ([last]) => lastEvents.set(database, { readAtMs: nowMs, atMs: last?.atMs ?? undefined }),
    () => undefined,
  )
}

/** Returns a function that runs reports on the log of a database; they include what this process has served so far. */
export function createReportRunner(
  database: Database,
  clock: Clock,
  coverage: Coverage = {},
  privacy?: AddressPrivacy,
) {
  const { log } = database
  const { dialect } = log
  const closed = closedHourCacheFor(database)
  return async <Result>(report: Report<Result>): Promise<Result> => {
    await Promise.all([foldForReport(log, clock.now()), readLogSince(database, clock.now())])
    return log.report(async (query) => {
      const nowMs = clock.now()
      const sums = await readSums(query, dialect, nowMs)
      const entries = entryTablesFor(database, query)
      const sinceMs = logSince(database)
      const covered = sinceMs === undefined ? coverage : { ...coverage, log_since: clampedIsoTime(sinceMs) }
      return report({ query, dialect, entries, nowMs, coverage: covered, closed, sums, privacy })
    })
  }
}

/** @throws InvalidSettingError unless `value` is an integer >= 1 */
export function validateAtLeastOne(option: string, value: number): void {
  if (Number.isSafeInteger(value) && value >= 1) return
  throw new InvalidSettingError(`Option "${option}" is ${String(value)}: give a whole number, 1 or more`)
}

/** The range of JavaScript's dates. */
const MAX_DATE_MS = 8.64e15

/** Formats a timestamp. Raw SQL may have written an invalid one, which becomes the earliest or latest date. */
export function clampedIsoTime(ms: number): string {
  const time = Number.isNaN(Number(ms)) ? 0 : Number(ms)
  return new Date(Math.max(-MAX_DATE_MS, Math.min(MAX_DATE_MS, time))).toISOString()
}
