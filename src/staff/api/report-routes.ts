import Type, { type TProperties, type TSchema } from 'typebox'
import { UNIT } from '../../ground/unit.js'
import { incidents } from '../../reports/incidents/incidents.js'
import { readOverTime } from '../../reports/over-time.js'
import { topOffenders } from '../../reports/ranking.js'
import { coverageFor, createReportRunner } from '../../reports/report.js'
import { toWindow, windowDays } from '../../reports/report-window.js'
import { topClients } from '../../reports/top-clients.js'
import { USAGE_ORDERS } from '../../reports/usage.js'
import { type ApiContext, type ApiScope, answer, operation } from './api-scope.js'
import { closed } from './entry-schemas.js'
import { Moment, parseBound } from './moments.js'
import { asInput } from './problems.js'
import {
  ClientSchema,
  ClientsSchema,
  IncidentsSchema,
  OffenderSchema,
  OffendersSchema,
  RuleHitsSchema,
  SummarySchema,
  TrafficSchema,
  UsageSchema,
} from './report-schemas.js'

const MAX_DAYS = 36_500
const windowParameters = (normalDays: number) => ({
  days: Type.Optional(
    Type.Number({
      exclusiveMinimum: 0,
      maximum: MAX_DAYS,
      default: normalDays,
      description: 'The number of days, up to now. Not together with `since`.',
    }),
  ),
  since: Moment('The beginning of the range, such as 2027-01-31T12:00:00Z.'),
  until: Moment('The end of the range, which is not part of it; now by default. Only together with `since`.'),
})
const Limit = (normally: number) =>
  Type.Optional(
    Type.Integer({ minimum: 1, maximum: 1_000, default: normally, description: 'The maximum number of rows.' }),
  )
const Recent = Type.Optional(
  Type.Integer({ minimum: 1, maximum: 1_000, default: 50, description: 'The maximum number of events.' }),
)
const Text = (about: string) => Type.String({ minLength: 1, maxLength: 255, description: about })

export function addReportRoutes(app: ApiScope, { database, clock, settings, limits: { analytics } }: ApiContext): void {
  const { privacy } = settings
  const read = createReportRunner(database, clock, coverageFor(settings.logEvents), privacy)
  app.get(
    '/reports/summary',
    report('getSummary', 'Sum up the requests', SummarySchema, { ...windowParameters(1) }),
    async ({ query }) => analytics.getTrafficSummary(await withWindow(query, 1)),
  )
  app.get(
    '/reports/offenders',
    report('listOffenders', 'List the keys with the most refusals', OffendersSchema, {
      ...windowParameters(7),
      limit: Limit(100),
    }),
    async ({ query }) => {
      const offenders = topOffenders(await withWindow(query, 7))
      return read(async (snapshot) => ({ offenders: await offenders(snapshot), ...snapshot.coverage }))
    },
  )
  app.get(
    '/reports/rule-hits',
    report('listRuleHits', 'Count how often each rule applied', RuleHitsSchema, {
      ...windowParameters(7),
      limit: Limit(50),
    }),
    async ({ query }) => ({ rule_hits: await analytics.getRuleHitCounts(await withWindow(query, 7)) }),
  )
  app.get(
    '/reports/offender',
    report('getOffender', 'Report on one key', OffenderSchema, {
      key: Text('The key, as in the log.'),
      ...windowParameters(7),
      recent: Recent,
    }),
    async ({ query }) => analytics.getOffenderDetail(await withWindow(query, 7)),
  )
  app.get(
    '/reports/clients',
    report('listClients', 'List the clients with the most refusals, or requests', ClientsSchema, {
      ...windowParameters(7),
      limit: Limit(100),
      by: Type.Optional(Type.Enum(['refused', 'requests'], { default: 'refused' })),
    }),
    async ({ query }) => {
      const clients = topClients(await withWindow(query, 7))
      return read(async (snapshot) => ({ clients: await clients(snapshot), ...snapshot.coverage }))
    },
  )
  app.get(
    '/reports/client',
    report('getClient', 'Report on one client, over all rules', ClientSchema, {
      client: Text('ip:203.0.113.7, ip:203.0.113.0/24 or user:7; ip: may be left out.'),
      ...windowParameters(7),
      recent: Recent,
    }),
    async ({ query }) => analytics.getClient(await withWindow(query, 7)),
  )
  app.get(
    '/reports/incidents',
    report('listIncidents', 'List the incidents: unusually many refusals', IncidentsSchema, {
      since: Moment('Only incidents that were not over before this moment; a day ago by default.'),
      until: Moment('Only incidents that began before this moment. Only together with `since`.'),
    }),
    async ({ query }) => {
      const window = { since: parseBound(query.since), until: parseBound(query.until) }
      const find = async () => {
        const found = incidents(window)
        return read(async (snapshot) => ({ incidents: await found(snapshot), ...snapshot.coverage }))
      }
      return asInput(find, 'query', 'since')
    },
  )
  app.get(
    '/reports/usage',
    report('getUsage', 'List what clients used of a unit', UsageSchema, {
      unit: Type.String({ pattern: UNIT.source, description: 'The unit, such as tokens.' }),
      client: Type.Optional(Text('Only of this client: ip:203.0.113.7 or user:7.')),
      since: Moment('The beginning: its UTC day is the first one. The beginning of the present month by default.'),
      until: Moment('The end, before which the last UTC day begins; now by default. Only together with `since`.'),
      by: Type.Optional(
        Type.Enum([...USAGE_ORDERS], {
          default: 'client',
          description: 'What a row is of. Clients with the highest amount are first.',
        }),
      ),
      limit: Limit(100),
      cursor: Type.Optional(Type.String({ maxLength: 2_000, description: 'The cursor of the page before.' })),
    }),
    async ({ query }) => {
      const range = { since: parseBound(query.since), until: parseBound(query.until) }
      const options = { ...query, ...(await asInput(async () => toRange(range), 'query', 'since')) }
      return asInput(() => analytics.getUsage(options), 'query', query.cursor === undefined ? 'since' : 'cursor')
    },
  )
  app.get(
    '/reports/traffic',
    report('getTraffic', 'Show the requests over time', TrafficSchema, {
      ...windowParameters(7),
      rule: Type.Optional(
        Type.String({
          maxLength: 100,
          description: 'Only requests that this rule decided; empty for those that no rule decided.',
        }),
      ),
      path: Type.Optional(Type.String({ maxLength: 500, description: 'Only requests whose path begins with this.' })),
      method: Type.Optional(Type.String({ maxLength: 10, description: 'Only requests with this method.' })),
    }),
    async ({ query }) => {
      const { days, since, until, ...filter } = query
      const window = await requestedWindow({ days, since, until }, 7)
      return read(async (snapshot) => ({
        days: windowDays(window, snapshot.nowMs),
        ...(await readOverTime(snapshot, window, filter)),
      }))
    },
  )
}

/** @throws InvalidSettingError for a range that ends before it begins, or that has no beginning */
function toRange(range: { readonly since: number | undefined; readonly until: number | undefined }) {
  if (range.since !== undefined || range.until !== undefined) toWindow(range, 1)
  return range
}

interface WindowQuery {
  readonly days?: number | undefined
  readonly since?: string | undefined
  readonly until?: string | undefined
}

/** Returns a query with its window as the reports take it. */
async function withWindow<Query extends WindowQuery>({ days, since, until, ...query }: Query, normalDays: number) {
  return { ...query, ...(await requestedWindow({ days, since, until }, normalDays)) }
}

/** @throws InvalidInputError for `days` and `since` together, and for a range that ends before it begins */
function requestedWindow({ days, since, until }: WindowQuery, normalDays: number) {
  const options = { days, since: parseBound(since), until: parseBound(until) }
  return asInput(async () => toWindow(options, normalDays), 'query', 'since')
}

/** Returns the options of the route of a report. */
function report<Query extends TProperties>(id: string, summary: string, schema: TSchema, query: Query) {
  return operation('events', id, 'read', summary, {
    querystring: closed(query),
    response: { 200: answer('The report.', schema) },
  })
}
