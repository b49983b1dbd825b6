import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Database } from '../../database/database.js'
import { asActor, fromSource, inOneAction } from '../../rules/history/actor.js'
import { findChangeOf } from '../../rules/history/history.js'
import { SESSION_MS } from '../sign-in/sessions.js'
import { decodeBody } from './decoded-body.js'
import { parsePostedForm } from './posted-form.js'
import type { Right } from './roles.js'
import { createActionGuard } from './same-site.js'
import { createStaffCookie, OWN_FOLDER } from './staff-cookie.js'
import { FormTokenError, fromDatabase } from './staff-errors.js'
import { countRefusal, type StaffLimits } from './staff-limits.js'
import { requireActor } from './staff-member.js'

/** The field of a form that carries its token; see `client-quick.hbs`. */
const TOKEN_FIELD = 'token'

/** Room for the longest values of all fields of a form, whatever characters they have. */
const BODY_LIMIT = 65_536

/**
 * Makes every posted form of a scope behind the guard an action: it comes from a page of this origin, with its token, from
 * staff who are known by name and have the right. Requests with other methods are not affected.
 *
 * @param bodyLimit the most bytes of a form
 */
export function guardActions(app: FastifyInstance, limits: StaffLimits, right: Right, bodyLimit = BODY_LIMIT): void {
  const refuseForged = createActionGuard(limits)
  parseStaffForms(app, bodyLimit)
  app.addHook('onRequest', async (request, reply) => {
    if (request.method !== 'POST') return
    requireActor(request, right)
    await refuseForged(request, reply)
  })
  app.addHook<{ Body: StaffForm }>('preHandler', async function refuseWrongToken(request, reply: FastifyReply) {
    if (request.method !== 'POST') return
    const token = request.body?.get(TOKEN_FIELD) ?? ''
    if (isFormToken(request, token, requireActor(request, right))) return
    await countRefusal(limits, request, reply)
    throw new FormTokenError()
  })
}

/** Runs the work of an action, which the history records with the name of who sent the request. */
export function actAs<Result>(request: FastifyRequest, right: Right, work: () => Promise<Result>): Promise<Result> {
  return fromDatabase(asActor(requireActor(request, right), () => fromSource('dashboard', work)))
}

/**
 * Runs the work of an action that changes rules or overrides.
 *
 * @returns the result, and the change that Undo reverts; undefined where nothing was changed
 */
export function changeAs<Result>(
  request: FastifyRequest,
  right: Right,
  database: Database,
  work: () => Promise<Result>,
): Promise<{ readonly result: Result; readonly undo: number | undefined }> {
  const change = async (actionId: string) => ({
    result: await work(),
    undo: (await findChangeOf(database, actionId))?.id,
  })
  return actAs(request, right, () => inOneAction(change))
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
    { parseAs: 'buffer', bodyLimit },
    async (_request: FastifyRequest, body: Buffer) => parsePostedForm(await decodeBody(body)),
  )
}

const COOKIE = createStaffCookie({ name: 'ratelimit_staff_form', value: /[\w-]{43}/, lifeMs: SESSION_MS })
const SECRET_BYTES = 32

/**
 * Returns the token for the forms of a page, and makes the browser keep what it is derived from: a secret, keyed with the
 * actor, that the page of another site cannot read (OWASP's signed double-submit cookie). It needs no state, so that every
 * process of a deployment accepts it.
 */
export function issueFormToken(request: FastifyRequest, reply: FastifyReply, actor: string): string {
  const [secret = randomBytes(SECRET_BYTES).toString('base64url')] = COOKIE.read(request)
  reply.header('set-cookie', COOKIE.set(request, OWN_FOLDER, secret))
  return tokenFor(secret, actor)
}

/** Returns whether a posted token is the one of this browser and actor. */
function isFormToken(request: FastifyRequest, token: string, actor: string): boolean {
  const posted = Buffer.from(token)
  return COOKIE.read(request).some((secret) => {
    const expected = Buffer.from(tokenFor(secret, actor))
    return posted.length === expected.length && timingSafeEqual(posted, expected)
  })
}

function tokenFor(secret: string, actor: string): string {
  return createHmac('sha256', secret).update(`form ${actor}`).digest('base64url')
}
