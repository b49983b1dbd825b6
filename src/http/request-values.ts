/** Reads what the headers of a request say about its client. */
import type { FastifyRequest } from 'fastify'

/** Returns a header's value without surrounding blanks; empty where it is missing. */
export function headerValue(request: FastifyRequest, name: string): string {
  const value = request.headers[name]
  if (typeof value === 'string') return value.trim()
  // For a name such as `constructor` that the client did not send, the headers inherit a value from Object.
  return Array.isArray(value) ? value.join(', ').trim() : ''
}

/**
 * Returns the value of the first cookie with a name; empty where it is missing or blank. It is read as cookie parsers
 * read it, without quotes and percent encoding: otherwise a client would have a counter per spelling of one value.
 */
export function cookieValue({ headers: { cookie = '' } }: FastifyRequest, name: string): string {
  for (let begin = 0; begin < cookie.length; ) {
    const found = cookie.indexOf(';', begin)
    const end = found === -1 ? cookie.length : found
    const value = valueIfNamed(cookie, name, begin, end)
    if (value !== undefined) return value.trim() === '' ? '' : value
    begin = end + 1
  }
  return ''
}

/** Returns the value of the cookie between two places; undefined where it has another name, or none. */
function valueIfNamed(cookie: string, name: string, begin: number, end: number): string | undefined {
  let place = skipBlanks(cookie, begin, end)
  if (!cookie.startsWith(name, place)) return undefined
  place = skipBlanks(cookie, place + name.length, end)
  return place < end && cookie[place] === '=' ? decoded(cookie.slice(place + 1, end).trim()) : undefined
}

function skipBlanks(text: string, begin: number, end: number): number {
  let place = begin
  while (place < end && (text[place] === ' ' || text[place] === '\t')) place++
  return place
}

function decoded(text: string): string {
  const value = text.length > 1 && text.startsWith('"') && text.endsWith('"') ? text.slice(1, -1) : text
  if (!value.includes('%')) return value
  try {
    return decodeURIComponent(value)
  } catch {
    return value
  }
}

/** The pattern that stands for requests that met no route. */
const NO_ROUTE = '404'

/** Returns the pattern of a request's route. `/a` is the same route as `/a/`, as for the limits of routes. */
export function routePattern({ routeOptions: { url } }: FastifyRequest): string {
  if (url === undefined) return NO_ROUTE
  return url.length > 1 && url.endsWith('/') ? url.slice(0, -1) : url
}
