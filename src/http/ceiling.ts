import type { Check, Decision } from '../limiter/algorithm.js'
import type { Rate } from '../limiter/rate.js'
import { refusalMs } from '../limiter/windows.js'
import type { ClientAddress } from './client-address.js'
import { type ClientKey, inScope } from './client-key.js'
import type { CheckedRequest } from './decide.js'
import { type Limit, limitForCeiling } from './limits.js'
import { memoize } from './memoize.js'

/** The limit of addresses that requests count against beside the one that decides about them. */
export interface Ceiling {
  readonly limit: Limit
  clientKey(address: ClientAddress): ClientKey
  /** Checks in the same round trip as the check before it. */
  check(check: Check, nowMs: number): Decision | Promise<Decision>
}

/** @param scope of its counters */
export function createCeiling(rate: Rate, scope: string, check: Ceiling['check']): Ceiling {
  const clientKey = memoize((key: ClientKey) => inScope(scope, key))
  return { limit: limitForCeiling(rate), clientKey: (address) => clientKey(address.clientKey), check }
}

/**
 * Counts a request against the ceiling.
 *
 * @param decision of the limit that decides, whose check is on its way
 */
export function checkCeiling(
  checked: CheckedRequest,
  ceiling: Ceiling,
  decision: Decision | Promise<Decision>,
): Promise<void> | undefined {
  const { address, cost, nowMs } = checked
  const key = ceiling.clientKey(address)
  const check = { key: key.counter, policy: ceiling.limit.policy, cost: Math.min(1, cost) }
  const ofAddress = ceiling.check(check, nowMs)
  if (decision instanceof Promise || ofAddress instanceof Promise) {
    return Promise.all([decision, ofAddress]).then((both) => decideWith(checked, ceiling, key, ...both))
  }
  decideWith(checked, ceiling, key, decision, ofAddress)
}

/** Decides by the ceiling where it refuses, unless the other limit refuses for longer. */
function decideWith(
  checked: CheckedRequest,
  { limit }: Ceiling,
  client: ClientKey,
  decision: Decision,
  ofAddress: Decision,
): void {
  checked.decision = decision
  if (ofAddress.allowed) return
  if (checked.isRefused && refusalMs(decision) >= refusalMs(ofAddress)) return
  checked.limit = limit
  checked.client = client
  checked.decision = ofAddress
}
