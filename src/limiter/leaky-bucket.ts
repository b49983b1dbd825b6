import type { Checked, Policy } from './algorithm.js'
import { type BucketCounter, checkBucket } from './bucket.js'

/** The state that a store keeps per key: what is in the bucket. */
export type LeakyBucketCounter = BucketCounter

/**
 * Checks a leaky bucket as a meter (Turner, "New directions in communications", 1986; ITU-T I.371, annex A, where the
 * generic cell rate algorithm is equivalent): a check adds `cost` to a bucket of size `limit`; a check that would
 * overflow it is refused and adds nothing. The bucket leaks `limit` per `periodMs`, steadily. No request is queued or
 * delayed.
 *
 * It decides as a token bucket of the same size does: its content is the number of missing tokens.
 *
 * *Error*: none; any span of one period admits less than twice the limit.
 */
export function checkLeakyBucket(
  counter: LeakyBucketCounter | undefined,
  policy: Policy,
  cost: number,
  nowMs: number,
): Checked<LeakyBucketCounter> {
  return checkBucket(counter, policy, cost, nowMs)
}
