/** The guard of the API: the bearer of a token may use it, or whom the host's `authorize` knows. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { CHECKER } from '../shell/roles.js'
import { createCrossSiteGuard } from '../shell/same-site.js'
import { ActionDeniedError, fromDatabase } from '../shell/staff-errors.js'
import type { FindMember, Guard } from '../shell/staff-guard.js'
import { countFailedToken, countRefusal, type StaffLimits } from '../shell/staff-limits.js'
import { noteMember, type StaffMember } from '../shell/staff-member.js'
import { UnauthorizedError } from './problems.js'
import type { Tokens } from './token-table.js'
import { looksLikeToken } from './token-text.js'

const BEARER = /^Bearer +([^\s]+) *$/i
/** The methods that change nothing, which other sites' pages may make a browser send. */
const SAFE = ['GET', 'HEAD']
/** The actor of those whom the host gives a role, but no name. */
const UNNAMED = 'staff'

export interface ApiGuardOptions {
  /** The tokens; undefined where they are off. */
  readonly tokens: Tokens | undefined
  /** The host's check; undefined without `authorize`. */
  readonly authorize: FindMember | undefined
}

/** Creates the guard of the API, which refuses every request without a role. */
export function createApiGuard(limits: StaffLimits, { tokens, authorize }: ApiGuardOptions): Guard {
  const refuseCrossSite = createCrossSiteGuard(limits)

  return async function apiGuard(request: FastifyRequest, reply: FastifyReply): Promise<void> {
    const bearer = bearerOf(request)
    if (tokens !== undefined && looksLikeToken(bearer)) {
      const token = await fromDatabase(tokens.find(bearer, limits.clock.now()))
      if (token === undefined) return refuseToken(limits, request, reply)
      const { name: actor, role } = token
      if (role === CHECKER) throw new ActionDeniedError('The role checker may only check requests: this needs another.')
      noteMember(request, { actor, role })
      return
    }
    const member = await authorize?.(request)
    if (member === undefined) return refuseStranger(limits, request, reply)
    // A browser may send for a page of another site by what the host knows it.
    if (!SAFE.includes(request.method)) await refuseCrossSite(request, reply)
    noteMember(request, named(member))
  }
}

/** Returns the bearer token of a request; empty without one. */
export function bearerOf({ headers }: FastifyRequest): string {
  const [, bearer = ''] = BEARER.exec(headers.authorization ?? '') ?? []
  return bearer
}

/** Refuses a request whose token opens nothing. */
export async function refuseToken(limits: StaffLimits, request: FastifyRequest, reply: FastifyReply): Promise<never> {
  await countFailedToken(limits, request, reply)
  reply.header('www-authenticate', 'Bearer error="invalid_token"')
  throw new UnauthorizedError('The token is unknown, revoked or expired: create one with "ratelimit token create".')
}

/** Refuses a request that nobody knows. */
export async function refuseStranger(
  limits: StaffLimits,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<never> {
  await (bearerOf(request) === '' ? countRefusal(limits, request, reply) : countFailedToken(limits, request, reply))
  reply.header('www-authenticate', 'Bearer')
  throw new UnauthorizedError('The request has no role: send a token, as Authorization: Bearer fsr_….')
}

function named({ actor, role }: StaffMember): StaffMember {
  return { actor: actor === '' ? UNNAMED : actor, role }
}
