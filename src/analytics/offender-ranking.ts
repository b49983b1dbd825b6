import type { Offender } from '../alerts/offender.js'
import { HOUR_SPAN } from '../rollups/counting.js'
import { BlockedCounts, type BucketList } from './blocked-counts.js'
import { compareBytes } from './breakdown.js'
import type { Period } from './period.js'
import type { LogSnapshot } from './window.js'

export interface Ranking {
  readonly limit: number
  /** The least number of refusals of a listed key: 1 or more. */
  readonly atLeast: number
}

/** Longer lists contain most of the keys in any case. */
const MAX_SHORT_LIST = 100
/** More candidates, or more buckets, cost more than reading the whole rollup. */
const MAX_CANDIDATES = 500
const MAX_BUCKETS = 500
/** The number of buckets whose top keys are the first candidates. */
const SEED_BUCKETS = 8

/**
 * Returns the most blocked keys: the most often first, then by the bytes of the key.
 *
 * The number of keys grows with the log, so a short list does not read them all. It finds a total that `limit` keys
 * reach; every key of the list has that total or more, and so in at least one bucket that bucket's share of it. Only
 * keys with such a bucket are summed, which is exact. (The idea is that of Fagin's threshold algorithm: "Optimal
 * aggregation algorithms for middleware", 2003.)
 */
export async function rankOffenders(
  snapshot: LogSnapshot,
  period: Period,
  { limit, atLeast }: Ranking,
): Promise<readonly Offender[]> {
  const counts = new BlockedCounts(snapshot, period)
  const lists = limit > MAX_SHORT_LIST ? undefined : await counts.buckets(MAX_BUCKETS)
  if (lists === undefined) return counts.rankAll(limit, atLeast)

  const rest = await counts.rest()
  const seeds = await readSeeds(counts, lists, rest, limit)
  const reached = (await sumTotals(counts, lists, rest, seeds)).at(limit - 1)?.blocked_count ?? 0
  const candidates = await readCandidates(counts, lists, rest, Math.max(reached, atLeast))
  if (candidates === undefined) return counts.rankAll(limit, atLeast)
  const ranked = await sumTotals(counts, lists, rest, candidates)
  return ranked.filter(({ blocked_count }) => blocked_count >= atLeast).slice(0, limit)
}

async function readSeeds(
  counts: BlockedCounts,
  lists: readonly BucketList[],
  rest: ReadonlyMap<string, number>,
  limit: number,
): Promise<Set<string>> {
  const seeds = new Set<string>()
  for (const { span, buckets } of lists) {
    const step = Math.max(1, Math.ceil(buckets.length / SEED_BUCKETS))
    const chosen = buckets.filter((_, place) => place % step === 0)
    for (const key of await counts.topKeys(span, chosen, limit)) seeds.add(key)
  }
  const most = [...rest].toSorted(([, one], [, other]) => other - one).slice(0, limit)
  for (const [key] of most) seeds.add(key)
  return seeds
}

/** Returns all keys that can reach the total; undefined when they are too many. */
async function readCandidates(
  counts: BlockedCounts,
  lists: readonly BucketList[],
  rest: ReadonlyMap<string, number>,
  total: number,
): Promise<Set<string> | undefined> {
  // A bucket's share is proportional to its length; the rest counts as an hour.
  const minutes = lists.reduce((sum, { span, buckets }) => sum + span * buckets.length, HOUR_SPAN)
  const shareFor = (span: number) => Math.ceil((total * span) / minutes)
  const candidates = new Set<string>()
  for (const [key, blocked] of rest) {
    if (blocked >= shareFor(HOUR_SPAN)) candidates.add(key)
  }
  for (const list of lists) {
    for (const key of await counts.keysAtLeast(list, shareFor(list.span), MAX_CANDIDATES + 1)) candidates.add(key)
    if (candidates.size > MAX_CANDIDATES) return undefined
  }
  return candidates
}

async function sumTotals(
  counts: BlockedCounts,
  lists: readonly BucketList[],
  rest: ReadonlyMap<string, number>,
  keys: ReadonlySet<string>,
): Promise<Offender[]> {
  const totals = new Map<string, number>()
  for (const key of keys) totals.set(key, rest.get(key) ?? 0)
  for (const list of lists) {
    for (const { key, blocked } of await counts.forKeys([...keys], list))
      totals.set(key, (totals.get(key) ?? 0) + blocked)
  }
  return [...totals]
    .map(([key, blocked_count]) => ({ key, blocked_count }))
    .toSorted((one, other) => other.blocked_count - one.blocked_count || compareBytes(one.key, other.key))
}
