/** The logbook: the requests of the log, the newest first, by whatever is asked for. */
import createError from '@fastify/error'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { PageStart } from '../../database/list.js'
import { MAX_KEY_LENGTH, MAX_PATH_LENGTH, storable } from '../../ground/storable.js'
import { MAX_METHOD_LENGTH } from '../../log/event.js'
import { EVENT_COLUMNS, eventCsvRow } from '../../reports/csv.js'
import { type EventSearch, type FoundEvents, searchEvents } from '../../reports/event-search.js'
import { lastParameter } from '../shell/request-query.js'
import { staffRoute } from '../shell/staff-routes.js'
import {
  type EventFields,
  eventsContext,
  type FieldErrors,
  OUTCOMES,
  parsePosition,
  searchedOutcome,
} from './events-page.js'
import { curlLine } from './first-request.js'
import { readLogState } from './log-state.js'
import type { PageRoutes } from './page-routes.js'
import { readClientView } from './requested-view.js'
import { sendCsv } from './send-csv.js'
import { HOW_TO, parseTime } from './time-range.js'

const PAGE_LENGTH = 50
/** The most rows of an export, and how many are read at a time. */
const MAX_EXPORTED = 10_000
const EXPORTED_AT_ONCE = 500
/** The most searches of an export: each reads some thousands of events of the log. */
const MAX_SEARCHES = 200
const InvalidEventsError = createError('FST_RATE_LIMIT_INVALID_EVENTS', '%s', 400)

export function registerEventsRoutes(routes: PageRoutes<'events'>): void {
  const { app, pages, read, clock, database } = routes

  async function showEvents(request: FastifyRequest, reply: FastifyReply) {
    const field = (name: string) => lastParameter(request, name)
    const fields = readFields(field)
    const { search, errors } = toSearch(fields, clock.now())
    const isValid = Object.keys(errors).length === 0
    const requested = isValid ? toFrom(field) : undefined
    const first = isValid ? await read(searchEvents(search, requested, PAGE_LENGTH)) : undefined
    // A reader who goes newer than a full page comes to the newest ones.
    const isNewest = requested?.side === 'before' && first !== undefined && first.next === undefined
    const from = isNewest ? undefined : requested
    const found = isNewest ? await read(searchEvents(search, undefined, PAGE_LENGTH)) : first
    const unknown = isValid && found === undefined ? { client: UNKNOWN_CLIENT } : errors
    if (found === undefined) reply.code(400)
    const context = eventsContext({
      fields,
      errors: unknown,
      search,
      found,
      from,
      kept: readClientView(field, clock.now()),
      log: readLogState(routes),
      geo: database.sources?.geo,
      rules: [],
      nowMs: clock.now(),
    })
    return pages.send(reply, 'events', { page: { ...context.page, curl: curlLine(request) } })
  }

  /** Sends the newest events that pass the filter. What is wrong is answered before the file begins. */
  async function sendEventsCsv(request: FastifyRequest, reply: FastifyReply) {
    const { search, errors } = toSearch(
      readFields((name) => lastParameter(request, name)),
      clock.now(),
    )
    const [problem] = Object.entries(errors)
    if (problem !== undefined) throw new InvalidEventsError(`"${problem[0]}": ${problem[1]}`)
    const first = await read(searchEvents(search, undefined, EXPORTED_AT_ONCE))
    if (first === undefined) throw new InvalidEventsError(UNKNOWN_CLIENT)
    return sendCsv(request, reply, 'ratelimit_events.csv', csvRows(search, first))
  }

  async function* csvRows(search: EventSearch, first: FoundEvents): AsyncGenerator<string> {
    yield EVENT_COLUMNS
    let found: FoundEvents | undefined = first
    let left = MAX_EXPORTED
    for (let searches = 1; found !== undefined; searches++) {
      const rows = found.events.slice(0, left)
      if (rows.length > 0) yield rows.map(eventCsvRow).join('')
      left -= rows.length
      if (found.next === undefined || left === 0 || searches === MAX_SEARCHES) return
      found = await read(searchEvents(search, { side: 'after', position: found.next }, EXPORTED_AT_ONCE))
    }
  }

  app.get('/events.csv', staffRoute('events-csv'), sendEventsCsv)
  app.get('/events.html', staffRoute('events'), showEvents)
}

const UNKNOWN_CLIENT = 'The log has no networks here: write an address, such as 203.0.113.7, or user:7'

function readFields(field: (name: string) => string): EventFields {
  const stored = (name: string, maxLength: number) => storable(field(name).trim(), maxLength)
  return {
    client: stored('client', MAX_KEY_LENGTH) || stored('network', MAX_KEY_LENGTH),
    rule: stored('rule', MAX_KEY_LENGTH),
    path: stored('path', MAX_PATH_LENGTH),
    method: stored('method', MAX_METHOD_LENGTH).toUpperCase(),
    outcome: stored('outcome', MAX_KEY_LENGTH),
    since: stored('since', MAX_KEY_LENGTH),
    until: stored('until', MAX_KEY_LENGTH),
  }
}

function toSearch(fields: EventFields, nowMs: number): { readonly search: EventSearch; readonly errors: FieldErrors } {
  const optional = (text: string) => text || undefined
  const outcome = searchedOutcome(fields.outcome)
  const sinceMs = parseTime(fields.since, nowMs)
  const isOpen = fields.until === '' || fields.until === 'now'
  const untilMs = isOpen ? undefined : parseTime(fields.until, nowMs, sinceMs)
  const isReversed = sinceMs !== undefined && untilMs !== undefined && sinceMs >= untilMs
  const isOutcome = fields.outcome === '' || outcome !== undefined
  return {
    search: {
      client: optional(fields.client),
      policy: optional(fields.rule),
      path: optional(fields.path),
      method: optional(fields.method),
      ...outcome?.search,
      sinceMs,
      untilMs,
    },
    errors: {
      ...(!isOutcome && { outcome: `Choose one of ${Object.keys(OUTCOMES).join(', ')}` }),
      ...(fields.since !== '' && sinceMs === undefined && { since: MOMENT }),
      ...(!isOpen && untilMs === undefined && { until: MOMENT }),
      ...(isReversed && { until: 'Write a time after the beginning' }),
    },
  }
}

const MOMENT = `Write it as ${HOW_TO}`

/** Returns from where a page is read; a position that is none is the newest. */
function toFrom(field: (name: string) => string): PageStart | undefined {
  const [older, newer] = [parsePosition(field('before')), parsePosition(field('after'))]
  if (older !== undefined) return { side: 'after', position: older }
  return newer && { side: 'before', position: newer }
}
