/** The guard of checks: a token of the role `checker` opens them, or whom the host's `authorize` knows. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { MINUTE_MS, SECOND_MS } from '../../ground/time/clock.js'
import { bearerOf, refuseStranger, refuseToken } from '../api/api-guard.js'
import type { ApiToken, Tokens } from '../api/token-table.js'
import { looksLikeToken } from '../api/token-text.js'
import { CHECKER } from '../shell/roles.js'
import { ActionDeniedError, fromDatabase } from '../shell/staff-errors.js'
import type { Guard } from '../shell/staff-guard.js'
import type { StaffLimits } from '../shell/staff-limits.js'

/** A token is read again after a second: a proxy asks with the same one for each of its requests. */
const FRESH_MS = SECOND_MS
/** The time for which a token opens checks while the database does not answer. */
const STALE_MS = 10 * MINUTE_MS

/** The answer about a request without a token: the role `checker`, alone or with who sent it, or none. */
export type CheckerAnswer =
  | typeof CHECKER
  | { readonly actor?: string; readonly role: typeof CHECKER }
  | false
  | null
  | undefined

/** Returns the role of a request without a token. */
export type AuthorizeCheck = (request: FastifyRequest) => CheckerAnswer | Promise<CheckerAnswer>

export interface CheckGuardOptions {
  /** The tokens; undefined where they are off. */
  readonly tokens: Tokens | undefined
  /** The host's check; undefined without `authorize`. */
  readonly authorize: AuthorizeCheck | undefined
}

/** Creates the guard of checks, which refuses every request without the role. */
export function createCheckGuard(limits: StaffLimits, { tokens, authorize }: CheckGuardOptions): Guard {
  const findToken = tokens && createTokenMemory(tokens)
  let loggedAtMs = Number.NEGATIVE_INFINITY

  return async function checkGuard(request: FastifyRequest, reply: FastifyReply): Promise<void> {
    const bearer = bearerOf(request)
    if (findToken !== undefined && looksLikeToken(bearer)) {
      const late = findToken(bearer, limits.clock.now())
      const token = late instanceof Promise ? await fromDatabase(late) : late
      if (token === undefined) return refuseToken(limits, request, reply)
      if (token.role !== CHECKER) refuseRole(token.role)
      // What rules see is the request of the client, which did not send it.
      request.headers.authorization = undefined
      return
    }
    const answer = await asked(request)
    if (answer === CHECKER || (answer && answer.role === CHECKER)) return
    if (answer) refuseRole(String(Object(answer).role ?? answer))
    return refuseStranger(limits, request, reply)
  }

  async function asked(request: FastifyRequest): Promise<CheckerAnswer> {
    try {
      return await authorize?.(request)
    } catch (error) {
      // Logged once a minute, so that strangers do not decide how much is logged.
      if (Math.abs(limits.clock.now() - loggedAtMs) >= MINUTE_MS) {
        loggedAtMs = limits.clock.now()
        request.log.error({ err: error }, 'authorize of checkPlugin failed: the request is refused')
      }
      return null
    }
  }
}

function refuseRole(role: string): never {
  throw new ActionDeniedError(`The role ${role} may not check requests: this needs the role checker.`)
}

interface KnownToken {
  readonly token: ApiToken
  readonly readMs: number
}

/** Remembers tokens that there are: no others, which strangers make up. */
function createTokenMemory(tokens: Tokens) {
  const memory = new Map<string, KnownToken>()

  async function read(text: string, nowMs: number): Promise<ApiToken | undefined> {
    const known = memory.get(text)
    try {
      const token = await tokens.find(text, nowMs)
      if (token === undefined) memory.delete(text)
      else memory.set(text, { token, readMs: nowMs })
      return token
    } catch (error) {
      if (known === undefined || !isWithin(known, nowMs, STALE_MS)) throw error
      return known.token
    }
  }

  return function findToken(text: string, nowMs: number): ApiToken | undefined | Promise<ApiToken | undefined> {
    const known = memory.get(text)
    return known !== undefined && isWithin(known, nowMs, FRESH_MS) ? known.token : read(text, nowMs)
  }
}

/** Returns whether a token was read within a period, and has not expired since. A clock may be set back. */
function isWithin({ token: { expiresAt }, readMs }: KnownToken, nowMs: number, periodMs: number): boolean {
  return Math.abs(nowMs - readMs) < periodMs && (expiresAt === null || expiresAt > nowMs)
}
