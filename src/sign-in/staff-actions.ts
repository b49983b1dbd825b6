import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Internals } from '../internals.js'
import { isFormToken } from './form-token.js'
import { countRefusal } from './own-limits.js'
import { createActionGuard } from './same-site.js'
import { FormTokenError } from './staff-errors.js'
import { requireActor } from './staff-member.js'

/** The field of a form that carries its token; see `client-actions.hbs`. */
const TOKEN_FIELD = 'token'

/** Room for a client, a rate and a note, whatever characters they have. */
const BODY_LIMIT = 8192

/**
 * Makes every route of a scope behind the guard an action: it takes a posted form of a page of this origin, with its
 * token, from staff who are known by name and may write.
 */
export function guardActions(app: FastifyInstance, internals: Internals): void {
  parseStaffForms(app, BODY_LIMIT)
  app.addHook('onRequest', async (request) => {
    actingStaff(request)
  })
  app.addHook('onRequest', createActionGuard(internals))
  app.addHook<{ Body: StaffForm }>('preHandler', async function refuseWrongToken(request, reply: FastifyReply) {
    const token = request.body?.get(TOKEN_FIELD) ?? ''
    if (isFormToken(request, token, actingStaff(request))) return
    await countRefusal(internals, request, reply)
    throw new FormTokenError()
  })
}

/**
 * Returns the name of who does the action of a request: all of them write overrides.
 *
 * @throws ActionDeniedError for a role that may not, and for staff without a name
 */
export function actingStaff(request: FastifyRequest): string {
  return requireActor(request, 'writeOverrides')
}

/** The fields of a posted form; undefined where the request has no body. */
export type StaffForm = URLSearchParams | undefined

/**
 * Adds the parser of forms of the staff pages. The host may parse forms already, into a shape of its choice.
 *
 * @param bodyLimit the most bytes of a form
 */
export function parseStaffForms(app: FastifyInstance, bodyLimit: number): void {
  app.removeAllContentTypeParsers()
  app.addContentTypeParser(
    'application/x-www-form-urlencoded',
    { parseAs: 'string', bodyLimit },
    async (_request: FastifyRequest, body: string) => new URLSearchParams(body),
  )
}
