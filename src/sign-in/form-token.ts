/**
 * The token of a form: a secret of the browser, keyed with the actor, that the page of another site cannot read (OWASP's
 * signed double-submit cookie). It needs no state, so that every process of a deployment accepts it.
 */
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { SESSION_MS } from './sessions.js'
import { createStaffCookie, OWN_FOLDER } from './staff-cookie.js'

const COOKIE = createStaffCookie({ name: 'ratelimit_staff_form', value: /[\w-]{43}/, lifeMs: SESSION_MS })
const SECRET_BYTES = 32

/** Returns the token for the forms of a page, and makes the browser keep what it is derived from. */
export function issueFormToken(request: FastifyRequest, reply: FastifyReply, actor: string): string {
  const [secret = randomBytes(SECRET_BYTES).toString('base64url')] = COOKIE.read(request)
  reply.header('set-cookie', COOKIE.set(request, OWN_FOLDER, secret))
  return tokenFor(secret, actor)
}

/** Returns whether a posted token is the one of this browser and actor. */
export function isFormToken(request: FastifyRequest, token: string, actor: string): boolean {
  const posted = Buffer.from(token)
  return COOKIE.read(request).some((secret) => {
    const expected = Buffer.from(tokenFor(secret, actor))
    return posted.length === expected.length && timingSafeEqual(posted, expected)
  })
}

function tokenFor(secret: string, actor: string): string {
  return createHmac('sha256', secret).update(`form ${actor}`).digest('base64url')
}
