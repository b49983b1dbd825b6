import { compareBytes } from './breakdown.js'
import { CSV_LIMIT, csvRows } from './csv.js'
import { splitAtPresent } from './period.js'
import { KEYS_BY_REFUSALS, type Leaders, type Ranked, RankedCounts, type Ranking } from './ranked-counts.js'
import { report } from './registration.js'
import { type LogSnapshot, type RankingOptions, type Report, validateAtLeastOne } from './report.js'
import { type ReportWindow, toWindow, windowFor } from './report-window.js'

/** A client that was refused, and its number of refusals. */
export interface Offender {
  readonly key: string
  readonly blocked_count: number
}

interface RankingBounds {
  readonly limit: number
  /** The least count of a listed name: 1 or more. */
  readonly atLeast: number
}

/** Returns the most refused keys: the most often first, then by the bytes of the key. */
export async function rankOffenders(
  snapshot: LogSnapshot,
  window: ReportWindow,
  bounds: RankingBounds,
): Promise<readonly Offender[]> {
  const ranked = await rank(snapshot, KEYS_BY_REFUSALS, window, bounds)
  return ranked.map(({ name, count }) => ({ key: name, blocked_count: count }))
}

/**
 * Returns the names with the highest counts: the highest first, then by the bytes of the name.
 *
 * The number of names grows with the log, so a list does not read them all. A name was counted in past hours, in the
 * present one, and in events that no bucket has. Of the first two only the leaders are known, and what any other name
 * has at most. What is known of the leaders gives a total that `limit` names reach; only names that can reach it are
 * looked up, which is exact. (The idea is that of Fagin's algorithms: "Optimal aggregation algorithms for middleware",
 * 2003.)
 */
export async function rank(
  snapshot: LogSnapshot,
  ranking: Ranking,
  window: ReportWindow,
  { limit, atLeast }: RankingBounds,
): Promise<readonly Ranked[]> {
  const { nowMs } = snapshot
  const period = windowFor(window, nowMs)
  const counts = new RankedCounts(snapshot, ranking, period)
  const { split } = counts
  const { closed: past, open: present } = splitAtPresent(split.buckets, nowMs)
  if (past.length === 0 || split.dirty.length > 0) return counts.rankAll(limit, atLeast)

  const [closed, open, rest] = await Promise.all([
    counts.closedLeaders(past, snapshot.closed.sizes.closed),
    counts.leaders(present, snapshot.closed.sizes.open),
    counts.rest(),
  ])
  // A range moves no further: its hours are read once.
  if (window.since === undefined) snapshot.closed.used(ranking.name, nowMs - period.startMs, snapshot)
  const recent = new Map(open.counts)
  for (const [name, count] of rest) recent.set(name, (recent.get(name) ?? 0) + count)
  const counted = (name: string) => (closed.counts.get(name) ?? 0) + (recent.get(name) ?? 0)
  const uncounted = (name: string) =>
    (closed.counts.has(name) ? 0 : closed.others) + (open.counts.has(name) ? 0 : open.others)

  const leaders = new Set([...recent.keys(), ...[...closed.counts.keys()].slice(0, limit)])
  const reached = Math.max(atLeast, [...leaders].map(counted).toSorted((one, other) => other - one)[limit - 1] ?? 0)
  if (closed.others + open.others >= reached) return counts.rankAll(limit, atLeast)
  const totals = new Map<string, number>()
  for (const name of recent.keys()) if (counted(name) + uncounted(name) >= reached) totals.set(name, counted(name))
  for (const [name, count] of closed.counts) {
    if (count + open.others < reached) break
    totals.set(name, counted(name))
  }
  const missingCounts = await Promise.all([
    counts.closedForNames(missing(totals, closed), past),
    counts.forNames(missing(totals, open), present),
  ])
  for (const [name, count] of missingCounts.flatMap((found) => [...found]))
    totals.set(name, (totals.get(name) ?? 0) + count)
  return [...totals]
    .map(([name, count]) => ({ name, count }))
    .filter(({ count }) => count >= atLeast)
    .toSorted((one, other) => other.count - one.count || compareBytes(one.name, other.name))
    .slice(0, limit)
}

/** Returns the names whose counts in some buckets are to be looked up. */
function missing(names: ReadonlyMap<string, number>, { counts, others }: Leaders): string[] {
  return others === 0 ? [] : [...names.keys()].filter((name) => !counts.has(name))
}

/** Reports the keys with the most refused requests. */
export const topOffenders = report<RankingOptions, readonly Offender[]>()({
  name: 'listOffenders',
  summary: 'List the keys with the most refusals',
  window: 7,
  limit: 100,
  answer: ({ texts, counts }) => ({ ...texts('key'), ...counts('blocked_count') }),
  columns: ['key', 'blocked_count'],
  read: ({ window, limit }, snapshot) => rankOffenders(snapshot, window, { limit, atLeast: 1 }),
})

/** Reports them as CSV with a header line. */
export function offendersCsv({ limit = CSV_LIMIT, ...options }: RankingOptions = {}): Report<string> {
  const offenders = topOffenders({ ...options, limit })
  return async (snapshot) => [...csvRows(topOffenders, await offenders(snapshot))].join('')
}

export interface AlertableOffendersOptions extends RankingOptions {
  /** The number of refused requests that makes an offender: a whole number, 1 or more. */
  readonly threshold: number
}

/** Reports the keys that were refused at least `threshold` times. */
export function alertableOffenders({
  threshold,
  limit = 100,
  ...options
}: AlertableOffendersOptions): Report<readonly Offender[]> {
  validateAtLeastOne('threshold', threshold)
  const window = toWindow(options, 1)
  validateAtLeastOne('limit', limit)
  return (snapshot) => rankOffenders(snapshot, window, { limit, atLeast: threshold })
}
