import { SECOND_MS } from '../../ground/time/clock.js'
import { DEFAULT_LISTING, type Listing } from '../../reports/dashboard-clients.js'
import type { ReportFilter } from '../../reports/filter.js'
import type { ReportWindow } from '../../reports/report-window.js'
import { windowFields } from './format.js'
import { spellHeaders, spellUserFields, trialFor } from './trials.js'

// All links are relative, so that the pages also work behind a proxy that rewrites paths.

/** The parameters of a filter, by the names that `requestedFilter` reads. */
const FILTER_NAMES = ['rule', 'path', 'method', 'key'] as const

export type FilterName = (typeof FILTER_NAMES)[number]

/** Whether a page follows what happens: by its script unless it is off, and by itself where it is on. */
export type Following = 'on' | 'off' | undefined

/** The series of a chart, as addresses spell them. */
export const SERIES = ['over_limit', 'would_be', 'denied', 'allowed'] as const

export type Series = (typeof SERIES)[number]

/** The parts of its report that a page shows. */
export interface Display {
  /** The series of the chart; undefined for all of them, or all refusals. */
  readonly show?: readonly Series[] | undefined
  /** Whether tables list only refusals, the most first. */
  readonly onlyRefused?: boolean | undefined
}

/** The view of a dashboard, as its address says. */
export interface View extends Display {
  readonly window: ReportWindow
  readonly filter: ReportFilter
  readonly listing: Listing
  readonly live: Following
}

/** Returns the fields of a filter that are set, in the order of the page. */
export function filterEntries(filter: ReportFilter): [name: FilterName, value: string][] {
  return FILTER_NAMES.flatMap((name): [FilterName, string][] => {
    const value = filter[name]
    return value === undefined ? [] : [[name, value]]
  })
}

/** Returns the parameters of a view but its window and its filter. */
export function viewEntries({
  listing: { by, group },
  live,
  ...display
}: Pick<View, 'listing' | 'live'> & Display): [string, string][] {
  const set: [string, string | undefined][] = [
    ['by', by === DEFAULT_LISTING.by ? undefined : by],
    ['group', group === DEFAULT_LISTING.group ? undefined : group],
  ]
  return [
    ...set.flatMap(([name, value]): [string, string][] => (value === undefined ? [] : [[name, value]])),
    ...displayEntries(display),
    ...liveEntries(live),
  ]
}

/** Returns the parameters of what a page shows of its report. */
export function displayEntries({ show, onlyRefused }: Display): [name: string, value: string][] {
  return [
    ...(show === undefined ? [] : [['show', show.join()] as [string, string]]),
    ...(onlyRefused ? [['only', 'refused'] as [string, string]] : []),
  ]
}

/** The dashboard that a page leads back to: its filter, and its list. */
export interface Back extends ReportFilter {
  readonly listing?: Listing | undefined
}

/** Returns what leads back to a view. */
export function backTo({ filter, listing }: Pick<View, 'filter' | 'listing'>): Back {
  return { ...filter, listing }
}

export function dashboardHref(
  window: ReportWindow,
  back: Back,
  view?: Pick<View, 'listing' | 'live'> & Display,
): string {
  const shown = view ?? { listing: back.listing ?? DEFAULT_LISTING, live: undefined }
  return `./?${new URLSearchParams([...windowFields(window), ...filterEntries(back), ...viewEntries(shown)])}`
}

/** Returns the address of a client's page: of all that it did, under whatever rule. */
export function clientHref(
  client: string,
  window: ReportWindow,
  back: Back = {},
  live?: Following,
  display: Display = {},
): string {
  return `client.html?${new URLSearchParams([['client', client], ...clientFields(window, back, live, display)])}`
}

/** Returns the parameters of a client's page, except the client. */
export function clientFields(
  window: ReportWindow,
  back: Back,
  live?: Following,
  display: Display = {},
): [name: string, value: string][] {
  return [...backEntries(back), ...windowFields(window), ...displayEntries(display), ...liveEntries(live)]
}

/** The window and the dashboard that the links of a page keep. */
export interface KeptView {
  readonly window: ReportWindow
  /** The filter of the dashboard. */
  readonly back: Back
}

/** Returns the address of a page of the dashboard, such as `./rules.html`, with what it keeps. */
export function keptHref(page: string, { window, back }: KeptView): string {
  return page === './' ? dashboardHref(window, back) : `${page}?${new URLSearchParams(clientFields(window, back))}`
}

/** Returns what is kept as the hidden fields of a form. */
export function keptFields({ window, back }: KeptView): { readonly name: string; readonly value: string }[] {
  return clientFields(window, back).map(([name, value]) => ({ name, value }))
}

/** Returns what a page leads back to, as the hidden field of a form. */
export function backFields(back: Back): { readonly name: string; readonly value: string }[] {
  return backEntries(back).map(([name, value]) => ({ name, value }))
}

function liveEntries(live: Following): [name: string, value: string][] {
  return live === undefined ? [] : [['live', live]]
}

export function offenderHref(key: string, window: ReportWindow, back: Back): string {
  return `offender.html?${new URLSearchParams([...offenderFields(key, back), ...windowFields(window)])}`
}

/** Returns the parameters of a key's page, except its window. */
export function offenderFields(key: string, back: Back): [name: string, value: string][] {
  return [['key', key], ...backEntries(back)]
}

function backEntries(back: Back): [name: string, value: string][] {
  const view = viewEntries({ listing: back.listing ?? DEFAULT_LISTING, live: undefined })
  const spelled = new URLSearchParams([...filterEntries(back), ...view]).toString()
  return spelled === '' ? [] : [['back', spelled]]
}

export function offenderJsonHref(key: string, window: ReportWindow): string {
  return `offender/?${new URLSearchParams([['key', key], ...windowFields(window)])}`
}

/**
 * Returns the page that finds what a text may mean, or the client's own page where it means that alone.
 *
 * @param group the one group to show, with more rows
 */
export function searchHref(text: string, window: ReportWindow, back: Back, group?: string): string {
  const fields: [string, string][] = [['q', text], ...(group === undefined ? [] : [['in', group] as [string, string]])]
  return `search.html?${new URLSearchParams([...fields, ...clientFields(window, back)])}`
}

/** Returns the list of the clients that a text may mean, or without one of the busiest. */
export function clientsHref(text: string, window: ReportWindow, back: Back): string {
  const fields: [string, string][] = text === '' ? [] : [['q', text]]
  return `clients.html?${new URLSearchParams([...fields, ...clientFields(window, back)])}`
}

/** A request of the log; `client` is spelled as there. */
interface LoggedRequest {
  readonly method: string
  readonly path: string
  readonly client: string
}

/** Returns the page that explains a request, and with `event`, its id, begins with what became of it. */
export function explainHref(request: LoggedRequest, { window, back }: KeptView, event?: number): string {
  const fields: [string, string][] = [...trialFields(request), ['event', String(event ?? '')]]
  const filled = fields.filter(([, value]) => value !== '')
  return `explain.html?${new URLSearchParams([...filled, ...clientFields(window, back)])}`
}

/** Returns a request as the fields of the form that explains it. */
export function trialFields({ method, path, client }: LoggedRequest): [name: string, value: string][] {
  const { ip, user, fields = {}, headers = {} } = trialFor(client) ?? {}
  return [
    ['method', method],
    ['path', path],
    ['ip', ip ?? ''],
    ['user', user ?? ''],
    ['fields', spellUserFields(fields)],
    ['headers', spellHeaders(headers)],
  ]
}

/** Returns the form of a new rule, with fields filled in. */
export function newRuleHref(fields: Readonly<Record<string, string>> = {}): string {
  const query = new URLSearchParams(fields).toString()
  return query === '' ? 'rule.html' : `rule.html?${query}`
}

/**
 * Returns the page of a rule, for those who may not change it too.
 *
 * @param rate a rate that its form proposes
 */
export function ruleHref(name: string, rate?: string): string {
  return `rule.html?${new URLSearchParams({ named: name, ...(rate !== undefined && { rate }) })}`
}

/** Returns the form of a new override, with fields filled in. */
export function newOverrideHref(fields: Readonly<Record<string, string>> = {}): string {
  const query = new URLSearchParams(fields).toString()
  return query === '' ? 'override.html' : `override.html?${query}`
}

/** Returns the form of a stored override, with the values that it proposes. */
export function overrideHref(id: number, proposed: Readonly<Record<string, string>>): string {
  return `override.html?${new URLSearchParams({ id: String(id), ...proposed })}`
}

/** Returns the address that leads to the form that raises the limit that refused a client. */
export function raiseFormHref(client: string, { window, back }: KeptView): string {
  return `raise-form?${new URLSearchParams([['client', client], ...clientFields(window, back)])}`
}

/** Returns the list of overrides and bans of a client. */
export function overridesHref(client: string): string {
  return `overrides.html?${new URLSearchParams({ q: client })}`
}

/**
 * Returns the address that leads to the form of a rule for the requests of a filter.
 *
 * @param incident of a client or a network: its busiest path then takes the place of the filter's
 */
export function ruleFormHref(
  window: ReportWindow,
  filter: ReportFilter,
  incident?: { readonly client: string; readonly fromMs: number },
): string {
  const fields = [...windowFields(window), ...filterEntries(filter)]
  const query = new URLSearchParams(fields)
  if (incident !== undefined) {
    query.set('incident', incident.client)
    query.set('from', String(incident.fromMs))
  }
  return `rule-form?${query}`
}

/** Returns the clients of a window as CSV, whatever the filter. */
export function clientsCsvHref(window: ReportWindow, { by }: Listing): string {
  const listing = { by, group: DEFAULT_LISTING.group }
  const fields = [...windowFields(window), ...viewEntries({ listing, live: undefined })]
  return forSpreadsheets(`clients.csv?${new URLSearchParams(fields)}`)
}

/** The CSV of keys has whole days of the last ones, as the seed's. */
export function offendersCsvHref(window: ReportWindow): string {
  const exported = window.since === undefined ? { days: Math.max(1, window.days) } : window
  return forSpreadsheets(`offenders.csv?${new URLSearchParams(windowFields(exported))}`)
}

/** Asks a CSV for the mark without which spreadsheets take it for a file in the encoding of the machine. */
export function forSpreadsheets(csv: string): string {
  return `${csv}${csv.includes('?') ? '&' : '?'}bom=1`
}

/** The parameter of a page that takes the report that others have read just now. */
const SHARED = 'follow=1'

/** The least time until a page asks again. */
const LEAST_MS = SECOND_MS

/**
 * Returns how a page follows what happens, for `live.js` and for browsers without JavaScript.
 *
 * @param hrefFor returns the address of the same page that follows, or does not
 */
export function following(live: Following, freshForMs: number, hrefFor: (live: Following) => string) {
  // Whole seconds, so that pages that ask at about the same time can share their HTML.
  const waitMs = Math.max(LEAST_MS, Math.ceil(freshForMs / SECOND_MS) * SECOND_MS)
  return {
    is_on: live !== 'off',
    /** Browsers reload only where the address says so: what is typed into a form would be lost. */
    reload_s: live === 'on' ? waitMs / SECOND_MS : undefined,
    wait_ms: waitMs,
    source: `${hrefFor(live)}&${SHARED}`,
    on_href: hrefFor('on'),
    off_href: hrefFor('off'),
  }
}

/** The filter of a list of events; an undefined field excludes none. */
export interface EventsFilter {
  readonly client?: string | undefined
  readonly network?: string | undefined
  readonly rule?: string | undefined
  readonly path?: string | undefined
  readonly method?: string | undefined
  readonly outcome?: string | undefined
}

/** Returns the page of the events of a window that pass a filter. */
export function eventsHref(window: ReportWindow, filter: EventsFilter = {}): string {
  const fields = Object.entries(filter).filter((field): field is [string, string] => field[1] !== undefined)
  return `events.html?${new URLSearchParams([...fields, ...windowFields(window)])}`
}

/** Returns the address of the CSV of the events that a page of events lists. */
export function eventsCsvHref(page: string): string {
  return forSpreadsheets(page.replace(/^events\.html/, 'events.csv'))
}
