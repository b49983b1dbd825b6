/** The schemas of events and of what is asked about requests; those of reports are made of their registrations. */
import Type from 'typebox'
import { HEALTH_CHECKS } from '../../operations/health/health.js'
import { schemaFields } from '../../reports/registration.js'
import type { Change } from '../../rules/history/history.js'
import { shared } from './entry-schemas.js'
import { Moment } from './moments.js'

/** What the schemas of reports are made of. */
export const FIELDS = schemaFields(Type, shared<Change>('Change'), Moment)
const { text, texts, count, counts, time, orNull, listOf, event, rules, weight } = FIELDS

export const EventSchema = Type.Object({
  id: count,
  ...event,
  weight,
  key: text,
  ip_address: orNull(text),
  client_ip: orNull(text),
  user_id: orNull(count),
  ...texts('client', 'policy', 'outcome'),
  rules,
})

const PREVIEWED = counts('matched', 'over_limit', 'would_refuse', 'refused_then')

export const PreviewSchema = Type.Object({
  ...texts('rule', 'sentence'),
  hours: Type.Number(),
  since: time,
  until: time,
  events: count,
  first_event: orNull(time),
  last_event: orNull(time),
  ...PREVIEWED,
  ...counts('over_limit_clients', 'newly_refused', 'newly_allowed'),
  uncovered: Type.Object({ count, share: Type.Number(), reasons: Type.Record(text, count) }),
  unknown: listOf({ ...texts('rule', 'field', 'lacks'), requests: count }),
  by_hour: listOf({ hour: time, ...PREVIEWED }),
  top_keys: listOf({ key: text, ...PREVIEWED }),
  complete: Type.Boolean(),
  gaps: Type.Array(text),
  notes: Type.Array(text),
})

export const ExplanationSchema = Type.Object({
  decided_by: orNull(text),
  limits: listOf({
    ...texts('policy', 'group'),
    rate: orNull(text),
    unit: text,
    applies: Type.Boolean(),
    why: text,
    cost: orNull(count),
    count: orNull(count),
    limit: orNull(count),
    remaining: orNull(count),
  }),
})

export const HealthSchema = Type.Object({
  ok: Type.Boolean({ description: 'Whether no check fails.' }),
  ready: Type.Boolean({ description: 'Whether the parts that requests need work.' }),
  checks: Type.Object(
    Object.fromEntries(
      HEALTH_CHECKS.map((name) => [name, Type.Object({ status: Type.Enum(['ok', 'failing', 'off']), detail: text })]),
    ),
  ),
})
