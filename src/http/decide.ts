import type { FastifyRequest } from 'fastify'
import type { Check, Decision } from '../limiter/algorithm.js'
import { after } from './after.js'
import type { ClientAddress } from './client-address.js'
import { addressKey, type ClientKey } from './client-key.js'
import { DENIED_LIMIT, type Limit } from './limits.js'
import type { UserId } from './request-user.js'

/** What became of one request: all that headers, the event log and a refusal need. */
export interface Outcome {
  readonly decision: Decision
  readonly refused: boolean
  readonly limit: Limit
  readonly client: ClientKey
  readonly address: ClientAddress
  readonly user: UserId
  readonly nowMs: number
}

/** The steps of a decision, resolved when the plugin is registered. */
export interface DecideSteps {
  now(): number
  address(request: FastifyRequest): ClientAddress
  user(request: FastifyRequest): UserId | Promise<UserId>
  limit(request: FastifyRequest, path: string, nowMs: number): Limit | Promise<Limit>
  check(check: Check, nowMs: number): Decision | Promise<Decision>
}

/**
 * Asks the limiter about a request; null where the allow list lets it through.
 *
 * @param path as the router sees it
 * @param cost 0 only looks
 */
export type Decide = (request: FastifyRequest, path: string, cost: number) => Outcome | null | Promise<Outcome | null>

const DENIED: Decision = { allowed: false, count: 1, limit: 0, remaining: 0, resetMs: 0, retryAfterMs: null }

/** Nothing in it waits unless a step does: a promise is passed on, any other value is used at once. */
export function createDecide(steps: DecideSteps): Decide {
  function limited(
    request: FastifyRequest,
    path: string,
    cost: number,
    address: ClientAddress,
    user: UserId,
    nowMs: number,
  ): Outcome | Promise<Outcome> {
    return after(steps.limit(request, path, nowMs), (limit) =>
      after(limit.clientKey(request, address, user), (client) =>
        after(steps.check({ key: client.counter, policy: limit.policy, cost }, nowMs), (decision) => {
          const refused = limit.block && !decision.allowed
          return { decision, refused, limit, client, address, user, nowMs }
        }),
      ),
    )
  }

  return function decide(request, path, cost) {
    const nowMs = steps.now()
    const address = steps.address(request)
    if (address.listed === 'allow') return null
    return after(steps.user(request), (user) =>
      address.listed === 'deny' ? denied(address, user, nowMs) : limited(request, path, cost, address, user, nowMs),
    )
  }
}

function denied(address: ClientAddress, user: UserId, nowMs: number): Outcome {
  return { decision: DENIED, refused: true, limit: DENIED_LIMIT, client: addressKey(address), address, user, nowMs }
}
