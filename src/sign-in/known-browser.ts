/** How a browser proves that an account was signed in from it before: a device cookie, as OWASP calls it. */
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import type { FastifyRequest } from 'fastify'
import { DAY_MS } from '../time/clock.js'
import { createStaffCookie } from './staff-cookie.js'

const COOKIE = createStaffCookie({
  name: 'ratelimit_staff_browser',
  // A random id and the proof.
  value: /[\w-]{22}\.[\w-]{43}/,
  lifeMs: 365 * DAY_MS,
})
const ID_BYTES = 16

/**
 * The id of a browser from which the account was signed in before; undefined for every other one. The cookie opens
 * nothing: it only keeps attempts from this browser apart from those of strangers.
 */
export function findKnownBrowser(request: FastifyRequest, account: string, secret: string): string | undefined {
  return COOKIE.read(request)
    .map((value) => value.split('.', 2))
    .find(([id = '', proof = '']) => timingSafeEqual(Buffer.from(proof), Buffer.from(proofFor(id, account, secret))))
    ?.at(0)
}

/** The `Set-Cookie` header that makes a browser known. */
export function knownBrowserCookie(request: FastifyRequest, path: string, account: string, secret: string): string {
  const id = randomBytes(ID_BYTES).toString('base64url')
  return COOKIE.set(request, path, `${id}.${proofFor(id, account, secret)}`)
}

function proofFor(id: string, account: string, secret: string): string {
  // The same secret signs sessions, of which none begins like this.
  return createHmac('sha256', secret).update(`known browser ${id} ${account}`).digest('base64url')
}
