import type { FastifyRequest } from 'fastify'
import type { Decision } from '../limiter/algorithm.js'
import { CheckedRequest, decide } from './decide.js'
import type { HookDependencies } from './on-request.js'

/**
 * Asks about a request in code, without headers, event or refusal. Routes that the hook leaves alone may ask too.
 *
 * @returns null where nothing limits the request: a skipped path, or an address of the allow list
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
