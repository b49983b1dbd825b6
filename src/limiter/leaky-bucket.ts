import type { Checked, Policy } from './algorithm.js'
import { type BucketCounter, checkBucket } from './bucket.js'

/** What a store keeps per key: what is in the bucket. */
export type LeakyBucketCounter = BucketCounter

/**
 * Leaky bucket as a meter (Turner, "New directions in communications", 1986; ITU-T I.371, annex A, where the generic
 * cell rate algorithm is its twin): a check pours `cost` into a bucket of size `limit`, or is refused when that would
 * overflow it, and then pours nothing; the bucket leaks `limit` per `periodMs`, steadily. No request is queued or delayed.
 *
 * It decides as a token bucket of the same size does, seen from the other side: what is in it are the missing tokens.
 *
 * *Error*: none; in any span of one period less than twice the limit is admitted.
 */
export function checkLeakyBucket(
  counter: LeakyBucketCounter | undefined,
  policy: Policy,
  cost: number,
  nowMs: number,
): Checked<LeakyBucketCounter> {
  return checkBucket(counter, policy, cost, nowMs)
}
