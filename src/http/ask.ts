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
  if (cost === 1 || decision.unavailable) return decision
  const short = (decision.windows ?? [decision]).filter(({ remaining }) => remaining < cost)
  const [longest] = short.toSorted((one, other) => other.resetMs - one.resetMs)
  if (longest === undefined) return decision
  const { limit, remaining, resetMs } = longest
  const isNever = short.some((window) => window.limit < cost)
  return { ...decision, limit, remaining, resetMs, allowed: false, retryAfterMs: isNever ? null : resetMs }
}
