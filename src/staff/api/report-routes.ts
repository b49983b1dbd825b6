import Type, { type TProperties, type TSchema } from 'typebox'
import { readOverTime } from '../../reports/over-time.js'
import { createReportRunner } from '../../reports/window.js'
import type { ApiContext } from './api-context.js'
import type { ApiRoute } from './api-route.js'
import { defineRoute } from './define-route.js'
import {
  ClientSchema,
  ClientsSchema,
  OffenderSchema,
  OffendersSchema,
  RuleHitsSchema,
  SummarySchema,
  TrafficSchema,
} from './report-schemas.js'

const MAX_DAYS = 36_500
const Days = (normally: number) =>
  Type.Optional(
    Type.Number({ exclusiveMinimum: 0, maximum: MAX_DAYS, default: normally, description: 'The last so many days.' }),
  )
const Limit = (normally: number) =>
  Type.Optional(Type.Integer({ minimum: 1, maximum: 1_000, default: normally, description: 'The most rows.' }))
const Recent = Type.Optional(Type.Integer({ minimum: 1, maximum: 1_000, default: 50, description: 'The most events.' }))
const Text = (about: string) => Type.String({ minLength: 1, maxLength: 255, description: about })

export function reportRoutes({ internals, limits: { analytics } }: ApiContext): readonly ApiRoute[] {
  const { database, clock, switches, privacy } = internals
  const read = createReportRunner(database, clock, switches.logEvents === 'blocked', privacy)
  return [
    defineRoute({
      ...report('summary', 'getSummary', 'Sum up the requests', SummarySchema),
      query: { days: Days(1) },
      handle: ({ query }) => analytics.getTrafficSummary(query),
    }),
    defineRoute({
      ...report('offenders', 'listOffenders', 'List the keys with the most refusals', OffendersSchema),
      query: { days: Days(7), limit: Limit(100) },
      handle: async ({ query }) => ({ offenders: await analytics.getTopOffenders(query) }),
    }),
    defineRoute({
      ...report('rule-hits', 'listRuleHits', 'Count how often each rule decided', RuleHitsSchema),
      query: { days: Days(7), limit: Limit(50) },
      handle: async ({ query }) => ({ rule_hits: await analytics.getRuleHitCounts(query) }),
    }),
    defineRoute({
      ...report('offender', 'getOffender', 'Report on one key', OffenderSchema),
      query: { key: Text('The key, as in the log.'), days: Days(7), recent: Recent },
      handle: ({ query }) => analytics.getOffenderDetail(query),
    }),
    defineRoute({
      ...report('clients', 'listClients', 'List the clients with the most refusals, or requests', ClientsSchema),
      query: {
        days: Days(7),
        limit: Limit(100),
        by: Type.Optional(Type.Enum(['refused', 'requests'], { default: 'refused' })),
      },
      handle: async ({ query }) => ({ clients: await analytics.getTopClients(query) }),
    }),
    defineRoute({
      ...report('client', 'getClient', 'Report on one client, over all rules', ClientSchema),
      query: { client: Text('ip:203.0.113.7 or user:7.'), days: Days(7), recent: Recent },
      handle: ({ query }) => analytics.getClient(query),
    }),
    defineRoute({
      ...report('traffic', 'getTraffic', 'Show the requests over time', TrafficSchema),
      query: {
        days: Days(7),
        rule: Type.Optional(Type.String({ maxLength: 100, description: 'Only decided by this rule; empty for none.' })),
        path: Type.Optional(Type.String({ maxLength: 500, description: 'Only of paths that begin so.' })),
        method: Type.Optional(Type.String({ maxLength: 10, description: 'Only of this method.' })),
      },
      async handle({ query: { days = 7, ...filter } }) {
        return { days, ...(await read((snapshot) => readOverTime(snapshot, days, filter))) }
      },
    }),
  ]
}

function report(name: string, id: string, summary: string, schema: TSchema) {
  return {
    method: 'GET',
    path: `/reports/${name}`,
    id,
    tag: 'events',
    summary,
    needs: 'read',
    answers: { 200: { about: 'The report.', schema } },
  } as const satisfies Partial<Parameters<typeof defineRoute<TProperties>>[0]>
}
