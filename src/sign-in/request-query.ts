import type { FastifyRequest } from 'fastify'
import type { ReportFilter } from '../analytics/filter.js'
import { MAX_KEY_LENGTH, MAX_PATH_LENGTH, storable } from '../db/storable.js'
import { MAX_METHOD_LENGTH, MAX_RULE_NAME_LENGTH } from '../events/event.js'

const WHOLE_NUMBER = /^[+-]?[0-9]+$/
const DEFAULT_DAYS = 7
const MAX_DAYS = 365

/**
 * The window a page is asked for: an optional sign and digits, blanks around them trimmed; anything else is 7. What
 * is out of range becomes the nearest of 1 to 365.
 */
export function requestedDays(request: FastifyRequest): number {
  const text = lastParameter(request, 'days').trim()
  const days = WHOLE_NUMBER.test(text) ? Number(text) : DEFAULT_DAYS
  return Math.min(Math.max(days, 1), MAX_DAYS)
}

/** The key a page is asked about, empty when it is missing. */
export function requestedKey(request: FastifyRequest): string {
  return lastParameter(request, 'key')
}

/** What the dashboard is filtered by: each parameter as the log holds it, those that are missing or blank left out. */
export function requestedFilter(request: FastifyRequest): ReportFilter {
  return filterOf(new URLSearchParams(requestedSearch(request)))
}

/** The filter of the dashboard that somebody came from, as `offenderHref` wrote it. */
export function requestedFilterBack(request: FastifyRequest): ReportFilter {
  return filterOf(new URLSearchParams(lastParameter(request, 'back')))
}

function filterOf(parameters: URLSearchParams): ReportFilter {
  const last = (name: string) => (parameters.getAll(name).at(-1) ?? '').trim()
  const stored = (text: string, maxLength: number) => storable(text, maxLength) || undefined
  return {
    rule: stored(last('rule'), MAX_RULE_NAME_LENGTH),
    path: stored(last('path'), MAX_PATH_LENGTH),
    method: stored(last('method').toUpperCase(), MAX_METHOD_LENGTH),
    key: stored(last('key'), MAX_KEY_LENGTH),
  }
}

/** The path of a request, as the browser spells it. */
export function requestedPath(request: FastifyRequest): string {
  return splitUrl(request)[0]
}

/** `?` and the query, or nothing. */
export function requestedSearch(request: FastifyRequest): string {
  return splitUrl(request)[1]
}

// From the URL itself: what `request.query` looks like is the host's choice (`querystringParser`).
function lastParameter(request: FastifyRequest, name: string): string {
  return new URLSearchParams(requestedSearch(request)).getAll(name).at(-1) ?? ''
}

function splitUrl({ url }: FastifyRequest): [path: string, search: string] {
  const [address = ''] = url.split('#')
  const mark = address.indexOf('?')
  return mark === -1 ? [address, ''] : [address.slice(0, mark), address.slice(mark)]
}
