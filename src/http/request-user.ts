import type { FastifyBaseLogger, FastifyRequest } from 'fastify'
import { type Asked, guard, isThenable } from './guard.js'

/** The authenticated user of a request, as far as limits need to know. */
export interface RateLimitUser {
  readonly id: string | number | bigint
}

export type UserOf = Asked<RateLimitUser | null | undefined>

/** What tells a user apart; null for nobody. */
export type UserId = RateLimitUser['id'] | null

/** Who made a request: what the host's function says, else `request.user`. One that fails is nobody. */
export function createRequestUser(userOf: UserOf | undefined, log: FastifyBaseLogger) {
  const asked: Asked<unknown> = userOf ?? decoratedUser
  const guarded = guard(
    (request: FastifyRequest): UserId | PromiseLike<UserId> => {
      const user = asked(request)
      return isThenable(user) ? user.then(idOf) : idOf(user)
    },
    'user',
    log,
  )
  return function requestUser(request: FastifyRequest): UserId | Promise<UserId> {
    const id = guarded(request)
    return id instanceof Promise ? id.then((answered) => answered ?? null) : (id ?? null)
  }
}

function decoratedUser(request: FastifyRequest): unknown {
  return 'user' in request ? request.user : null
}

function idOf(user: unknown): UserId {
  const id = typeof user === 'object' && user !== null && 'id' in user ? user.id : null
  if (typeof id === 'number') return Number.isFinite(id) ? id : null
  return typeof id === 'string' || typeof id === 'bigint' ? id : null
}

/** The id as the log's integer column takes it; null for any other. */
export function integerUserId(id: UserId): number | null {
  const integer = typeof id === 'bigint' ? Number(id) : id
  return typeof integer === 'number' && Number.isSafeInteger(integer) ? integer : null
}

/** The id as keys and overrides spell it; null for nobody. */
export function userText(id: UserId): string | null {
  return id === null ? null : String(id).trim() || null
}
