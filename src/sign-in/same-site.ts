import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Internals } from '../internals.js'
import { countRefusal } from './own-limits.js'
import { CrossSiteError } from './staff-errors.js'

/**
 * The header by which the script of a page says that it sent a request. No image, link, frame or form can send it,
 * wherever it is, and a script of another origin only where CORS lets it.
 */
const SCRIPT_HEADER = 'x-rate-limit-panel'

/** The hook that refuses a form which another site sent. */
export function createCrossSiteGuard(internals: Internals) {
  return createGuard(internals, (request) => request.headers['sec-fetch-site'] === 'none' || isSameOrigin(request))
}

/** The hook that refuses everything but what a script of this origin sent. */
export function createScriptGuard(internals: Internals) {
  return createGuard(internals, (request) => SCRIPT_HEADER in request.headers && isSameOrigin(request))
}

/**
 * Browsers say where a request comes from in `Sec-Fetch-Site`. Over plain http they do not, but send `Origin` with every form
 * that is posted and with what a script sends to another origin. It has to be the one that was asked, its scheme included.
 */
function isSameOrigin({ headers, protocol, host }: FastifyRequest): boolean {
  const { origin, 'sec-fetch-site': site } = headers
  if (site !== undefined) return site === 'same-origin'
  if (origin === undefined) return true
  const own = originFrom(`${protocol}://${host}`)
  return own !== undefined && own === originFrom(origin)
}

function createGuard(internals: Internals, isFromHere: (request: FastifyRequest) => boolean) {
  return async function refuseForged(request: FastifyRequest, reply: FastifyReply): Promise<void> {
    if (isFromHere(request)) return
    await countRefusal(internals, request, reply)
    const { protocol, host, headers } = request
    const { origin, 'sec-fetch-site': site } = headers
    request.log.warn(
      { site, sender: originFrom(origin ?? ''), own: originFrom(`${protocol}://${host}`) },
      'A request for what only staff can do was not sent by the page for it. If it was, let the proxy pass on the Host header, and trust it (trustProxy) to tell http from https',
    )
    throw new CrossSiteError()
  }
}

/** Scheme, host and port, the default port left out as browsers do; undefined for what is no address. */
function originFrom(address: string): string | undefined {
  return URL.canParse(address) ? new URL(address).origin : undefined
}
