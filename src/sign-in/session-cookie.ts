import fastifyCookie from '@fastify/cookie'
import type { FastifyRequest } from 'fastify'
import { SESSION_MS } from './sessions.js'
import { createStaffCookie } from './staff-cookie.js'

const COOKIE = createStaffCookie({
  name: 'ratelimit_staff',
  // The session's id, the mark of the password, and the signature.
  value: /[\w-]{43}\.[\w-]{16}\.[A-Za-z0-9+/]{43}/,
  lifeMs: SESSION_MS,
})

/** Returns the values of a request's session cookies with a valid signature. */
export function readSessionCookies(request: FastifyRequest, secret: string): string[] {
  return COOKIE.read(request).flatMap((signed) => {
    const { valid, value } = fastifyCookie.unsign(signed, secret)
    return valid ? [value] : []
  })
}

/** Returns the `Set-Cookie` header that sets a session. */
export function sessionCookie(request: FastifyRequest, path: string, held: string, secret: string): string {
  return COOKIE.set(request, path, fastifyCookie.sign(held, secret))
}

/** Returns the `Set-Cookie` header that deletes it. */
export function endedSessionCookie(request: FastifyRequest, path: string): string {
  return COOKIE.end(request, path)
}
