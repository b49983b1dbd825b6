import type { FastifyRequest } from 'fastify'
import { DAY_MS, MINUTE_MS } from '../../ground/time/clock.js'
import { DEFAULT_LISTING, type Listing } from '../../reports/dashboard-clients.js'
import { lastParameter, requestedFilter, toDays, toFilter } from '../shell/request-query.js'
import { staffRouteName } from '../shell/staff-routes.js'
import { OFFERED_MINUTES } from './format.js'
import { type Back, backFields, backTo, type Following, type KeptView, type View } from './links.js'

/**
 * Returns what the dashboard is asked to show; a parameter that means nothing is as if it were not there.
 *
 * @param hasNetworks whether clients can be grouped by network
 */
export function requestedView(request: FastifyRequest, hasNetworks: boolean): View {
  return {
    days: requestedWindow(request),
    filter: requestedFilter(request),
    listing: toListing((name) => lastParameter(request, name), hasNetworks),
    live: toFollowing(lastParameter(request, 'live')),
  }
}

function toListing(field: (name: string) => string, hasNetworks: boolean): Listing {
  return {
    by: field('by') === 'requests' ? 'requests' : DEFAULT_LISTING.by,
    group: hasNetworks && field('group') === 'network' ? 'network' : DEFAULT_LISTING.group,
  }
}

/** Returns whether the script of an open page asks. */
export function isScript(request: FastifyRequest): boolean {
  return lastParameter(request, 'follow') === '1'
}

/** Returns what leaves the style sheet out for the script of an open page, which has it already; it is a sixth of a page. */
export function withoutStyle(request: FastifyRequest) {
  return isScript(request) ? { style_element: '' } : {}
}

/** Returns whether the page follows, and may show the report that was read for others a moment ago. */
export function isFollowing(request: FastifyRequest): boolean {
  return isScript(request) || lastParameter(request, 'live') === 'on'
}

function requestedWindow(request: FastifyRequest): number {
  return readWindow((name) => lastParameter(request, name))
}

/** What the page of a client is asked to show. */
export interface ClientView {
  readonly days: number
  readonly back: Back
  readonly live: Following
}

/** Returns what the page of a client is asked to show, by the parameters of its address or the fields of its forms. */
export function readClientView(field: (name: string) => string): ClientView {
  return { days: readWindow(field), back: toBack(field('back')), live: toFollowing(field('live')) }
}

/** Reads the dashboard that a page leads back to, as `backFields` spells it; a list that there is not is never shown. */
function toBack(query: string): Back {
  const parameters = new URLSearchParams(query)
  return { ...toFilter(query), listing: toListing((name) => parameters.getAll(name).at(-1) ?? '', true) }
}

/** Returns what the links of a page keep; undefined where its address names no window, no filter and no list. */
export function keptView(request: FastifyRequest): KeptView | undefined {
  const field = (name: string) => lastParameter(request, name)
  const isDashboard = staffRouteName(request) === 'dashboard'
  const back = isDashboard ? backTo(requestedView(request, true)) : toBack(field('back'))
  const hasWindow = field('days') !== '' || field('minutes') !== ''
  return hasWindow || backFields(back).length > 0 ? { days: readWindow(field), back } : undefined
}

/**
 * Returns the window in days: `minutes` is one of those that the pages offer, and goes before `days`; any other number of
 * minutes is none.
 */
function readWindow(field: (name: string) => string): number {
  const minutes = Number(field('minutes').trim())
  return OFFERED_MINUTES.includes(minutes) ? (minutes * MINUTE_MS) / DAY_MS : toDays(field('days'))
}

function toFollowing(text: string): Following {
  return text === 'on' || text === 'off' ? text : undefined
}
