import type { FastifyBaseLogger, FastifyRequest } from 'fastify'
import { readHostField } from '../rules/conditions/values.js'
import type { UserId } from './checked-request.js'
import { isThenable, type RequestFunction, tolerate } from './host-function.js'
import { REPLY, type RequestWithReply } from './request-reply.js'
import { hasEnded } from './response-events.js'

/** The authenticated user of a request, as far as limits need it. */
export interface RateLimitUser {
  /** The id, or an object with a spelling of its own: MongoDB's ObjectId, a UUID. */
  readonly id: string | number | bigint | { toHexString(): string }
}

/** Returns the user of a request, or the user's id alone; null or undefined without a user. */
export type UserFunction = RequestFunction<RateLimitUser | RateLimitUser['id'] | null | undefined>

/** The user of a request: the id, and the object with all its fields. */
export interface WithUser {
  readonly request: FastifyRequest
  user: UserId
  userFields: object | null
}

/**
 * Creates the function that finds a request's user, by the host's function, else in `request.user`, and notes it; there
 * is none where that fails.
 */
export function createRequestUser(findUser: UserFunction | undefined, log: FastifyBaseLogger) {
  const userFor: RequestFunction<unknown> = findUser ?? decoratedUser
  return tolerate(
    (checked: WithUser): undefined | PromiseLike<undefined> => {
      const user = userFor(checked.request)
      return isThenable(user) ? user.then((answered) => noteUser(checked, answered)) : noteUser(checked, user)
    },
    'user',
    log,
  )
}

/** Notes what a host answered as the user. Conditions have the fields also where the spelling of the id fails. */
export function noteUser(checked: WithUser, user: unknown): undefined {
  checked.userFields = typeof user === 'object' ? user : null
  checked.user = toUserId(user)
}

export type LateUserWarning = ReturnType<typeof createLateUserWarning>

/** The number of late users that makes a warning. A sign-in gets its user late too, but fewer of them come in a row. */
const LATE_USERS = 3

/** The number of requests that may come before the one that is watched has ended: a stream may never do. */
const MAX_PASSED = 1_000

/**
 * Creates the check that warns once when requests get their users after limits, conditions or overrides needed them. It
 * watches one request without a user at a time, and examines it with later ones, until one has its user in time.
 */
export function createLateUserWarning(findUser: UserFunction | undefined, log: FastifyBaseLogger) {
  const userFor: RequestFunction<unknown> = findUser ?? decoratedUser
  let isWatching = true
  let lateUsers = 0
  let watched: RequestWithReply | undefined
  let passed = 0

  function stop(): void {
    isWatching = false
    watched = undefined
  }

  /** An object without an id is one too: of a token, say, whose user is its `sub`. */
  function hasUser(request: FastifyRequest): boolean {
    try {
      const user = userFor(request)
      if (!isThenable(user)) return toUserId(user) !== null || (typeof user === 'object' && user !== null)
      // The answer may be a query, which must not run twice for every request.
      stop()
      Promise.resolve(user).catch(() => undefined)
    } catch {
      // The request is over, and the function may lack what it needs.
    }
    return false
  }

  function watch(request: FastifyRequest): void {
    if (watched !== undefined) {
      if (hasUser(watched)) lateUsers++
      else if (isWatching && !hasEnded(watched, watched[REPLY] ?? undefined) && ++passed < MAX_PASSED) return
    }
    watched = request
    passed = 0
    if (lateUsers < LATE_USERS) return
    stop()
    log.warn(
      "Rate limits by user count users by IP address, and conditions and overrides do not see them: requests get their users after their limit was checked. Register the plugin that authenticates before rateLimitPlugin, and set hook: 'preHandler' if it authenticates in a preHandler hook",
    )
  }

  return {
    /** Records whether a request has its user when a condition or an override needs it. */
    noteNeed({ request, user, userFields }: WithUser): undefined {
      if (!isWatching) return
      if (user === null && userFields === null) watch(request)
      else stop()
    },
    /** Returns the id that a request has when its limit by user is checked, and records whether there is one. */
    idOf({ request, user, userFields }: WithUser): string | null {
      const id = userText(user)
      if (!isWatching) return id
      if (id !== null) stop()
      else if (userFields === null) watch(request)
      else {
        stop()
        log.warn(
          'Rate limits by user count users by IP address: the user has no "id". Let the option "user" return one, such as user: (request) => request.user?.sub',
        )
      }
      return id
    },
  }
}

function decoratedUser(request: FastifyRequest): unknown {
  return 'user' in request ? request.user : null
}

function toUserId(user: unknown): UserId {
  const id = typeof user === 'object' && user !== null && !isObjectId(user) ? 'id' in user && user.id : user
  if (typeof id === 'number') return Number.isFinite(id) ? id : null
  if (typeof id === 'object' && id !== null) return objectText(id)
  return typeof id === 'string' || typeof id === 'bigint' ? id : null
}

/** Returns whether an object is an id of MongoDB, which has a field `id` with its bytes. */
function isObjectId(object: object): object is { toHexString(): unknown } {
  return 'toHexString' in object && typeof object.toHexString === 'function'
}

/** Returns the text of an object that is an id; null for one that spells its content, or nothing. */
function objectText(id: object): string | null {
  if (isObjectId(id)) {
    const text = id.toHexString()
    return typeof text === 'string' ? text : null
  }
  const spell: unknown = id.toString
  const isPlain = typeof spell !== 'function' || spell === Object.prototype.toString
  const isContent = Array.isArray(id) || ArrayBuffer.isView(id) || id instanceof Date
  return isPlain || isContent ? null : String(id)
}

/** Returns an id that fits the log's integer column; null for any other. */
export function integerUserId(id: UserId): number | null {
  const integer = typeof id === 'bigint' ? Number(id) : id
  return typeof integer === 'number' && Number.isSafeInteger(integer) ? integer : null
}

/**
 * Returns a field of the user that a host answered, as keys spell it: a text, or an integer; null where that is missing,
 * and for all other values.
 */
export function userFieldText(user: object | null, name: string): string | null {
  const value = user === null ? undefined : readGuarded(user, name)
  const isInteger = typeof value === 'bigint' || (typeof value === 'number' && Number.isInteger(value))
  const text = typeof value === 'string' || isInteger ? String(value) : ''
  return text === '' ? null : text
}

/** A field may be a getter of the host's, which may fail. */
function readGuarded(user: object, name: string): unknown {
  try {
    return readHostField(user, name)
  } catch {
    return undefined
  }
}

/** Returns the id as keys and overrides spell it; null without a user. */
export function userText(id: UserId): string | null {
  const text = id === null ? '' : String(id)
  // Blanks are part of an id: trimmed, it may be another user's.
  return text.trim() === '' ? null : text
}
