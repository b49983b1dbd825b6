import type { FastifyReply } from 'fastify'
import type { Decision } from '../limiter/algorithm.js'

export const HEADER_VARIANTS = ['legacy', 'none'] as const
export type HeaderVariant = (typeof HEADER_VARIANTS)[number]

/** Tells the client where it stands: `X-RateLimit-Limit`, `-Remaining` and `-Reset` (whole seconds, rounded up). */
export function setRateLimitHeaders(reply: FastifyReply, decision: Decision): void {
  reply.header('x-ratelimit-limit', decision.limit)
  reply.header('x-ratelimit-remaining', decision.remaining)
  reply.header('x-ratelimit-reset', Math.ceil(decision.resetMs / 1000))
}

/** The true wait in whole seconds, rounded up, at least 1; null where waiting does not help. */
export function retryAfterSeconds({ retryAfterMs }: Decision): number | null {
  return retryAfterMs === null ? null : Math.max(1, Math.ceil(retryAfterMs / 1000))
}
