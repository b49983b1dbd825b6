import type { FastifyReply, FastifyRequest } from 'fastify'
import { CrossSiteError } from './staff-errors.js'
import { countRefusal, type StaffLimits } from './staff-limits.js'

/**
 * The header that the script of a page sends with its requests. No image, link, frame or form can send it, and a script
 * of another origin only where CORS allows it.
 */
const SCRIPT_HEADER = 'x-rate-limit-panel'

/** Creates the hook that refuses forms sent by another site. */
export function createCrossSiteGuard(limits: StaffLimits) {
  return createForgeryGuard(limits, (request) => request.headers['sec-fetch-site'] === 'none' || isSameOrigin(request))
}

/**
 * Creates the hook that refuses an action unless the request says that it comes from this origin: those that say
 * nothing are refused too.
 */
export function createActionGuard(limits: StaffLimits) {
  return createForgeryGuard(limits, (request) => {
    const { origin, 'sec-fetch-site': site } = request.headers
    return (site ?? origin) !== undefined && isSameOrigin(request)
  })
}

/** Creates the hook that refuses every request not sent by a script of this origin. */
export function createScriptGuard(limits: StaffLimits) {
  return createForgeryGuard(limits, (request) => SCRIPT_HEADER in request.headers && isSameOrigin(request))
}

/**
 * Returns whether a request comes from this origin. Browsers send `Sec-Fetch-Site`; over plain http they do not, but
 * send `Origin` with every posted form and with a script's request to another origin. It has to equal the requested
 * origin, including the scheme.
 */
function isSameOrigin({ headers, protocol, host }: FastifyRequest): boolean {
  const { origin, 'sec-fetch-site': site } = headers
  if (site !== undefined) return site === 'same-origin'
  if (origin === undefined) return true
  const requestedOrigin = originFrom(`${protocol}://${host}`)
  return requestedOrigin !== undefined && requestedOrigin === originFrom(origin)
}

function createForgeryGuard(limits: StaffLimits, isFromHere: (request: FastifyRequest) => boolean) {
  return async function refuseForged(request: FastifyRequest, reply: FastifyReply): Promise<void> {
    if (isFromHere(request)) return
    await countRefusal(limits, request, reply)
    const { protocol, host, headers } = request
    const { origin, 'sec-fetch-site': site } = headers
    request.log.warn(
      { site, sender: originFrom(origin ?? ''), own: originFrom(`${protocol}://${host}`) },
      'A staff action was refused, since the request did not come from a page of this site. If it did, let the proxy pass on the Host header, and trust the proxy (trustProxy), so that https is recognized',
    )
    throw new CrossSiteError()
  }
}

/** Returns scheme, host and port, without a default port, as browsers send them; undefined for an invalid address. */
function originFrom(address: string): string | undefined {
  return URL.canParse(address) ? new URL(address).origin : undefined
}
