import type { FastifyReply, FastifyRequest, HookHandlerDoneFunction } from 'fastify'
import { RateLimitExceededError, StoreUnavailableError } from '../errors.js'
import { type Check, type Decision, retryAfterSeconds } from '../limiter/algorithm.js'
import { after } from './after.js'
import type { ClientAddress } from './client-address.js'
import { addressKey, type ClientKey } from './client-key.js'
import type { Limit } from './limits.js'
import type { UserId } from './request-user.js'

/** What became of one request: all that headers, the event log and a refusal need. */
export interface Outcome {
  readonly decision: Decision
  readonly refused: boolean
  readonly ruleName: string
  readonly client: ClientKey
  readonly address: ClientAddress
  readonly user: UserId
  readonly nowMs: number
}

/** The steps of the hot path, resolved when the plugin is registered. */
export interface OnRequestSteps {
  now(): number
  /** The path as the router sees it. */
  path(url: string): string
  isExempt(request: FastifyRequest, path: string): boolean
  address(request: FastifyRequest): ClientAddress
  user(request: FastifyRequest): UserId | Promise<UserId>
  limit(request: FastifyRequest, path: string, nowMs: number): Limit | Promise<Limit>
  check(check: Check, nowMs: number): Decision | Promise<Decision>
  /** Tells the client. */
  headers(reply: FastifyReply, decision: Decision): void
  /** Notes the event. */
  record(request: FastifyRequest, outcome: Outcome): void
  /** Something that cannot happen did: the request goes on, unlimited. */
  failed(error: unknown): void
}

const DENIED: Decision = { allowed: false, count: 1, limit: 0, remaining: 0, resetMs: 0, retryAfterMs: null }

/** The hook. Nothing in it waits unless a step does: a promise is passed on, any other value is used at once. */
export function createOnRequest(steps: OnRequestSteps) {
  function decide(request: FastifyRequest): Outcome | null | Promise<Outcome | null> {
    const nowMs = steps.now()
    const path = steps.path(request.raw.url ?? '/')
    if (steps.isExempt(request, path)) return null
    const address = steps.address(request)
    if (address.listed === 'allow') return null
    return after(steps.user(request), (user) =>
      address.listed === 'deny' ? denied(address, user, nowMs) : limited(request, path, address, user, nowMs),
    )
  }

  function limited(
    request: FastifyRequest,
    path: string,
    address: ClientAddress,
    user: UserId,
    nowMs: number,
  ): Outcome | Promise<Outcome> {
    return after(steps.limit(request, path, nowMs), ({ policy, block, ruleName, clientKey }) =>
      after(clientKey(request, address, user), (client) =>
        after(steps.check({ key: client.counter, policy, cost: 1 }, nowMs), (decision) => {
          const refused = block && !decision.allowed
          return { decision, refused, ruleName, client, address, user, nowMs }
        }),
      ),
    )
  }

  function settle(
    outcome: Outcome | null,
    request: FastifyRequest,
    reply: FastifyReply,
    done: HookHandlerDoneFunction,
  ) {
    let refused: Error | undefined
    try {
      if (outcome !== null) {
        if (outcome.refused) refused = refusal(reply, outcome.decision)
        steps.headers(reply, outcome.decision)
        steps.record(request, outcome)
      }
    } catch (error) {
      steps.failed(error)
    }
    // Outside: what the rest of the request throws is not this hook's.
    done(refused)
  }

  function failed(error: unknown, done: HookHandlerDoneFunction) {
    steps.failed(error)
    done()
  }

  return function onRequest(request: FastifyRequest, reply: FastifyReply, done: HookHandlerDoneFunction): void {
    let outcome: ReturnType<typeof decide>
    try {
      outcome = decide(request)
    } catch (error) {
      failed(error, done)
      return
    }
    if (outcome instanceof Promise) {
      outcome.then(
        (decided) => settle(decided, request, reply, done),
        (error: unknown) => failed(error, done),
      )
    } else {
      settle(outcome, request, reply, done)
    }
  }
}

function denied(address: ClientAddress, user: UserId, nowMs: number): Outcome {
  return { decision: DENIED, refused: true, ruleName: '', client: addressKey(address), address, user, nowMs }
}

function refusal(reply: FastifyReply, decision: Decision): Error {
  if (decision.unavailable) return new StoreUnavailableError()
  const seconds = retryAfterSeconds(decision)
  if (seconds === null) return new RateLimitExceededError('Rate limit exceeded')
  reply.header('retry-after', seconds)
  return new RateLimitExceededError(`Rate limit exceeded, retry in ${seconds} second${seconds === 1 ? '' : 's'}`)
}
