import type { FastifyRequest } from 'fastify'
import type { ReportFilter } from '../analytics/filter.js'
import { MAX_KEY_LENGTH, MAX_PATH_LENGTH, storable } from '../db/storable.js'
import { MAX_METHOD_LENGTH, MAX_RULE_NAME_LENGTH } from '../events/event.js'

const WHOLE_NUMBER = /^[+-]?[0-9]+$/
export const DEFAULT_DAYS = 7
const MAX_DAYS = 365

/**
 * Returns the requested window in days: an optional sign and digits, trimmed; anything else is 7. A number out of range
 * becomes the nearest of 1 to 365.
 */
export function requestedDays(request: FastifyRequest): number {
  const text = lastParameter(request, 'days').trim()
  const days = WHOLE_NUMBER.test(text) ? Number(text) : DEFAULT_DAYS
  return Math.min(Math.max(days, 1), MAX_DAYS)
}

/** Returns the requested key, empty when it is missing. */
export function requestedKey(request: FastifyRequest): string {
  return lastParameter(request, 'key')
}

/** Returns the filter of the dashboard: each parameter as the log stores it, without missing or blank ones. */
export function requestedFilter(request: FastifyRequest): ReportFilter {
  return toFilter(new URLSearchParams(requestedSearch(request)))
}

/** Returns the filter of the dashboard that linked to the page, as `offenderHref` wrote it. */
export function requestedFilterBack(request: FastifyRequest): ReportFilter {
  return toFilter(new URLSearchParams(lastParameter(request, 'back')))
}

function toFilter(parameters: URLSearchParams): ReportFilter {
  const last = (name: string) => (parameters.getAll(name).at(-1) ?? '').trim()
  const stored = (text: string, maxLength: number) => storable(text, maxLength) || undefined
  return {
    rule: stored(last('rule'), MAX_RULE_NAME_LENGTH),
    path: stored(last('path'), MAX_PATH_LENGTH),
    method: stored(last('method').toUpperCase(), MAX_METHOD_LENGTH),
    key: stored(last('key'), MAX_KEY_LENGTH),
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

// Reads the URL itself, since the shape of `request.query` is the host's choice (`querystringParser`).
function lastParameter(request: FastifyRequest, name: string): string {
  return new URLSearchParams(requestedSearch(request)).getAll(name).at(-1) ?? ''
}

function splitUrl({ url }: FastifyRequest): [path: string, search: string] {
  const [address = ''] = url.split('#')
  const mark = address.indexOf('?')
  return mark === -1 ? [address, ''] : [address.slice(0, mark), address.slice(mark)]
}
