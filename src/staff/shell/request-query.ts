import type { FastifyRequest } from 'fastify'
import { MAX_KEY_LENGTH, MAX_PATH_LENGTH, storable } from '../../ground/storable.js'
import { MAX_METHOD_LENGTH, MAX_RULE_NAME_LENGTH } from '../../log/event.js'
import type { ReportFilter } from '../../reports/filter.js'

const WHOLE_NUMBER = /^[+-]?[0-9]+$/
export const DEFAULT_DAYS = 7
const MAX_DAYS = 365

/**
 * Returns the requested window in days: an optional sign and digits, trimmed; anything else is 7. A number out of range
 * becomes the nearest of 1 to 365.
 */
export function requestedDays(request: FastifyRequest): number {
  return toDays(lastParameter(request, 'days'))
}

/** Reads a window in days, as `requestedDays` does. */
export function toDays(value: string): number {
  const text = value.trim()
  const days = WHOLE_NUMBER.test(text) ? Number(text) : DEFAULT_DAYS
  return Math.min(Math.max(days, 1), MAX_DAYS)
}

/** Returns the requested key, empty when it is missing. */
export function requestedKey(request: FastifyRequest): string {
  return lastParameter(request, 'key')
}

/** Returns the requested client, empty when it is missing. */
export function requestedClient(request: FastifyRequest): string {
  return lastParameter(request, 'client')
}

/** Returns the text that is searched for. */
export function requestedSearchText(request: FastifyRequest): string {
  return lastParameter(request, 'q').trim()
}

/** The fields of the form that explains a request. */
export interface RequestedTrial {
  readonly method: string
  /** The path, with or without a query; empty when it is missing. */
  readonly path: string
  readonly ip: string
  readonly user: string
  /** Lines such as `org: acme`. */
  readonly fields: string
  /** Lines such as `x-api-key: abc`. */
  readonly headers: string
}

/** Returns the request that is to be explained, without validation. */
export function requestedTrial(request: FastifyRequest): RequestedTrial {
  const field = (name: string) => lastParameter(request, name).trim()
  return {
    method: field('method').toUpperCase() || 'GET',
    path: field('path'),
    ip: field('ip'),
    user: field('user'),
    fields: field('fields'),
    headers: field('headers'),
  }
}

/** Returns the filter of the dashboard: each parameter as the log stores it, without missing or blank ones. */
export function requestedFilter(request: FastifyRequest): ReportFilter {
  return toFilter(requestedSearch(request))
}

/** Reads a filter from the query of an address. */
export function toFilter(query: string): ReportFilter {
  const parameters = new URLSearchParams(query)
  const last = (name: string) => (parameters.getAll(name).at(-1) ?? '').trim()
  const stored = (text: string, maxLength: number) => storable(text, maxLength) || undefined
  return {
    rule: stored(last('rule'), MAX_RULE_NAME_LENGTH),
    path: stored(last('path'), MAX_PATH_LENGTH),
    method: stored(last('method').toUpperCase(), MAX_METHOD_LENGTH),
    // A client in any spelling, or a key of the log.
    key: stored(last('client') || last('key'), MAX_KEY_LENGTH),
  }
}

/** Returns the path of a request, as the browser spells it. */
export function requestedPath(request: FastifyRequest): string {
  return splitUrl(request)[0]
}

/** Returns `?` and the query, or an empty text. */
export function requestedSearch(request: FastifyRequest): string {
  return splitUrl(request)[1]
}

/** Reads the URL itself, since the shape of `request.query` is the host's choice (`querystringParser`). */
export function lastParameter(request: FastifyRequest, name: string): string {
  return new URLSearchParams(requestedSearch(request)).getAll(name).at(-1) ?? ''
}

function splitUrl({ url }: FastifyRequest): [path: string, search: string] {
  const [address = ''] = url.split('#')
  const mark = address.indexOf('?')
  return mark === -1 ? [address, ''] : [address.slice(0, mark), address.slice(mark)]
}

/** The length is more than that of any address of these pages. */
const MAX_LENGTH = 4_000
/**
 * The mount stands for any: addresses are relative to it, so that they are right behind a proxy that rewrites paths.
 */
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
export function returnAddress(requested: string): string {
  const address = `./${requested}`
  if (requested.length > MAX_LENGTH || !URL.canParse(address, MOUNT.href)) return './'
  const { origin, pathname, search } = new URL(address, MOUNT.href)
  const isBelow = origin === MOUNT.origin && pathname.startsWith(MOUNT.path)
  return isBelow ? `./${pathname.slice(MOUNT.path.length)}${search}` : './'
}
