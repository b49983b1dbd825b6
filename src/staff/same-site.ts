import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Internals } from '../internals.js'
import { countRefusal } from './own-limits.js'
import { CrossSiteError } from './staff-errors.js'

/**
 * The hook that refuses a form which another site sent. Browsers say so in `Sec-Fetch-Site`, over plain http in `Origin`; what sends
 * neither is no browser, and nobody can make it send a form.
 */
export function createCrossSiteGuard(internals: Internals) {
  return async function refuseCrossSite(request: FastifyRequest, reply: FastifyReply): Promise<void> {
    const { origin, 'sec-fetch-site': site } = request.headers
    if (site === 'same-origin' || site === 'none') return
    if (site === undefined && (origin === undefined || hostOf(origin) === request.host)) return
    await countRefusal(internals, request, reply)
    request.log.warn(
      { site, origin, host: request.host },
      'A staff form came from another site. If it did not, let the proxy pass on the Host header',
    )
    throw new CrossSiteError()
  }
}

function hostOf(origin: string): string | undefined {
  return URL.canParse(origin) ? new URL(origin).host : undefined
}
