/** The schemas of reports and events, in the names of the event log. */
import Type, { type TProperties } from 'typebox'
import { HEALTH_CHECKS } from '../../operations/health/health.js'
import { INCIDENT_STATES } from '../../reports/incidents/incident.js'
import { ChangeSchema } from './entry-schemas.js'

const Text = Type.String()
const Count = Type.Integer()
const Moment = Type.String({ format: 'date-time' })
const NullableMoment = Type.Union([Moment, Type.Null()])
const NullableText = Type.Union([Text, Type.Null()])
const NullableCount = Type.Union([Count, Type.Null()])
const Coverage = {
  only_blocked: Type.Optional(Type.Literal(true, { description: 'The log has refusals only.' })),
  only_sums: Type.Optional(Type.Literal(true, { description: 'The log tells no clients of allowed requests.' })),
  log_since: Type.Optional(
    Type.String({
      format: 'date-time',
      description: 'Requests before this moment are in another database, and in no count.',
    }),
  ),
}

const COUNTS = { requests: Count, over_limit: Count, would_be: Count, denied: Count }
const PolicyCounts = { policy: Text, ...COUNTS }
const Traffic = { total: Count, blocked: Count, would_block: Count, denied: Count }

const Rules = Type.String({
  description:
    'The rules that applied, each with + or (refused) - before it, joined by colons; empty unless several did.',
})
const RECENT = {
  timestamp: Moment,
  path: Text,
  method: Text,
  allowed: Type.Boolean(),
  count: Count,
  limit: Count,
  rule_name: Text,
}
const Weight = Type.Integer({ description: 'How many requests that are alike the event stands for.' })
const SEVERAL = { weight: Type.Optional(Weight) }

export const EventSchema = Type.Object({
  id: Count,
  ...RECENT,
  weight: Weight,
  key: Text,
  ip_address: NullableText,
  client_ip: NullableText,
  user_id: NullableCount,
  client: Text,
  policy: Text,
  outcome: Text,
  rules: Rules,
})

export const SummarySchema = Type.Object({
  days: Type.Number(),
  total: Count,
  allowed: Count,
  blocked: Count,
  block_rate: Type.Number(),
  denied: Count,
  ...Coverage,
})

export const OffendersSchema = Type.Object({ offenders: listOf({ key: Text, blocked_count: Count }), ...Coverage })

export const RuleHitsSchema = Type.Object({ rule_hits: listOf({ rule_name: Text, hits: Count, blocked: Count }) })

export const OffenderSchema = Type.Object({
  key: Text,
  days: Type.Number(),
  total: Count,
  allowed: Count,
  blocked: Count,
  block_rate: Type.Number(),
  first_seen: NullableMoment,
  last_seen: NullableMoment,
  by_path: listOf({ path: Text, blocked_count: Count }),
  recent_events: listOf({ ...RECENT, ...SEVERAL }),
  ...Coverage,
})

export const ClientsSchema = Type.Object({
  clients: listOf({ client: Text, ...COUNTS, policies: listOf(PolicyCounts) }),
  ...Coverage,
})

export const ClientSchema = Type.Object({
  client: Text,
  days: Type.Number(),
  ...COUNTS,
  first_seen: NullableMoment,
  last_seen: NullableMoment,
  by_policy: listOf({ ...PolicyCounts, last_seen: Moment, count: Count, limit: Count }),
  by_path: listOf({ path: Text, ...COUNTS }),
  timeline: Type.Object({ bar_ms: Count, bars: listOf({ start_ms: Count, ...COUNTS }) }),
  recent_events: listOf({
    id: Count,
    ...RECENT,
    ...SEVERAL,
    client: Text,
    key: Text,
    policy: Text,
    outcome: Text,
    rules: Rules,
  }),
  overrides: listOf({
    id: Count,
    client: Text,
    effect: Text,
    algorithm: Text,
    path_pattern: Text,
    expires_at: NullableMoment,
    note: Text,
    created_at: Moment,
    updated_at: Moment,
    actor: Text,
  }),
  history: Type.Array(ChangeSchema),
  ...Coverage,
})

export const IncidentsSchema = Type.Object({
  incidents: listOf({
    id: Text,
    scope: Type.String({ description: 'ip:203.0.113.7, user:7, 203.0.113.0/24, or policy:search.' }),
    from: Moment,
    to: Type.Union([Moment, Type.Null()], { description: 'Null while refusals go on.' }),
    state: Type.Enum([...INCIDENT_STATES]),
    policies: Type.Array(Text),
    paths: Type.Array(Text),
    refused: Count,
    denied: Count,
    clients: Count,
  }),
  ...Coverage,
})

export const TrafficSchema = Type.Object({
  days: Type.Number(),
  bar_ms: Type.Integer({ description: 'The length of a bar.' }),
  bars: listOf({ start_ms: Count, ...Traffic }),
})

const PREVIEWED = { matched: Count, over_limit: Count, would_refuse: Count, refused_then: Count }

export const PreviewSchema = Type.Object({
  rule: Text,
  sentence: Text,
  hours: Type.Number(),
  since: Moment,
  until: Moment,
  events: Count,
  first_event: NullableMoment,
  last_event: NullableMoment,
  ...PREVIEWED,
  over_limit_clients: Count,
  newly_refused: Count,
  newly_allowed: Count,
  uncovered: Type.Object({ count: Count, share: Type.Number(), reasons: Type.Record(Text, Count) }),
  unknown: listOf({ rule: Text, field: Text, lacks: Text, requests: Count }),
  by_hour: listOf({ hour: Moment, ...PREVIEWED }),
  top_keys: listOf({ key: Text, ...PREVIEWED }),
  complete: Type.Boolean(),
  gaps: Type.Array(Text),
  notes: Type.Array(Text),
})

export const ExplanationSchema = Type.Object({
  decided_by: NullableText,
  limits: listOf({
    policy: Text,
    group: Text,
    rate: NullableText,
    unit: Text,
    applies: Type.Boolean(),
    why: Text,
    cost: NullableCount,
    count: NullableCount,
    limit: NullableCount,
    remaining: NullableCount,
  }),
})

export const HealthSchema = Type.Object({
  ok: Type.Boolean({ description: 'Whether no check fails.' }),
  ready: Type.Boolean({ description: 'Whether the parts that requests need work.' }),
  checks: Type.Object(
    Object.fromEntries(
      HEALTH_CHECKS.map((name) => [name, Type.Object({ status: Type.Enum(['ok', 'failing', 'off']), detail: Text })]),
    ),
  ),
})

function listOf(properties: TProperties) {
  return Type.Array(Type.Object(properties))
}

export const UsageSchema = Type.Object({
  rows: listOf({
    client: Type.Optional(Text),
    day: Type.Optional(Text),
    month: Type.Optional(Text),
    amount: Count,
    requests: Count,
  }),
  cursor: Type.Union([Text, Type.Null()], { description: 'Leads to the next page; null on the last one.' }),
})
