import type { FastifyRequest } from 'fastify'

/** A host as browsers send it: another text would be more than an address to a shell. */
const HOST = /^(?:[a-z\d.-]+|\[[\da-f:.]+\])(?::\d{1,5})?$/i
const EXAMPLE_HOST = 'app.example.com'

/** Returns the command that makes a request to the app that shows a page, for where the log has none. */
export function curlLine({ host, protocol }: Pick<FastifyRequest, 'host' | 'protocol'>): string {
  const address = `${protocol === 'https' ? 'https' : 'http'}://${HOST.test(host) ? host : EXAMPLE_HOST}/`
  // Shells read brackets as a pattern.
  return `curl -i ${address.includes('[') ? `'${address}'` : address}`
}
