import type { FastifyRequest } from 'fastify'
import type { Decision } from '../limiter/algorithm.js'
import { CheckedRequest, decide } from './decide.js'
import type { HookDependencies } from './on-request.js'

/**
 * Creates the function that checks a request from code, without headers, event or refusal, also on exempt routes.
 *
 * @returns null where no limit applies: a skipped path, or an address of the allow list
 */
export function createAsk(dependencies: HookDependencies, isSkipped: (checked: CheckedRequest) => boolean) {
  return async function ask(request: FastifyRequest, cost: number): Promise<Decision | null> {
    const checked = new CheckedRequest(dependencies, request)
    if (isSkipped(checked)) return null
    checked.cost = cost
    await decide(checked)
    return checked.isExempt ? null : checked.decision
  }
}
