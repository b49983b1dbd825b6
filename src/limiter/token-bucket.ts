import type { Checked, Policy } from './algorithm.js'
import { type BucketCounter, checkBucket } from './bucket.js'

/** The state that a store keeps per key: the tokens that are missing from the bucket. */
export type TokenBucketCounter = BucketCounter

/**
 * Checks a token bucket (RFC 2697, section 3; Shenker and Wroclawski, RFC 2215): a bucket holds `limit` tokens and is
 * full at first; a check takes `cost` tokens, or is refused and takes none; a token returns every `periodMs / limit`. A
 * client may burst up to the limit, and uses the limit per period in the long run.
 *
 * *Error*: none; parts of a token are kept, and only whole ones can be taken. Any span of one period admits less than
 * twice the limit: a full bucket, and what returns meanwhile.
 */
export function checkTokenBucket(
  counter: TokenBucketCounter | undefined,
  policy: Policy,
  cost: number,
  nowMs: number,
): Checked<TokenBucketCounter> {
  return checkBucket(counter, policy, cost, nowMs)
}
