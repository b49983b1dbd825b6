import type { FastifyRequest } from 'fastify'
import { DAY_MS, MINUTE_MS } from '../../ground/time/clock.js'
import { DEFAULT_LISTING, type Listing } from '../../reports/dashboard-clients.js'
import type { ReportWindow } from '../../reports/report-window.js'
import { lastParameter, requestedFilter, toDays, toFilter } from '../shell/request-query.js'
import { staffRouteName } from '../shell/staff-routes.js'
import { OFFERED_MINUTES } from './format.js'
import {
  type Back,
  backFields,
  backTo,
  type Display,
  type Following,
  type KeptView,
  SERIES,
  type View,
} from './links.js'
import { readRange, type TypedRange } from './time-range.js'

/**
 * Returns what the dashboard is asked to show; a parameter that means nothing is as if it were not there.
 *
 * @param hasNetworks whether clients can be grouped by network
 */
export function requestedView(request: FastifyRequest, hasNetworks: boolean, nowMs: number): RequestedView {
  const field = (name: string) => lastParameter(request, name)
  const display = toDisplay(field)
  const listing = toListing(field, hasNetworks)
  return {
    ...readWindow(field, nowMs),
    filter: requestedFilter(request),
    listing: display.onlyRefused ? { ...listing, by: 'refused' } : listing,
    ...display,
    live: toFollowing(field('live')),
  }
}

/** The view that the address of a dashboard asks for, with a range as it was typed. */
export type RequestedView = View & RequestedWindow

/** Reads which series a chart shows, and whether tables have only what was refused. */
function toDisplay(field: (name: string) => string): Display {
  const named = field('show').split(',')
  const show = SERIES.filter((series) => named.includes(series))
  return {
    show: show.length === 0 || show.length === SERIES.length ? undefined : show,
    onlyRefused: field('only') === 'refused',
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

/** The view that the address of a client's page asks for. */
export interface ClientView extends Display, RequestedWindow {
  readonly back: Back
  readonly live: Following
}

/** Returns what the page of a client is asked to show, by the parameters of its address or the fields of its forms. */
export function readClientView(field: (name: string) => string, nowMs: number): ClientView {
  return {
    ...readWindow(field, nowMs),
    ...toDisplay(field),
    back: toBack(field('back')),
    live: toFollowing(field('live')),
  }
}

/** Reads the dashboard that a page leads back to, as `backFields` spells it; a list that there is not is never shown. */
function toBack(query: string): Back {
  const parameters = new URLSearchParams(query)
  return { ...toFilter(query), listing: toListing((name) => parameters.getAll(name).at(-1) ?? '', true) }
}

/** Returns what the links of a page keep; undefined where its address names no window, no filter and no list. */
export function keptView(request: FastifyRequest, nowMs: number): KeptView | undefined {
  const field = (name: string) => lastParameter(request, name)
  const isDashboard = staffRouteName(request) === 'dashboard'
  const back = isDashboard ? backTo(requestedView(request, true, nowMs)) : toBack(field('back'))
  const hasWindow = ['days', 'minutes', 'since'].some((name) => field(name) !== '')
  return hasWindow || backFields(back).length > 0 ? { window: readWindow(field, nowMs).window, back } : undefined
}

/** The window of a page, with a range as it was typed. */
export interface RequestedWindow {
  readonly window: ReportWindow
  readonly typed?: TypedRange | undefined
}

/**
 * Returns the window: a range goes before days, and what is no range is as if it were not there. `minutes` is one of those
 * that the pages offer, and goes before `days`; any other number of minutes is none.
 */
export function readWindow(field: (name: string) => string, nowMs: number): RequestedWindow {
  const { range, typed } = readRange(field, nowMs)
  if (range !== undefined) return { window: range, typed }
  const minutes = Number(field('minutes').trim())
  const isOffered = OFFERED_MINUTES.includes(minutes)
  return { window: { days: isOffered ? (minutes * MINUTE_MS) / DAY_MS : toDays(field('days')) }, typed }
}

function toFollowing(text: string): Following {
  return text === 'on' || text === 'off' ? text : undefined
}
