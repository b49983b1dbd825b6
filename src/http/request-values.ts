/** Reads what the headers of a request say about its client. */
import type { FastifyRequest } from 'fastify'
import ipaddr from 'ipaddr.js'

/** The headers that begin with a scheme, which is read in any case, with any blanks behind it. */
const WITH_SCHEME: readonly string[] = ['authorization', 'proxy-authorization']

/** Returns a header's value without surrounding blanks; empty where it is missing. */
export function headerValue(request: FastifyRequest, name: string): string {
  const value = request.headers[name]
  if (typeof value === 'string') {
    const trimmed = value.trim()
    if (!WITH_SCHEME.includes(name)) return trimmed
    return trimmed.replace(/^(\S+)\s+/, (_, scheme: string) => `${scheme.toLowerCase()} `)
  }
  // The headers inherit a value from Object for a name such as `constructor` that the client did not send.
  return Array.isArray(value) ? value.join(', ').trim() : ''
}

/**
 * Returns the value of a cookie; empty where it is missing or blank. It is what the host has parsed before. Otherwise it
 * is the first cookie with the name, without what parsers leave out or decode; and none where they do not agree. No two
 * texts that a parser reads alike have different values: a client would have a counter for each of them.
 */
export function cookieValue(request: FastifyRequest, name: string): string {
  const parsed: unknown = 'cookies' in request ? request.cookies : null
  if (typeof parsed === 'object' && parsed !== null) {
    const value: unknown = Object.hasOwn(parsed, name) ? Reflect.get(parsed, name) : ''
    return typeof value === 'string' && value.trim() !== '' ? value : ''
  }
  const { cookie = '' } = request.headers
  for (let begin = 0; begin < cookie.length; ) {
    const found = cookie.indexOf(';', begin)
    const end = found === -1 ? cookie.length : found
    const value = valueIfNamed(cookie, name, begin, end)
    if (value !== undefined) return value
    begin = end + 1
  }
  return ''
}

/** Returns the value of the cookie between two places; undefined where it has another name, or none. */
function valueIfNamed(cookie: string, name: string, begin: number, end: number): string | undefined {
  const place = skipBlanks(cookie, begin, end)
  if (!cookie.startsWith(name, place)) return undefined
  const equals = skipBlanks(cookie, place + name.length, end)
  if (equals === end || cookie[equals] !== '=') return undefined
  // A no-break space belongs to the name for some parsers only.
  if (cookie.slice(begin, equals).includes('\u00a0')) return ''
  const text = cookie.slice(equals + 1, end).trim()
  // Some parsers drop the last character behind a quote, whatever it is.
  if (text.startsWith('"') && (text.length === 1 || !text.endsWith('"'))) return ''
  return bareText(decoded(bareText(text)))
}

function skipBlanks(text: string, begin: number, end: number): number {
  let place = begin
  while (place < end && isBlank(text.charAt(place))) place++
  return place
}

function isBlank(character: string): boolean {
  return character.trim() === ''
}

/** Returns a text without the blanks and quotes around it. */
function bareText(text: string): string {
  const isAround = (place: number) => text[place] === '"' || isBlank(text.charAt(place))
  let begin = 0
  let end = text.length
  while (begin < end && isAround(begin)) begin++
  while (end > begin && isAround(end - 1)) end--
  return text.slice(begin, end)
}

function decoded(text: string): string {
  if (!text.includes('%')) return text
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

/** Returns a host in its usual spelling: in lower case, without the dot of the root, IPv6 in its short form. */
export function hostName(host: string): string {
  const name = host.toLowerCase().replace(/\.$/, '')
  const address = name.startsWith('[') ? name.slice(1, -1) : ''
  return ipaddr.IPv6.isValid(address) ? `[${ipaddr.IPv6.parse(address).toString()}]` : name
}

/** The pattern that stands for requests that met no route. */
const NO_ROUTE = '404'

/** Returns the pattern of a request's route. `/a` is the same route as `/a/`, as for the limits of routes. */
export function routePattern({ routeOptions: { url } }: FastifyRequest): string {
  if (url === undefined) return NO_ROUTE
  return url.length > 1 && url.endsWith('/') ? url.slice(0, -1) : url
}
