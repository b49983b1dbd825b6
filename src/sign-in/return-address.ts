/** The address that a sign-in leads to: the page that was requested. Everything a form says about it is hostile. */
import type { FastifyRequest } from 'fastify'
import { requestedPath, requestedSearch } from './request-query.js'

/** Longer than any address of these pages. */
const MAX_LENGTH = 4_000
/** Any mount: addresses are relative to it, so that they are right behind a proxy that rewrites paths. */
const MOUNT = { href: 'http://host/mount/', origin: 'http://host', path: '/mount/' }

/**
 * Returns the requested address relative to the pages, for a form that of its page; empty for their first page.
 *
 * @param mount with a slash at its end
 */
export function addressBelow(mount: string, request: FastifyRequest): string {
  if (request.method === 'POST') return refererBelow(mount, request)
  const path = requestedPath(request)
  const page = path.startsWith(mount) ? path.slice(mount.length) : ''
  const address = page + requestedSearch(request)
  return address.length <= MAX_LENGTH ? address : ''
}

/** Returns the page whose form was sent: there is no page at the address of an action. */
function refererBelow(mount: string, { headers: { referer = '' } }: FastifyRequest): string {
  if (referer.length > MAX_LENGTH || !URL.canParse(referer)) return ''
  const { pathname, search } = new URL(referer)
  return pathname.startsWith(mount) ? pathname.slice(mount.length) + search : ''
}

/** Returns the address to redirect to, relative to the sign-in: `./` for one that is not below the same mount. */
export function returnAddress(given: string): string {
  const address = `./${given}`
  if (given.length > MAX_LENGTH || !URL.canParse(address, MOUNT.href)) return './'
  const { origin, pathname, search } = new URL(address, MOUNT.href)
  const isBelow = origin === MOUNT.origin && pathname.startsWith(MOUNT.path)
  return isBelow ? `./${pathname.slice(MOUNT.path.length)}${search}` : './'
}
