import { CEILING_LIMIT } from '../clients/counter.js'
import { deriveOnce, inLimit, type LimitClient } from '../clients/limit-client.js'
import type { Check, Decision } from '../limiter/algorithm.js'
import type { Rate } from '../limiter/rate.js'
import { refusalMs } from '../limiter/windows.js'
import type { CheckedRequest, Limit } from './checked-request.js'
import type { ClientAddress } from './client-address.js'
import { limitForCeiling } from './policy-limits.js'

/** The limit of addresses that requests count against beside the one that decides about them. */
export interface Ceiling {
  readonly limit: Limit
  standing(address: ClientAddress): Standing
  /** Checks in the same round trip as the checks that follow, of which there are so many. */
  check(check: Check, nowMs: number, waitedMs: number, leads: number): Decision | Promise<Decision>
  /** Decides a check of the other limit where that takes no new counter; otherwise returns undefined. */
  decideLocally(check: Check, nowMs: number): Decision | undefined
}

/** A client of the ceiling, and until when it is known to be refused. */
interface Standing {
  readonly client: LimitClient
  refusedUntilMs: number
}

export function createCeiling(rate: Rate, checks: Pick<Ceiling, 'check' | 'decideLocally'>): Ceiling {
  const standing = deriveOnce((counted): Standing => ({ client: inLimit(CEILING_LIMIT, counted), refusedUntilMs: 0 }))
  return { ...checks, limit: limitForCeiling(rate), standing: ({ client }) => standing(client) }
}

/** Returns whether the ceiling is known to refuse a request: nothing is remembered of what that makes up. */
export function isRefusing(ceiling: Ceiling, { address, nowMs }: CheckedRequest): boolean {
  return nowMs < ceiling.standing(address).refusedUntilMs
}

/**
 * Counts a request against the ceiling, checks it, and returns the decision that holds. Once it is known that the ceiling
 * refuses an address, the store is asked for no other limit: a client that makes up keys would have a counter for each.
 *
 * @param check asks the limits that decide
 * @param decideLocally decides by them where that takes no new counter; otherwise returns undefined
 */
export function checkUnderCeiling<Dependencies>(
  dependencies: Dependencies,
  checked: CheckedRequest,
  ceiling: Ceiling,
  check: (dependencies: Dependencies, checked: CheckedRequest) => Decision | Promise<Decision>,
  decideLocally: (dependencies: Dependencies, checked: CheckedRequest) => Decision | undefined,
): Decision | Promise<Decision> {
  const { address, cost, nowMs, waitedMs, limit } = checked
  const standing = ceiling.standing(address)
  const ceilingCheck = { key: standing.client.counter, policy: ceiling.limit.policy, cost: Math.min(1, cost) }
  const ofAddress = ceiling.check(ceilingCheck, nowMs, waitedMs, checked.applied?.length ?? 1)
  const isRefused = !(ofAddress instanceof Promise || ofAddress.allowed || ofAddress.unavailable)
  if (isRefused && !limit.isDenial) {
    return decideWith(checked, ceiling, standing, decideLocally(dependencies, checked), ofAddress)
  }
  const decision = check(dependencies, checked)
  if (decision instanceof Promise || ofAddress instanceof Promise) {
    return Promise.all([decision, ofAddress]).then((both) => decideWith(checked, ceiling, standing, ...both))
  }
  return decideWith(checked, ceiling, standing, decision, ofAddress)
}

/** Decides by the ceiling where it refuses, unless the other limit refuses for longer. */
function decideWith(
  checked: CheckedRequest,
  ceiling: Ceiling,
  standing: Standing,
  decision: Decision | undefined,
  ofAddress: Decision,
): Decision {
  if (!ofAddress.allowed && !ofAddress.unavailable) standing.refusedUntilMs = checked.nowMs + ofAddress.resetMs
  const { limit, client, nowMs } = checked
  checked.ceiling = { limit: ceiling.limit, client: standing.client, decision: ofAddress, nowMs }
  if (decision !== undefined) {
    const isLonger = limit.block && !decision.allowed && refusalMs(decision) >= refusalMs(ofAddress)
    if (ofAddress.allowed || isLonger) return decision
    checked.overruled = { limit, client, decision, nowMs }
  }
  checked.limit = ceiling.limit
  checked.client = standing.client
  return ofAddress
}
