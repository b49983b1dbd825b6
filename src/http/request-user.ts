import type { FastifyBaseLogger, FastifyRequest } from 'fastify'
import { after } from './after.js'
import type { RateLimitUser, UserOf } from './client-key.js'
import { guard } from './limits.js'

/** Who made a request: what the host's function says, else `request.user`; null for nobody. */
export function createRequestUser(userOf: UserOf | undefined, log: FastifyBaseLogger) {
  if (userOf === undefined) return decoratedUser
  const guarded = guard(userOf, 'user', log)
  return function requestUser(request: FastifyRequest): RateLimitUser | null | Promise<RateLimitUser | null> {
    return after(guarded(request), (user) => user ?? null)
  }
}

function decoratedUser(request: FastifyRequest): RateLimitUser | null {
  const user: unknown = 'user' in request ? request.user : null
  return isUser(user) ? user : null
}

function isUser(user: unknown): user is RateLimitUser {
  return typeof user === 'object' && user !== null && 'id' in user
}
