/** Notices: that a client has used a share of a window. */
import { noticeCounter } from '../clients/counter.js'
import { type Check, type Decision, type NamedWindow, neededFor, type Policy, type WindowState } from './algorithm.js'
import type { Limiter } from './limiter.js'
import { windowEndMs, windowStartMs } from './period.js'
import { toRateText } from './rate.js'
import { shownIndex } from './windows.js'

/** The limit of a notice. */
export interface NoticedLimit {
  /** The policy, as decisions name it: a rule's name, `default`, the name of a route's limit. */
  readonly policy: string
  readonly unit: string
  /** The whole rate, such as `10000/m, 5000000/month`. */
  readonly rate: string
  /** The period of the window, as a rate spells it: `month`, `m`, `30s`. */
  readonly window: string
  /** What the client uses of the window, reservations included; above its limit while that is in debt. */
  readonly count: number
}

/** A share of a window that a client has used. */
export interface Notice {
  readonly client: string
  readonly limit: NoticedLimit
  /** In percent, 1 to 100. */
  readonly share: number
  /** The most that the window allows. */
  readonly most: number
  /** The name of the counter. */
  readonly counter: string
  /** The window: with sliding windows and buckets the aligned period. */
  readonly window: NamedWindow
  readonly startMs: number
  readonly endMs: number
  readonly atMs: number
}

/** A share of a window that the use of a counter has reached. */
export interface ReachedShare {
  readonly window: NamedWindow
  readonly share: number
  readonly count: number
  readonly startMs: number
}

const NONE: readonly ReachedShare[] = []

/**
 * Returns the shares that the use of a counter has reached by a check: of a fixed window all that it has reached since it
 * began, so that one of which no process could tell is told of by a later check; of sliding windows and buckets, whose use
 * lasts over aligned periods, those that this check has reached.
 *
 * @param shares rising
 */
export function reachedShares(
  { policy, cost }: Check,
  decision: Decision,
  shares: readonly number[],
  nowMs: number,
): readonly ReachedShare[] {
  const [least = Number.POSITIVE_INFINITY] = shares
  if (decision.windows === undefined) {
    if (!hasReached(decision.limit, decision.limit - decision.remaining, least)) return NONE
  } else if (!decision.windows.some(({ limit, remaining }) => hasReached(limit, limit - remaining, least))) {
    return NONE
  }
  const states: readonly WindowState[] = decision.windows ?? [decision]
  const shown = Math.max(0, shownIndex(decision, policy))
  const standing = standingCount(policy, decision, cost)
  return namedWindows(policy).flatMap((window, index) => {
    const { limit, remaining } = states[index] ?? { limit: 0, remaining: 0 }
    // Only the window that the decision is of says by how much it is in debt.
    const count = index === shown ? Math.max(limit - remaining, standing) : limit - remaining
    const before = decision.allowed ? count - cost : count
    const isNew = (share: number) => policy.algorithm === 'fixed_window' || !hasReached(limit, before, share)
    return shares.flatMap((share) =>
      hasReached(limit, count, share) && isNew(share)
        ? { window, share, count, startMs: windowStartMs(window.periodMs, nowMs) }
        : [],
    )
  })
}

/** Returns what the window of a decision counts, as far as a refusal tells it. */
function standingCount({ algorithm, reserves }: Policy, { allowed, count }: Decision, cost: number): number {
  if (allowed) return count
  if (reserves) return count - neededFor(cost)
  return algorithm === 'fixed_window' ? count : 0
}

function hasReached(limit: number, count: number, share: number): boolean {
  return limit > 0 && count * 100 >= share * limit
}

function namedWindows(policy: Policy): readonly NamedWindow[] {
  const { limit, periodMs, windows } = policy
  if (windows !== undefined) return windows
  const [, period = ''] = toRateText(policy).split('/')
  return [{ limit, periodMs, period }]
}

/** Returns the notice of a share that a client's use has reached. */
export function toNotice(
  { window, share, count, startMs }: ReachedShare,
  { key, policy }: Check,
  { client, policyName, unit }: { readonly client: string; readonly policyName: string; readonly unit: string },
  nowMs: number,
): Notice {
  return {
    client,
    limit: { policy: policyName, unit, rate: toRateText(policy), window: window.period, count },
    share,
    most: window.limit,
    counter: key,
    window,
    startMs,
    endMs: windowEndMs(window.periodMs, startMs),
    atMs: nowMs,
  }
}

/**
 * Claims notices by counters of their own, where processes share no database: the first check of a counter in a window
 * takes its notice.
 *
 * @returns those that no process has claimed before
 * @throws Error while the store does not answer
 */
export async function claimByCounters(
  limiter: Pick<Limiter, 'check'>,
  notices: readonly Notice[],
): Promise<readonly Notice[]> {
  const decisions = await Promise.all(
    notices.map(({ counter, share, window: { period, periodMs }, atMs }) => {
      const windows = [{ limit: 1, periodMs, period }]
      const policy: Policy = { algorithm: 'fixed_window', limit: 1, periodMs, windows }
      return limiter.check({ key: noticeCounter(counter, period, share), policy, cost: 1 }, atMs)
    }),
  )
  const claimed = notices.filter((_notice, index) => decisions[index]?.allowed)
  if (claimed.length === 0 && decisions.some(({ unavailable }) => unavailable)) {
    throw new Error('the store of the counters does not answer')
  }
  return claimed
}
