/** The file of `ratelimit rules export`: what is in it, once, for the checks, the types and the JSON Schema. */
import { Type } from '../generated/typebox.js'
import { ALGORITHMS } from '../limiter/algorithm.js'
import { MAX_PATTERN_LENGTH } from './field-checks.js'
import { MAX_CLIENT_LENGTH, MAX_EFFECT_LENGTH, MAX_NOTE_LENGTH } from './override.js'
import { MAX_METHOD_LENGTH, MAX_RATE_LENGTH, NAME, PRIORITY_LIMIT } from './rule.js'

/** Counts up when an older version of this package could misread what a newer one wrote. */
export const DOCUMENT_VERSION = 1
/** Where an editor finds the schema, seen from the folder of an app that has this package. */
export const SCHEMA_PATH = './node_modules/fastify-smart-ratelimit/rules.schema.json'

const ENTRY = { additionalProperties: false }
const algorithm = Type.Enum([...ALGORITHMS], { default: 'fixed_window', description: 'How requests are counted.' })

export const RULE_ENTRY = Type.Object(
  {
    name: Type.String({
      pattern: NAME.source,
      description: 'Unique. Another name is another rule, with counters of its own.',
    }),
    description: Type.String({ default: '', description: 'A note.' }),
    pathPattern: Type.String({
      minLength: 1,
      maxLength: MAX_PATTERN_LENGTH,
      description: 'A regular expression (RE2) that is searched for in the path.',
    }),
    method: Type.String({
      default: 'ALL',
      maxLength: MAX_METHOD_LENGTH,
      description: 'ALL, or a list such as GET,POST.',
    }),
    rate: Type.String({ maxLength: MAX_RATE_LENGTH, description: 'Such as 100/m, 10/30s or 5000/7d.' }),
    key: Type.String({ default: 'ip', description: 'ip, user or header:<Header-Name>.' }),
    algorithm,
    block: Type.Boolean({ default: true, description: 'false counts and logs, and refuses nobody.' }),
    isActive: Type.Boolean({ default: true, description: 'Only active rules apply.' }),
    priority: Type.Integer({
      default: 0,
      minimum: -PRIORITY_LIMIT,
      maximum: PRIORITY_LIMIT,
      description: 'Of the rules that match, the one with the highest priority decides.',
    }),
  },
  ENTRY,
)

export const OVERRIDE_ENTRY = Type.Object(
  {
    client: Type.String({ maxLength: MAX_CLIENT_LENGTH, description: 'ip:203.0.113.7, ip:10.0.0.0/8 or user:<id>.' }),
    effect: Type.String({ maxLength: MAX_EFFECT_LENGTH, description: 'deny, allow, or a rate.' }),
    algorithm,
    pathPattern: Type.String({
      default: '',
      maxLength: MAX_PATTERN_LENGTH,
      description: 'A regular expression (RE2) that is searched for in the path. Empty: every path.',
    }),
    expiresAt: Type.Union([Type.String({ format: 'date-time' }), Type.Null()], {
      default: null,
      description: 'Until when it holds, such as 2030-01-31T12:00:00Z; null: for good. Expired ones are left out.',
    }),
    note: Type.String({ default: '', maxLength: MAX_NOTE_LENGTH, description: 'A note.' }),
  },
  ENTRY,
)

/** One rule of a document, complete. */
export type RuleEntry = Readonly<Type.Static<typeof RULE_ENTRY>>
/** One override of a document, complete. */
export type OverrideEntry = Readonly<Type.Static<typeof OVERRIDE_ENTRY>>

/** What an export answers: all rules by priority and name, all overrides that have not expired by client and path. */
export interface RuleDocument {
  readonly $schema: string
  readonly version: typeof DOCUMENT_VERSION
  readonly rules: readonly RuleEntry[]
  readonly overrides: readonly OverrideEntry[]
}

/** The fields of a document besides its lists. */
export const DOCUMENT_FIELDS = {
  $schema: Type.Optional(Type.String({ description: 'For editors: where this schema is.' })),
  version: Type.Literal(DOCUMENT_VERSION, { description: 'The version of this format.' }),
}

/** The JSON Schema of what an import takes: fields with a default may be left out, and so may one of the two lists. */
export function documentSchema(): object {
  const document = Type.Object(
    {
      ...DOCUMENT_FIELDS,
      rules: Type.Optional(
        Type.Array(asGiven(RULE_ENTRY), { description: 'All rules: an import deletes the others.' }),
      ),
      overrides: Type.Optional(
        Type.Array(asGiven(OVERRIDE_ENTRY), { description: 'All overrides: an import deletes the others.' }),
      ),
    },
    { additionalProperties: false, anyOf: [{ required: ['rules'] }, { required: ['overrides'] }] },
  )
  return {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    title: 'Rules and overrides of fastify-smart-ratelimit',
    ...document,
  }
}

/** The values of the fields that may be left out. */
export function defaultsOf({ properties }: Type.TObject): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(properties).flatMap(([field, schema]) => ('default' in schema ? [[field, schema.default]] : [])),
  )
}

function asGiven(entry: Type.TObject): Type.TObject {
  const withDefaults = Object.keys(defaultsOf(entry))
  return Type.Object(
    Object.fromEntries(
      Object.entries(entry.properties).map(([field, schema]) => [
        field,
        withDefaults.includes(field) ? Type.Optional(schema) : schema,
      ]),
    ),
    ENTRY,
  )
}
