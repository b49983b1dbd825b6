import { latestStartMs, SECOND_MS } from '../ground/time/clock.js'
import { type Check, type Checked, type Decision, neededFor, type Policy } from './algorithm.js'

/** The highest limit: a counter lists the permits that are taken. */
export const MAX_PERMITS = 10_000

/** The wait of a refused request. Nothing says when another one will finish. */
const WAIT_MS = SECOND_MS

/** The permits of one check: `cost` of them, until they are given back, or until `untilMs`. */
export interface TakenPermits {
  /** The identity that the check gave. */
  readonly permit: number
  readonly untilMs: number
  readonly cost: number
}

/** The state that a store keeps per key: the taken permits, in the order of their ends. */
export interface ConcurrencyCounter {
  readonly periodMs: number
  readonly taken: readonly TakenPermits[]
}

/**
 * Checks how many requests are in progress: a check takes `cost` permits of `limit`, which `settleConcurrency` gives
 * back. Permits that are not given back, since a server died, are free again after one period.
 *
 * Time never runs backwards as long as permits are taken: for the counter it is one period before the last of them ends,
 * or later. Another limit applies at once to what is taken. A counter of another period is replaced by a new one, and so
 * is one whose last permits a wrong clock has taken: the same clock had ended those before.
 */
export function checkConcurrency(
  counter: ConcurrencyCounter | undefined,
  { policy, cost, permit = 0 }: Check,
  nowMs: number,
): Checked<ConcurrencyCounter> {
  const { periodMs } = policy
  const stored = counter?.periodMs === periodMs ? counter.taken : []
  const lastMs = (stored.at(-1)?.untilMs ?? 0) - periodMs
  const isNone = lastMs > latestStartMs(nowMs, periodMs)
  const [before, momentMs] = isNone ? [[], nowMs] : [stored, Math.max(nowMs, lastMs)]
  const taken = before.filter(({ untilMs }) => untilMs > momentMs)
  const decision = decideConcurrency(policy, countPermits(taken), cost)
  if (decision.allowed && cost > 0) taken.push({ permit, untilMs: momentMs + periodMs, cost })
  return { counter: { periodMs, taken }, decision }
}

/** Returns the counter without the permits of one check; unchanged where these are free already. */
export function settleConcurrency(counter: ConcurrencyCounter, permit: number): ConcurrencyCounter {
  return { ...counter, taken: counter.taken.filter((each) => each.permit !== permit) }
}

function countPermits(taken: readonly TakenPermits[]): number {
  return taken.reduce((sum, { cost }) => sum + cost, 0)
}

/** Returns the decision on a check where `inUse` permits are taken. */
function decideConcurrency({ limit }: Policy, inUse: number, cost: number): Decision {
  const needed = neededFor(cost)
  const allowed = inUse + needed <= limit
  return {
    allowed,
    count: inUse + cost,
    limit,
    remaining: Math.max(0, allowed ? limit - inUse - cost : limit - inUse),
    resetMs: WAIT_MS,
    retryAfterMs: allowed ? 0 : needed > limit ? null : WAIT_MS,
  }
}

/** Decides checks on one counter, one after the other, the first of them where `inUse` permits are taken. */
export function decideConcurrencyInOrder(checks: readonly Check[], inUse: number): Decision[] {
  let used = inUse
  return checks.map(({ policy, cost }) => {
    const decision = decideConcurrency(policy, used, cost)
    if (decision.allowed) used += cost
    return decision
  })
}
