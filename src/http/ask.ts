import type { FastifyRequest } from 'fastify'
import type { Decision } from '../limiter/algorithm.js'
import { CheckedRequest, decide } from './decide.js'
import type { HookDependencies } from './on-request.js'

/**
 * Creates the function that checks a request from code, without headers, event or refusal, also on exempt routes.
 *
 * @returns null where no limit applies: a skipped path, or an address of the allow list
 */
export function createAsk(
  dependencies: HookDependencies,
  isSkipped: (request: FastifyRequest, path: string) => boolean,
) {
  return async function ask(request: FastifyRequest, cost: number): Promise<Decision | null> {
    const path = dependencies.path(request)
    if (isSkipped(request, path)) return null
    const checked = await decide(new CheckedRequest(dependencies, request, path, cost))
    return checked.isExempt ? null : checked.decision
  }
}
