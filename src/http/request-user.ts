import type { FastifyBaseLogger, FastifyRequest } from 'fastify'
import { guard, isThenable, type RequestFunction } from './guard.js'

/** The authenticated user of a request, as far as limits need to know. */
export interface RateLimitUser {
  readonly id: string | number | bigint
}

export type UserOf = RequestFunction<RateLimitUser | null | undefined>

/** What tells a user apart; null for nobody. */
export type UserId = RateLimitUser['id'] | null

/** Who made a request: what the host's function says, else `request.user`. One that fails is nobody. */
export function createRequestUser(userOf: UserOf | undefined, log: FastifyBaseLogger) {
  const asked: RequestFunction<unknown> = userOf ?? decoratedUser
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

export type LateUserWarning = ReturnType<typeof createLateUserWarning>

/** A request that signs a user in gets it late as well; so many of them do not come before a request that has its user in time. */
const LATE_USERS = 3

/**
 * Warns once when requests get their users after their limit by user was counted by address, which nothing else shows.
 * It looks at a request when the next one without a user comes, until the first one has its user in time.
 */
export function createLateUserWarning(userOf: UserOf | undefined, log: FastifyBaseLogger) {
  const asked: RequestFunction<unknown> = userOf ?? decoratedUser
  let isWatching = true
  let lateUsers = 0
  let watched: FastifyRequest | undefined

  function stop(): void {
    isWatching = false
    watched = undefined
  }

  function hasUser(request: FastifyRequest): boolean {
    try {
      const user = asked(request)
      if (!isThenable(user)) return idOf(user) !== null
      // It may be a query, which is not to be made twice for every request.
      stop()
      Promise.resolve(user).catch(() => undefined)
    } catch {
      // The request is over, and what the function needs may be gone.
    }
    return false
  }

  return {
    /** A request has its user when its limit is checked. */
    noteUser(): void {
      if (isWatching) stop()
    },
    /** A request has no user when its limit is checked. */
    noteNoUser(request: FastifyRequest): void {
      if (!isWatching) return
      const previous = watched
      watched = request
      if (previous === undefined || !hasUser(previous) || ++lateUsers < LATE_USERS) return
      stop()
      log.warn(
        "Rate limits by user count users by IP address: requests get their users after their limit was checked. Register the plugin that authenticates before rateLimitPlugin, and set hook: 'preHandler' if it authenticates in a preHandler hook",
      )
    },
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
  const text = id === null ? '' : String(id)
  // Blanks are part of an id: without them it may be another user's.
  return text.trim() === '' ? null : text
}
