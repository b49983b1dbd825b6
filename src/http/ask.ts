import type { FastifyRequest } from 'fastify'
import type { Decision } from '../limiter/algorithm.js'
import type { Decide } from './decide.js'

interface AskSteps {
  path(request: FastifyRequest): string
  isSkipped(request: FastifyRequest, path: string): boolean
  readonly decide: Decide
}

/**
 * Asks about a request in code, without headers, event or refusal. Routes that the hook leaves alone may ask too.
 *
 * @returns null where nothing limits the request: a skipped path, or an address of the allow list
 */
export function createAsk({ path, isSkipped, decide }: AskSteps) {
  return async function ask(request: FastifyRequest, cost: number): Promise<Decision | null> {
    const asked = path(request)
    if (isSkipped(request, asked)) return null
    const outcome = await decide(request, asked, cost)
    return outcome?.decision ?? null
  }
}
