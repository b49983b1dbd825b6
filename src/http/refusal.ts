import type { FastifyReply, FastifyRequest, HookHandlerDoneFunction } from 'fastify'
import { RateLimitExceededError, StoreUnavailableError } from '../errors.js'
import { retryAfterSeconds } from '../limiter/algorithm.js'
import type { Outcome } from './decide.js'

/** RFC 9457. */
const PROBLEM_TYPE = 'application/problem+json'
const ACCEPTS_PROBLEM = /application\/problem\+json(?!\s*;\s*q=0(?:\.0*)?\s*(?:,|$))/i
/** What the draft of the RateLimit fields registers for a limit that is used up. */
const QUOTA_EXCEEDED = 'https://iana.org/assignments/http-problem-types#quota-exceeded'

/**
 * Ends a refused request: 429 with `Retry-After` where waiting helps, or 503 where no store answered.
 *
 * It is thrown, so that the host's error handler may reshape it. Where the host has none, a client that accepts
 * `application/problem+json` is answered in that form.
 */
export function refuse(
  request: FastifyRequest,
  reply: FastifyReply,
  outcome: Outcome,
  done: HookHandlerDoneFunction,
): void {
  const error = refusal(reply, outcome)
  if (!ACCEPTS_PROBLEM.test(request.headers.accept ?? '') || hasErrorHandler(request)) done(error)
  else
    void reply
      .code(error.statusCode ?? 500)
      .type(PROBLEM_TYPE)
      .send(JSON.stringify(problem(error, outcome)))
}

function refusal(reply: FastifyReply, { decision }: Outcome) {
  if (decision.unavailable) return new StoreUnavailableError()
  const seconds = retryAfterSeconds(decision)
  if (seconds === null) return new RateLimitExceededError('Rate limit exceeded')
  reply.header('retry-after', seconds)
  return new RateLimitExceededError(`Rate limit exceeded, retry in ${seconds} second${seconds === 1 ? '' : 's'}`)
}

/** Fastify's own error handler, which knows no problems, is told by its name. */
function hasErrorHandler({ server }: FastifyRequest): boolean {
  return server.errorHandler.name !== 'defaultErrorHandler'
}

function problem(error: ReturnType<typeof refusal>, { decision, limit }: Outcome): object {
  const { statusCode: status, code, message: detail } = error
  if (decision.unavailable) return { type: 'about:blank', title: 'Service Unavailable', status, detail, code }
  return {
    type: QUOTA_EXCEEDED,
    title: 'Too Many Requests',
    status,
    detail,
    code,
    'violated-policies': [limit.policyName],
  }
}
