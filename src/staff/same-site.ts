import type { FastifyRequest } from 'fastify'
import { CrossSiteError } from './staff-errors.js'

/**
 * Refuses a form that another site sent. Browsers say so in `Sec-Fetch-Site`, over plain http in `Origin`; what sends
 * neither is no browser, and nobody can make it send a form.
 *
 * @throws CrossSiteError
 */
export async function refuseCrossSite(request: FastifyRequest): Promise<void> {
  const site = request.headers['sec-fetch-site']
  if (site === 'same-origin' || site === 'none') return
  const { origin } = request.headers
  if (site === undefined && (origin === undefined || hostOf(origin) === request.host)) return
  request.log.warn(
    { site, origin, host: request.host },
    'A staff form came from another site. If it did not, let the proxy pass on the Host header',
  )
  throw new CrossSiteError()
}

function hostOf(origin: string): string | undefined {
  return URL.canParse(origin) ? new URL(origin).host : undefined
}
