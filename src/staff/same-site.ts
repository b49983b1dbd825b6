import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Internals } from '../internals.js'
import { countRefusal } from './own-limits.js'
import { CrossSiteError } from './staff-errors.js'

/**
 * The hook that refuses a form which another site sent. Browsers say so in `Sec-Fetch-Site`, over plain http in `Origin`; what sends
 * neither is no browser, and nobody can make it send a form.
 */
export function createCrossSiteGuard(internals: Internals) {
  return createGuard(internals, ({ headers, host }) => {
    const { origin, 'sec-fetch-site': site } = headers
    if (site !== undefined) return site === 'same-origin' || site === 'none'
    return origin === undefined || isOf(host, origin)
  })
}

/**
 * The hook for what may change something by GET too, which a link on any page can cause: a request has to prove that a
 * page of this origin sent it. Browsers say so in `Sec-Fetch-Site`; over plain http they do not, and `Origin` or `Referer`
 * has to name this host.
 */
export function createSameOriginGuard(internals: Internals) {
  return createGuard(internals, ({ headers, host }) => {
    const { origin, referer, 'sec-fetch-site': site } = headers
    if (site !== undefined) return site === 'same-origin'
    return isOf(host, origin ?? referer ?? '')
  })
}

function createGuard(internals: Internals, isFromHere: (request: FastifyRequest) => boolean) {
  return async function refuseCrossSite(request: FastifyRequest, reply: FastifyReply): Promise<void> {
    if (isFromHere(request)) return
    await countRefusal(internals, request, reply)
    const { origin, referer, 'sec-fetch-site': site } = request.headers
    request.log.warn(
      { site, sender: hostOf(origin ?? referer ?? ''), host: request.host },
      'Something that staff may change was sent from another site. If it was not, let the proxy pass on the Host header',
    )
    throw new CrossSiteError()
  }
}

/** Whether an address is one of a host, which may name the default port too, as some proxies do. */
function isOf(host: string, address: string): boolean {
  if (!URL.canParse(address)) return false
  const url = new URL(address)
  return url.host === hostOf(`${url.protocol}//${host}`)
}

function hostOf(address: string): string | undefined {
  return URL.canParse(address) ? new URL(address).host : undefined
}
