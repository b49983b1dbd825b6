import Type from 'typebox'
import { EVENT_OUTCOMES } from '../../log/event.js'
import { searchEvents } from '../../reports/event-search.js'
import { EVENT_ORDER, type ListedEvent } from '../../reports/listed-events.js'
import { clampedIsoTime, coverageFor, createReportRunner } from '../../reports/report.js'
import { type ApiContext, type ApiScope, answer, operation } from './api-scope.js'
import { parseCursor, toCursor } from './cursor.js'
import { closed, DEFAULT_LIMIT, PAGE, pageSchema } from './entry-schemas.js'
import { Moment, parseBound } from './moments.js'
import { InvalidInputError } from './problems.js'
import { EventSchema } from './report-schemas.js'
import { streamRows } from './streamed-json.js'

const Text = (maxLength: number, description: string) =>
  Type.Optional(Type.String({ minLength: 1, maxLength, description }))

export function addEventRoutes(app: ApiScope, { database, clock, settings }: ApiContext): void {
  const { privacy } = settings
  const read = createReportRunner(database, clock, coverageFor(settings.logEvents), privacy)
  app.get(
    '/events',
    operation('events', 'listEvents', 'read', 'List events', {
      description:
        'The logged requests that match all filters, newest first. Events of the last seconds may not have arrived from other servers yet.',
      querystring: closed({
        ...PAGE,
        key: Text(255, 'Only events of this key, as in the log.'),
        client: Text(
          255,
          'Only events of this client, or of the clients in this network, under all rules: ip:203.0.113.7, user:7, 203.0.113.0/24.',
        ),
        policy: Text(
          255,
          'Only events that this policy decided: the name of a rule, a prefix, default, override, deny-list, …. Of a rule also where it applied beside others.',
        ),
        outcome: Type.Optional(Type.Enum([...EVENT_OUTCOMES], { description: 'Only events with this outcome.' })),
        allowed: Type.Optional(
          Type.Boolean({ description: 'true: only requests that were allowed. false: only requests that were not.' }),
        ),
        path: Text(500, 'Only requests whose path begins with this.'),
        method: Text(10, 'Only requests with this method.'),
        since: Moment('The beginning of the range, such as 2027-01-31T12:00:00Z.'),
        until: Moment('The end of the range, which is not part of it.'),
      }),
      response: { 200: answer('A page of events.', pageSchema(EventSchema)) },
    }),
    async ({ query: { limit = DEFAULT_LIMIT, cursor, since, until, ...filter } }, reply) => {
      const period = { sinceMs: parseBound(since), untilMs: parseBound(until) }
      const list = `events ${JSON.stringify({ ...filter, ...period }, FILTERS)}`
      const position = cursor === undefined ? undefined : parseCursor(list, EVENT_ORDER, cursor)
      const from = position && ({ side: 'after', position } as const)
      const found = await read(searchEvents({ ...filter, ...period }, from, limit, true))
      if (found === undefined) throw unknownClient(filter.client)
      const nextCursor = found.next === undefined ? null : toCursor(list, found.next)
      return streamRows(reply, { nextCursor }, 'items', found.events.map(toEvent))
    },
  )
}

function unknownClient(client: string | undefined) {
  const detail = `Option "client" is ${JSON.stringify(client)}, for which the log cannot be searched: give ip:203.0.113.7 or user:7`
  return new InvalidInputError([{ in: 'query', field: 'client', detail }])
}

/** The filters in one order, whatever that of the query. */
const FILTERS = ['key', 'client', 'policy', 'outcome', 'allowed', 'path', 'method', 'sinceMs', 'untilMs']

function toEvent({ timestampMs, allowed, id, ...event }: ListedEvent) {
  return { id, timestamp: clampedIsoTime(timestampMs), ...event, allowed: Boolean(allowed) }
}
