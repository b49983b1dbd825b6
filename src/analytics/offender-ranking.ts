import type { Offender } from '../alerts/offender.js'
import { DAY_SPAN } from '../rollups/counting.js'
import { BlockedCounts, type Leaders } from './blocked-counts.js'
import { compareBytes } from './breakdown.js'
import { type Period, splitAtToday, splitPeriod } from './period.js'
import type { LogSnapshot } from './window.js'

export interface Ranking {
  readonly limit: number
  /** The least number of refusals of a listed key: 1 or more. */
  readonly atLeast: number
}

/**
 * Returns the most blocked keys: the most often first, then by the bytes of the key.
 *
 * The number of keys grows with the log, so a list does not read them all. A key has been refused in past days, in the
 * present day, and in events that no bucket has. Of the first two only the leaders are known, and how often any other
 * key was refused at most. What is known of the leaders gives a total that `limit` keys reach; only keys that can reach
 * it are looked up, which is exact. (The idea is that of Fagin's algorithms: "Optimal aggregation algorithms for
 * middleware", 2003.)
 */
export async function rankOffenders(
  snapshot: LogSnapshot,
  period: Period,
  { limit, atLeast }: Ranking,
): Promise<readonly Offender[]> {
  const { nowMs, sums } = snapshot
  const split = splitPeriod(period, sums)
  const counts = new BlockedCounts(snapshot, split)
  const { closed: past, open: present } = splitAtToday(split.buckets, nowMs)
  const isWholeDay = present.some(({ span }) => span === DAY_SPAN)
  if (!isWholeDay || split.dirty.length > 0) return counts.rankAll(limit, atLeast)

  const [closed, open, rest] = await Promise.all([
    counts.closedLeaders(past, snapshot.closed.sizes.closed),
    counts.leaders(present, snapshot.closed.sizes.open),
    counts.rest(),
  ])
  snapshot.closed.used(nowMs - period.startMs, nowMs)
  const recent = new Map(open.counts)
  for (const [key, blocked] of rest) recent.set(key, (recent.get(key) ?? 0) + blocked)
  const known = (key: string) => (closed.counts.get(key) ?? 0) + (recent.get(key) ?? 0)
  const unknown = (key: string) =>
    (closed.counts.has(key) ? 0 : closed.others) + (open.counts.has(key) ? 0 : open.others)

  const leaders = new Set([...recent.keys(), ...[...closed.counts.keys()].slice(0, limit)])
  const reached = Math.max(atLeast, [...leaders].map(known).toSorted((one, other) => other - one)[limit - 1] ?? 0)
  if (closed.others + open.others >= reached) return counts.rankAll(limit, atLeast)
  const totals = new Map<string, number>()
  for (const key of recent.keys()) if (known(key) + unknown(key) >= reached) totals.set(key, known(key))
  for (const [key, blocked] of closed.counts) {
    if (blocked + open.others < reached) break
    totals.set(key, known(key))
  }
  const looked = await Promise.all([
    counts.forKeys(missing(totals, closed), past),
    counts.forKeys(missing(totals, open), present),
  ])
  for (const [key, blocked] of looked.flatMap((found) => [...found])) totals.set(key, (totals.get(key) ?? 0) + blocked)
  return [...totals]
    .map(([key, blocked_count]) => ({ key, blocked_count }))
    .filter(({ blocked_count }) => blocked_count >= atLeast)
    .toSorted((one, other) => other.blocked_count - one.blocked_count || compareBytes(one.key, other.key))
    .slice(0, limit)
}

/** Returns the keys whose refusals in some buckets are to be looked up. */
function missing(keys: ReadonlyMap<string, number>, { counts, others }: Leaders): string[] {
  return others === 0 ? [] : [...keys.keys()].filter((key) => !counts.has(key))
}
