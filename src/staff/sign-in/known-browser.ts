/** The proof that an account signed in from a browser before: a device cookie, as OWASP calls it. */
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import type { FastifyRequest } from 'fastify'
import { DAY_MS } from '../../ground/time/clock.js'
import { createStaffCookie } from '../shell/staff-cookie.js'

const COOKIE = createStaffCookie({
  name: 'ratelimit_staff_browser',
  // A random id and its signature.
  value: /[\w-]{22}\.[\w-]{43}/,
  lifeMs: 365 * DAY_MS,
})
const ID_BYTES = 16

/**
 * Returns the id of a browser from which the account signed in before; undefined for every other one. The cookie grants
 * no access: it only separates attempts from this browser from those of strangers.
 */
export function findKnownBrowser(request: FastifyRequest, account: string, secret: string): string | undefined {
  return COOKIE.read(request)
    .map((value) => value.split('.', 2))
    .find(([id = '', proof = '']) => timingSafeEqual(Buffer.from(proof), Buffer.from(proofFor(id, account, secret))))
    ?.at(0)
}

/** Returns the `Set-Cookie` header that makes a browser known. */
export function knownBrowserCookie(request: FastifyRequest, path: string, account: string, secret: string): string {
  const id = randomBytes(ID_BYTES).toString('base64url')
  return COOKIE.set(request, path, `${id}.${proofFor(id, account, secret)}`)
}

function proofFor(id: string, account: string, secret: string): string {
  // The secret also signs sessions, whose text never begins like this.
  return createHmac('sha256', secret).update(`known browser ${id} ${account}`).digest('base64url')
}
