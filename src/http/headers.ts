import type { FastifyReply } from 'fastify'
import { SECOND_MS } from '../clock.js'
import type { Decision } from '../limiter/algorithm.js'

export const HEADER_VARIANTS = ['legacy', 'none'] as const
export type HeaderVariant = (typeof HEADER_VARIANTS)[number]

/** Tells the client where it stands: `X-RateLimit-Limit`, `-Remaining` and `-Reset` (whole seconds, rounded up). */
export function setRateLimitHeaders(reply: FastifyReply, decision: Decision): void {
  reply.header('x-ratelimit-limit', decision.limit)
  reply.header('x-ratelimit-remaining', decision.remaining)
  reply.header('x-ratelimit-reset', Math.ceil(decision.resetMs / SECOND_MS))
}
