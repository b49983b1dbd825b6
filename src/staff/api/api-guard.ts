/** The guard of the API: the bearer of a token may use it, or whom the host's `authorize` knows. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Internals } from '../../plugin/internals.js'
import { createCrossSiteGuard } from '../shell/same-site.js'
import { fromDatabase } from '../shell/staff-errors.js'
import type { FindMember, Guard } from '../shell/staff-guard.js'
import { countFailedToken, countRefusal } from '../shell/staff-limits.js'
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
export function createApiGuard(internals: Internals, { tokens, authorize }: ApiGuardOptions): Guard {
  const refuseCrossSite = createCrossSiteGuard(internals)

  return async function apiGuard(request: FastifyRequest, reply: FastifyReply): Promise<void> {
    const [, bearer = ''] = BEARER.exec(request.headers.authorization ?? '') ?? []
    if (tokens !== undefined && looksLikeToken(bearer)) {
      const token = await fromDatabase(tokens.find(bearer, internals.clock.now()))
      if (token === undefined) return refuseToken(request, reply)
      noteMember(request, { actor: token.name, role: token.role })
      return
    }
    const member = await authorize?.(request)
    if (member === undefined) return refuseStranger(request, reply, bearer)
    // A browser may send for a page of another site by what the host knows it.
    if (!SAFE.includes(request.method)) await refuseCrossSite(request, reply)
    noteMember(request, named(member))
  }

  async function refuseToken(request: FastifyRequest, reply: FastifyReply): Promise<never> {
    await countFailedToken(internals, request, reply)
    reply.header('www-authenticate', 'Bearer error="invalid_token"')
    throw new UnauthorizedError('The token is unknown, revoked or expired: create one with "ratelimit token create".')
  }

  async function refuseStranger(request: FastifyRequest, reply: FastifyReply, bearer: string): Promise<never> {
    await (bearer === '' ? countRefusal(internals, request, reply) : countFailedToken(internals, request, reply))
    reply.header('www-authenticate', 'Bearer')
    throw new UnauthorizedError('The request has no role: send a token, as Authorization: Bearer fsr_….')
  }
}

function named({ actor, role }: StaffMember): StaffMember {
  return { actor: actor === '' ? UNNAMED : actor, role }
}
