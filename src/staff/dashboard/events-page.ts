import type { Geo } from '../../clients/geo.js'
import { isPosition, type PageStart, type Position } from '../../database/list.js'
import { isSum } from '../../log/event-sql.js'
import type { EventSearch, FoundEvents } from '../../reports/event-search.js'
import { EVENT_ORDER, type EventPosition, type ListedEvent, toClientEvent } from '../../reports/listed-events.js'
import { clampedIsoTime } from '../../reports/report.js'
import { eventRow, requestsText } from './event-row.js'
import { formatRequests, formatTime, toMoment, visible } from './format.js'
import { clientFields, eventsCsvHref, type KeptView } from './links.js'
import { type LogState, logNotices } from './log-state.js'
import { spellTime, timeText } from './time-range.js'

/** The fields of the filter, as they were typed, in the order of the page. */
export const EVENT_FIELDS = ['client', 'rule', 'path', 'method', 'outcome', 'since', 'until'] as const
export type EventField = (typeof EVENT_FIELDS)[number]
export type EventFields = Readonly<Record<EventField, string>>

/** The errors of the fields; a sentence each. */
export type FieldErrors = Readonly<Partial<Record<EventField, string>>>

/** The outcomes of requests, as people search for them. */
export const OUTCOMES = {
  refused: { text: 'Not allowed, for any reason', search: { allowed: false } },
  over_limit: { text: 'Refused (over a limit)', search: { allowed: false, outcome: 'over_limit' } },
  denied: { text: 'Denied', search: { allowed: false, outcome: 'denied' } },
  unavailable: { text: 'No store answered', search: { allowed: false, outcome: 'unavailable' } },
  would_be: { text: 'Would be refused', search: { allowed: true, outcome: 'over_limit' } },
  allowed: { text: 'Allowed', search: { allowed: true, outcome: 'allowed' } },
} as const satisfies Readonly<Record<string, { readonly text: string; readonly search: EventSearch }>>

/** Returns what people search for by this name. */
export function searchedOutcome(name: string) {
  return Object.entries(OUTCOMES).find(([key]) => key === name)?.[1]
}

const LABELS: Readonly<Record<EventField, string>> = {
  client: 'Client or network',
  rule: 'Rule',
  path: 'Path begins with',
  method: 'Method',
  outcome: 'Outcome',
  since: 'From',
  until: 'Until',
}

/** The content of the page of events. */
export interface ShownEvents {
  readonly fields: EventFields
  readonly errors: FieldErrors
  readonly search: EventSearch
  /** The events; undefined where a field is wrong. */
  readonly found: FoundEvents | undefined
  /** The position from which the page was read; undefined at the newest events. */
  readonly from: PageStart | undefined
  readonly kept: KeptView
  /** What files know of addresses; undefined where the app has none. */
  readonly geo: Geo | undefined
  readonly log: LogState
  readonly rules: readonly string[]
  readonly nowMs: number
}

/** Returns the address of the page of events with some fields. */
export function eventSearchHref(
  fields: Partial<EventFields>,
  kept: KeptView,
  cursor: readonly [string, string][] = [],
): string {
  const filled = EVENT_FIELDS.flatMap((name): [string, string][] => {
    const value = fields[name]
    return value === undefined || value === '' ? [] : [[name, value]]
  })
  return `events.html?${new URLSearchParams([...filled, ...cursor, ...keptEntries(kept)])}`
}

/** Returns the times of a filter as `spell` has them, or as they were typed where they are none. */
function spelledTimes({ since, until }: EventFields, { sinceMs, untilMs }: EventSearch, spell: (ms: number) => string) {
  return {
    since: sinceMs === undefined ? since : spell(sinceMs),
    until: untilMs === undefined ? until : spell(untilMs),
  }
}

/** Returns what the links keep. A range is of the filter itself. */
function keptEntries({ window, back }: KeptView): [name: string, value: string][] {
  const isRange = window.since !== undefined
  return clientFields(window, back).filter(([name]) => !isRange || (name !== 'since' && name !== 'until'))
}

/** Returns the context of `events.hbs`. */
export function eventsContext({
  fields: typed,
  errors,
  search,
  found,
  from,
  kept,
  log,
  rules,
  geo,
  nowMs,
}: ShownEvents) {
  const { events = [], next, isBounded = false } = found ?? {}
  // Links have the same range at any time.
  const fields = { ...typed, ...spelledTimes(typed, search, spellTime) }
  const shown = { ...typed, ...spelledTimes(typed, search, timeText) }
  const isFiltered = EVENT_FIELDS.some((name) => fields[name] !== '')
  const href = (cursor: readonly [string, string][]) => eventSearchHref(fields, kept, cursor)
  return {
    page: {
      title: 'Events',
      subtitle: 'Rate limits',
      fields: fieldViews(shown, errors, rules),
      kept: keptEntries(kept).map(([name, value]) => ({ name, value })),
      chips: EVENT_FIELDS.filter((name) => fields[name] !== '').map((name) => ({
        text: LABELS[name],
        value:
          name === 'outcome'
            ? (searchedOutcome(fields.outcome)?.text ?? visible(fields.outcome))
            : visible(shown[name]),
        href: eventSearchHref({ ...fields, [name]: '' }, kept),
      })),
      clear_href: eventSearchHref({}, kept),
      csv_href: eventsCsvHref(href([])),
      notices: logNotices(log, events.length > 0),
      is_logging: log.switches.enabled && log.switches.logEvents !== false,
      is_valid: found !== undefined,
      is_filtered: isFiltered,
      events: events.map((event) => ({
        ...eventRow(toClientEvent(event), kept, geo),
        has_client: event.client !== '',
        summed: isSum(event) ? `${formatRequests(event.weight, 'allowed')}, only added up` : undefined,
        has_path: event.path !== '',
      })),
      ...pageLinks({ events, next, isBounded, from, href }),
      now: toMoment(nowMs),
    },
  }
}

function fieldViews(fields: EventFields, errors: FieldErrors, rules: readonly string[]) {
  return {
    ...fields,
    errors,
    has_errors: Object.keys(errors).length > 0,
    rules,
    outcomes: Object.entries(OUTCOMES).map(([value, { text }]) => ({
      value,
      text,
      selected: value === fields.outcome,
    })),
  }
}

interface PageEnds {
  readonly events: readonly ListedEvent[]
  readonly next: EventPosition | undefined
  readonly isBounded: boolean
  readonly from: ShownEvents['from']
  href(cursor: readonly [string, string][]): string
}

/** Returns the links to older and newer events, and how far a search went that read only a part of the log. */
function pageLinks({ events, next, isBounded, from, href }: PageEnds) {
  const isNewer = from?.side === 'before'
  const cursor = (name: 'before' | 'after', position: Position | undefined) =>
    position === undefined ? undefined : href([[name, position.join('.')]])
  const positionOf = (event: ListedEvent | undefined) => event && ([event.timestampMs, event.id] as const)
  const [newest, oldest] = [positionOf(events[0]), positionOf(events.at(-1))]
  const reached = isBounded && next !== undefined ? formatTime(Date.parse(clampedIsoTime(next[0]))) : undefined
  return {
    newest_href: from === undefined ? undefined : href([]),
    newer_href: isNewer
      ? cursor('after', next)
      : cursor('after', from === undefined ? undefined : (newest ?? from.position)),
    older_href: isNewer ? cursor('before', oldest ?? from.position) : cursor('before', next),
    older_text: isBounded && !isNewer ? 'Search older' : 'Older',
    newer_text: isBounded && isNewer ? 'Search newer' : 'Newer',
    reached: reached && `Searched ${isNewer ? 'up' : 'back'} to ${reached} UTC: only a part of the log.`,
    shown: requestsText(events),
  }
}

const POSITION = /^(-?\d{1,16})\.(-?\d{1,16})$/

/** Reads a position from the address of a page; undefined for another text. */
export function parsePosition(text: string): Position | undefined {
  const position = POSITION.exec(text)?.slice(1).map(Number)
  return isPosition(EVENT_ORDER, position) ? position : undefined
}
