import type { AddressPrivacy } from '../clients/address-privacy.js'
import type { Database } from '../database/database.js'
import type { Dialect, Query } from '../database/dialect.js'
import { InvalidSettingError } from '../ground/errors.js'
import type { Clock } from '../ground/time/clock.js'
import type { EventDetail } from '../log/collapsing-buffer.js'
import { foldForReport } from '../log/rollups/catch-up.js'
import { readSums, type Sums } from '../log/rollups/sums.js'
import { ClosedHourCache } from './closed-hour-cache.js'
import type { WindowOptions } from './report-window.js'

/** The event log as of one moment, which a report reads. */
export interface LogSnapshot {
  readonly query: Query
  readonly dialect: Dialect
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
export function closedHourCacheFor(database: Database): ClosedHourCache {
  const existing = closedHourCaches.get(database)
  if (existing !== undefined) return existing
  const closed = new ClosedHourCache()
  closedHourCaches.set(database, closed)
  database.replacedListeners.add(() => closed.clear())
  return closed
}

/** Returns a function that runs reports on a database; they include what this process has served so far. */
export function createReportRunner(
  database: Database,
  clock: Clock,
  coverage: Coverage = {},
  privacy?: AddressPrivacy,
) {
  const { dialect } = database
  const closed = closedHourCacheFor(database)
  return async <Result>(report: Report<Result>): Promise<Result> => {
    await foldForReport(database, clock.now())
    return database.report(async (query) => {
      const nowMs = clock.now()
      const sums = await readSums(query, dialect, nowMs)
      return report({ query, dialect, nowMs, coverage, closed, sums, privacy })
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
