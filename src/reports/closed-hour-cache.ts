import type { Query, SqlValue } from '../database/dialect.js'
import { DAY_MS, HOUR_MS, SECOND_MS } from '../ground/time/clock.js'
import type { Sums } from '../log/rollups/sums.js'

/** The source of hours: the log as of one moment. */
interface HourSource {
  readonly query: Query
  readonly nowMs: number
  readonly sums: Sums
}

/** The numbers of keys that are read: the more, the fewer lists need those below them. */
interface LeaderSizes {
  /** The number for the buckets of other hours, which are read once. */
  readonly closed: number
  /** The number for the present hour, which every report reads. */
  readonly open: number
}

/** The time for which a window is kept up to date after its last report. */
const KEPT_MS = DAY_MS
/** The number of windows that are kept up to date. */
const MAX_WINDOWS = 16
/** A page has about twenty queries, most of them with few rows. */
const MAX_QUERIES = 500
/** The most rows: some tens of megabytes. */
const MAX_ROWS = 200_000
/** The number of names above which the counts of a window are read anew: a list looks up some hundreds. */
const MAX_NAMES = 10_000
/** Forty days of hours: a month, and what was usual before it. */
const MAX_HOURS = 960
/** The rankings are read again at most this often after a change: late events can come for hours. */
const REREAD_MS = 10 * SECOND_MS

/** A ranking that reads closed hours: the offenders, or the clients by a measure. */
export type RankingName = 'offenders' | 'refused' | 'requests'

interface Window {
  readonly windowMs: number
  readonly ranking: RankingName
  readonly halfHour: number
  /** The `closedVersion` that was read, and when. */
  readonly version: string
  readonly readMs: number
  readonly usedMs: number
}

/** A client in an hour in which it is heavy. */
export interface HeavyHour {
  readonly client: string
  readonly hour: number
}

/** The refusals of a policy in an hour. */
export interface PolicyTotal {
  readonly policy: string
  readonly refused: number
  readonly denied: number
}

/** The results of reading single hours, or incidents that are over, kept until something in them changes. */
export class VersionedMemo<Key, Value> {
  readonly #kept = new Map<Key, { readonly version: string; readonly value: Value }>()

  /** Returns what is known of a version; undefined where that has to be read. */
  get(key: Key, version: string): Value | undefined {
    const kept = this.#kept.get(key)
    return kept?.version === version ? kept.value : undefined
  }

  /** Keeps a value. What was kept for the longest time is forgotten. */
  set(key: Key, version: string, value: Value): void {
    this.#kept.delete(key)
    this.#kept.set(key, { version, value })
    for (const each of this.#kept.keys()) if (this.#kept.size > MAX_HOURS) this.#kept.delete(each)
  }

  clear(): void {
    this.#kept.clear()
  }
}

/**
 * Keeps what was read of all hours but the present one, which changes only where late events are folded, or an hour is
 * counted again or trimmed.
 */
export class ClosedHourCache {
  readonly sizes: LeaderSizes
  /** The rows by the statement and its parameters; the one that was not used for the longest time is the first. */
  readonly #kept = new Map<string, { readonly version: string; readonly rows: unknown[] }>()
  #rows = 0
  /**
   * The counts by the table and its buckets, then by name; the one that was not used for the longest time is the first.
   */
  readonly #counts = new Map<string, { readonly version: string; readonly counts: Map<string, number> }>()
  /** The windows by ranking and length; the one that was not used for the longest time is the first. */
  readonly #windows = new Map<string, Window>()
  /** The heavy clients of each hour, from which incidents are found. */
  readonly heavyClients = new VersionedMemo<number, readonly HeavyHour[]>()
  readonly policyTotals = new VersionedMemo<number, ReadonlyMap<string, PolicyTotal>>()
  /** The paths of incidents that are over, by their ids. */
  readonly incidentPaths = new VersionedMemo<string, readonly string[]>()

  constructor(sizes: LeaderSizes = { closed: 10_000, open: 2_000 }) {
    this.sizes = sizes
  }

  /** Forgets all that was read. */
  clear(): void {
    this.#kept.clear()
    this.#rows = 0
    this.#counts.clear()
    this.#windows.clear()
    this.heavyClients.clear()
    this.policyTotals.clear()
    this.incidentPaths.clear()
  }

  /** Runs a query of other hours than the present one, unless its rows are known. */
  async query<Row>(
    { query, sums }: Pick<HourSource, 'query' | 'sums'>,
    sql: string,
    parameters: readonly SqlValue[],
  ): Promise<readonly Row[]> {
    const key = JSON.stringify([sql, parameters])
    const kept = this.#kept.get(key)
    // The statement decides the type of its rows, as with every query.
    const rows = kept?.version === sums.closedVersion ? (kept.rows as Row[]) : await query<Row>(sql, parameters)
    this.#keep(key, { version: sums.closedVersion, rows })
    return rows
  }

  /**
   * Returns the counts of names in some buckets of other hours than the present one, and keeps them.
   *
   * @param key tells these buckets from others
   * @param read reads the counts of names that are not known
   */
  async count(
    { sums }: Pick<HourSource, 'sums'>,
    key: string,
    names: readonly string[],
    read: (names: readonly string[]) => Promise<ReadonlyMap<string, number>>,
  ): Promise<Map<string, number>> {
    const before = this.#counts.get(key)
    const isUsable = before?.version === sums.closedVersion && before.counts.size <= MAX_NAMES
    const kept = isUsable ? before : { version: sums.closedVersion, counts: new Map<string, number>() }
    const unknown = names.filter((name) => !kept.counts.has(name))
    const found = await read(unknown)
    for (const name of unknown) kept.counts.set(name, found.get(name) ?? 0)
    this.#counts.delete(key)
    this.#counts.set(key, kept)
    for (const each of this.#counts.keys()) if (this.#counts.size > MAX_WINDOWS) this.#counts.delete(each)
    return new Map(names.map((name) => [name, kept.counts.get(name) ?? 0]))
  }

  #keep(key: string, kept: { readonly version: string; readonly rows: unknown[] }): void {
    const forget = (each: string) => {
      this.#rows -= this.#kept.get(each)?.rows.length ?? 0
      this.#kept.delete(each)
    }
    forget(key)
    this.#kept.set(key, kept)
    this.#rows += kept.rows.length
    for (const each of this.#kept.keys()) if (this.#kept.size > MAX_QUERIES || this.#rows > MAX_ROWS) forget(each)
  }

  /** Has a window read by the next `refresh`, before there is a report. */
  expect(ranking: RankingName, windowMs: number, nowMs: number): void {
    const window = { windowMs, ranking, halfHour: Number.NaN, version: '', readMs: nowMs, usedMs: nowMs }
    this.#windows.set(`${ranking} ${windowMs}`, window)
  }

  /** Notes that a report has read a window. */
  used(ranking: RankingName, windowMs: number, { nowMs, sums }: Pick<HourSource, 'nowMs' | 'sums'>): void {
    const key = `${ranking} ${windowMs}`
    const before = this.#windows.get(key)
    const version = sums.closedVersion
    const readMs = before?.version === version ? before.readMs : nowMs
    this.#windows.delete(key)
    this.#windows.set(key, { windowMs, ranking, halfHour: halfHour(windowMs, nowMs), version, readMs, usedMs: nowMs })
    for (const each of this.#windows.keys()) if (this.#windows.size > MAX_WINDOWS) this.#windows.delete(each)
  }

  /** Reads the windows that have reached another hour, or of which others have changed, so that no report has to. */
  async refresh(
    { nowMs, version }: { readonly nowMs: number; readonly version: string },
    read: (ranking: RankingName, windowMs: number) => Promise<unknown>,
  ): Promise<void> {
    for (const [key, before] of [...this.#windows]) {
      const { ranking, windowMs } = before
      const isKnown = before.version === version || nowMs - before.readMs < REREAD_MS
      if (isKnown && before.halfHour === halfHour(windowMs, nowMs)) continue
      if (nowMs - before.usedMs > KEPT_MS) {
        this.#windows.delete(key)
        continue
      }
      await read(ranking, windowMs)
      const window = this.#windows.get(key)
      if (window !== undefined) this.#windows.set(key, { ...window, usedMs: before.usedMs })
    }
  }
}

/** Rankings begin with the nearest hour, or with the next one: both change with a half hour. */
function halfHour(windowMs: number, nowMs: number): number {
  return Math.floor((nowMs - windowMs) / (HOUR_MS / 2))
}
