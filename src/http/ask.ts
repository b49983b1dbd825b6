import type { FastifyRequest } from 'fastify'
import type { Decision } from '../limiter/algorithm.js'
import { CheckedRequest } from './decide.js'
import type { HookDependencies } from './on-request.js'

/**
 * Creates the function that checks a request from code, without headers, event or refusal, also on exempt routes.
 *
 * It has no response of its own: a limit that counts responses counts it at once.
 *
 * @returns null where no limit applies: a skipped path or request, or an address of the allow list
 */
export function createAsk(hook: HookDependencies, isSkipped: (checked: CheckedRequest) => boolean) {
  const dependencies: HookDependencies = {
    ...hook,
    checkAhead: (asked, nowMs) => hook.check(asked, nowMs, false),
  }
  return async function ask(request: FastifyRequest, cost: number): Promise<Decision | null> {
    const checked = new CheckedRequest(dependencies, request)
    if (isSkipped(checked)) return null
    checked.cost = cost
    await dependencies.decide(checked)
    if (checked.isExempt) return null
    return cost === 0 ? forOneRequest(checked) : checked.decision
  }
}

/**
 * Returns the answer of a check of cost 0, which is for a cost of 1, as it is for a request that costs what its rule
 * says. The wait is then the longest possible: until nothing is used.
 */
function forOneRequest({ decision, limit: { cost } }: CheckedRequest): Decision {
  const { remaining, limit, resetMs } = decision
  if (cost === 1 || remaining >= cost || decision.unavailable) return decision
  return { ...decision, allowed: false, retryAfterMs: limit < cost ? null : resetMs }
}
