import { DAY_MS, latestStartMs } from '../ground/time/clock.js'
import { type Checked, MAX_USED, neededFor, type Policy, type Window } from './algorithm.js'
import { productQuotient, productRemainder } from './whole-numbers.js'

/** The state that a store keeps per key. `used + fraction / periodMs` of the bucket is in use at `checkedMs`. */
export interface BucketCounter {
  readonly periodMs: number
  /** The limit at which the bucket drains: the one that admitted last. What is in use exceeds it by charges only. */
  readonly drainLimit: number
  readonly used: number
  /** 0 to `periodMs` - 1. */
  readonly fraction: number
  /** The counter's own time, which never runs backwards. */
  readonly checkedMs: number
  /** The units that checks have taken in all, modulo `TAKEN_MODULUS`. */
  readonly taken: number
}

/** The most that a bucket counts to of the units that were taken: SQL and Lua calculate with it exactly. */
export const TAKEN_MODULUS = 2 ** 46

export function isBucket({ algorithm }: Policy): boolean {
  return algorithm === 'token_bucket' || algorithm === 'leaky_bucket'
}

/** The time that a bucket may take to drain, beside one period. */
export const LONGEST_DRAIN_MS = 3_650 * DAY_MS

/** Returns the most that is in use of a bucket: charges beyond it are lost. */
export function mostUsed({ limit, periodMs }: Window): number {
  return Math.min(MAX_USED, drainingLimit(limit) * (Math.floor(LONGEST_DRAIN_MS / periodMs) + 1))
}

/** Returns the limit at which a bucket drains what was taken at a limit: of one of 0 only charges can take. */
export function drainingLimit(limit: number): number {
  return Math.max(1, limit)
}

/**
 * Checks a token bucket, or a leaky bucket, which decides alike: what is in the one is missing from the other.
 *
 * *Token bucket* (RFC 2697, section 3; Shenker and Wroclawski, RFC 2215): a bucket holds `limit` tokens and is full at
 * first; a check takes `cost` tokens, or is refused and takes none; a token returns every `periodMs / limit`.
 *
 * *Leaky bucket* as a meter (Turner, "New directions in communications", 1986; ITU-T I.371, annex A, where the generic
 * cell rate algorithm is equivalent): a check adds `cost` to a bucket of size `limit`, or is refused and adds nothing.
 * The bucket leaks `limit` per `periodMs`, steadily. No request is queued or delayed.
 *
 * A client may burst up to the limit, and uses the limit per period in the long run. *Error*: none: `limit / periodMs`
 * drains per millisecond, kept as a whole number and a fraction over `periodMs`. Any span of one period admits less than
 * twice the limit: a full bucket, and what returns meanwhile.
 *
 * Another limit applies at once to what is in use. The bucket drains at the limit that admitted last, or at a higher
 * one that was checked since, so that it is empty one period after its last use even when the limit was lowered. Charges
 * are admitted in any case; what they take above the limit drains over more periods.
 */
export function checkBucket(
  counter: BucketCounter | undefined,
  policy: Policy,
  cost: number,
  nowMs: number,
  charges = false,
): Checked<BucketCounter> {
  const { limit } = policy
  const drained = drainTo(counter, policy, nowMs)
  const inUse = drained.used + (drained.fraction > 0 ? 1 : 0)
  const needed = neededFor(cost)
  const allowed = charges || inUse + needed <= limit
  const used = allowed ? drained.used + cost : drained.used
  const after = {
    periodMs: drained.periodMs,
    drainLimit: allowed && cost > 0 ? drainingLimit(limit) : Math.max(drained.drainLimit, limit),
    used: charges && cost > 0 ? Math.min(used, mostUsed(policy)) : used,
    fraction: drained.fraction,
    checkedMs: drained.checkedMs,
    taken: allowed ? addTaken(drained.taken, cost) : drained.taken,
  }
  const aheadMs = after.checkedMs - nowMs
  const resetMs = after.used + after.fraction === 0 ? 0 : emptyAtMs(after) - nowMs
  if (allowed) {
    const count = inUse + after.used - drained.used
    const remaining = Math.max(0, limit - count)
    const moreMs = resetMs === 0 ? 0 : aheadMs + msUntil(after, limit - remaining - 1)
    return {
      counter: after,
      decision: { allowed, count, limit, remaining, resetMs, moreMs, retryAfterMs: 0, taken: after.taken },
    }
  }
  const count = cost === 0 ? inUse : limit + 1
  const remaining = Math.max(0, limit - inUse)
  const retryAfterMs = needed > limit ? null : aheadMs + msUntil(after, limit - needed)
  return { counter: after, decision: { allowed, count, limit, remaining, resetMs, retryAfterMs } }
}

/** What a bucket gets back. */
export interface BucketSettlement {
  readonly cost: number
  /** The units that had been taken in all, up to the check. */
  readonly mark: number
  /** The time and the limit of the check. */
  readonly checkedMs: number
  readonly limit: number
}

/**
 * Returns what changes in a counter by a settlement: the bucket is then at least as full as if the check had never been,
 * however much has drained, was taken and was given back meanwhile.
 *
 * The bucket gets the whole cost back where it holds so much beside all that was taken since: without the check it would
 * not have been empty meanwhile. Otherwise it gets back what has not drained since if the check drained first, which needs
 * the limit of the check. So it is fuller by no more than drains in the time between check and settlement.
 */
export function settleBucket(
  counter: BucketCounter,
  { cost, mark, checkedMs, limit }: BucketSettlement,
): Pick<BucketCounter, 'used' | 'fraction'> {
  const { used, fraction, periodMs, drainLimit, taken } = counter
  const takenSince = (taken - mark + TAKEN_MODULUS) % TAKEN_MODULUS
  if (used - cost >= takenSince) return { used: used - cost, fraction }
  const elapsedMs = Math.max(0, counter.checkedMs - checkedMs)
  const drained = productQuotient(elapsedMs, limit, periodMs)
  if (limit !== drainLimit || drained >= cost) return { used, fraction }
  const part = fraction + productRemainder(elapsedMs, limit, periodMs)
  const carried = part < periodMs ? 0 : 1
  const left = used - cost + drained + carried
  return left < 0 ? { used: 0, fraction: 0 } : { used: left, fraction: part - carried * periodMs }
}

/** Returns the sum without a division, which would take as long as the rest of a check. */
function addTaken(taken: number, cost: number): number {
  const sum = taken + cost
  return sum < TAKEN_MODULUS ? sum : sum - TAKEN_MODULUS
}

/** Returns the counter as it is at `nowMs`; a new one where it belongs to another period, or a wrong clock has written it. */
function drainTo(counter: BucketCounter | undefined, { limit, periodMs }: Policy, nowMs: number): BucketCounter {
  if (counter?.periodMs !== periodMs || counter.checkedMs > latestStartMs(nowMs, periodMs)) {
    return { periodMs, drainLimit: limit, used: 0, fraction: 0, checkedMs: nowMs, taken: 0 }
  }
  if (nowMs <= counter.checkedMs) return counter
  const { drainLimit, taken } = counter
  const elapsedMs = nowMs - counter.checkedMs
  const fraction = counter.fraction - productRemainder(elapsedMs, drainLimit, periodMs)
  const used = counter.used - productQuotient(elapsedMs, drainLimit, periodMs) - (fraction < 0 ? 1 : 0)
  if (used < 0) return { periodMs, drainLimit, used: 0, fraction: 0, checkedMs: nowMs, taken }
  const kept = fraction < 0 ? fraction + periodMs : fraction
  return { periodMs, drainLimit, used, fraction: kept, checkedMs: nowMs, taken }
}

/** Returns when a bucket is empty. */
export function emptyAtMs(counter: BucketCounter): number {
  return counter.checkedMs + msUntil(counter, 0)
}

/** Returns the milliseconds until no more than `level` is in use. */
function msUntil({ periodMs, drainLimit, used, fraction }: BucketCounter, level: number): number {
  const excess = used - level
  if (excess < 0 || (excess === 0 && fraction === 0)) return 0
  // (excess * periodMs + fraction) / drainLimit, rounded up.
  const left = productRemainder(excess, periodMs, drainLimit) + fraction
  return productQuotient(excess, periodMs, drainLimit) + Math.ceil(left / drainLimit)
}
