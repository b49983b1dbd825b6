/** The schemas of rules, overrides and their history. */
import Type, { type TProperties, type TSchema } from 'typebox'
import { errorMessage } from '../../ground/errors.js'
import {
  type Description,
  defaultsFor,
  type Entry,
  type FieldTable,
  fieldEntries,
  type Values,
} from '../../rules/description.js'
import { DOCUMENT_VERSION, documentSchema, fieldSchema, writtenSchema } from '../../rules/exchange/rule-document.js'
import { CHANGE_SOURCES } from '../../rules/history/actor.js'
import { CHANGE_ENTITIES } from '../../rules/history/history.js'
import { OVERRIDES, type OverrideEntry } from '../../rules/overrides/override.js'
import { RULES } from '../../rules/rule.js'
import type { RuleEntry } from '../../rules/rule-fields.js'

/** An override with its id. */
export interface StoredOverride extends OverrideEntry {
  readonly id: number
}

/** The beginning of the ids of shared schemas: the host may have schemas of the same names. */
export const SCHEMA_ID = 'rate-limit-api-'

/** Returns a schema that stands for the shared one of this name. */
export function shared<Value>(name: keyof typeof SHARED_SCHEMAS) {
  return Type.Unsafe<Value>({ $ref: `${SCHEMA_ID}${name}#` })
}

/** Creates the schema of an object that has no other properties. */
export function closed<Properties extends TProperties>(properties: Properties) {
  return Type.Object(properties, { additionalProperties: false })
}

/** Adds a parser to a schema, which throws the message for an invalid value. */
export function parsedBy<Schema extends TSchema>(parse: (value: unknown) => unknown, schema: Schema) {
  const problem = (value: unknown) => {
    try {
      parse(value)
    } catch (error) {
      return errorMessage(error)
    }
    return ''
  }
  return Type.Refine(schema, (value) => problem(value) === '', problem)
}

/** Creates the schema of fields to be written: an absent one keeps its value, or takes its default. */
export function writtenFields(
  description: Pick<Description, 'fields' | 'shorthand'>,
  required: readonly string[] = [],
) {
  return Type.Unsafe<Values>({
    ...writtenSchema(description, parsedBy),
    ...(required.length > 0 ? { required } : { minProperties: 1 }),
  })
}

/** Creates the schema of a stored row: it has every field. */
function entrySchema(fields: FieldTable, about: string, more: TProperties = {}): TSchema {
  const properties = Object.fromEntries(
    fieldEntries(fields).map(([name, field]) => [name, Type.Unsafe(fieldSchema(field, 'stored'))]),
  )
  return Type.Object({ ...more, ...properties }, { description: about, additionalProperties: false })
}

const Fields = Type.Union([
  Type.Record(Type.String(), Type.Union([Type.String(), Type.Number(), Type.Boolean(), Type.Null()])),
  Type.Null(),
])

const Change = Type.Object(
  {
    id: Type.Integer(),
    changedAt: Type.String({ format: 'date-time' }),
    actor: Type.String({ description: 'Who made the change; empty where that is not known.' }),
    source: Type.Enum([...CHANGE_SOURCES], { description: 'Where the change came from.' }),
    entity: Type.Enum([...CHANGE_ENTITIES]),
    name: Type.String({ description: "The rule's name, or the client of the override or the incident." }),
    action: Type.Enum(['create', 'update', 'delete']),
    actionId: Type.String({
      description: 'The identity that all changes of one action share, which are reverted together; empty for raw SQL.',
    }),
    before: Fields,
    after: Fields,
  },
  { description: 'One change. Moments in its fields are milliseconds since the epoch.', additionalProperties: false },
)

function differenceSchema(entry: TSchema, identity: readonly string[]): TSchema {
  return Type.Object({
    created: Type.Array(entry),
    updated: Type.Array(
      Type.Object({
        ...Object.fromEntries(identity.map((name) => [name, Type.String()])),
        changes: Type.Record(Type.String(), Type.Array(Type.Unknown(), { minItems: 2, maxItems: 2 }), {
          description: 'The fields that differ, as [before, after].',
        }),
      }),
    ),
    deleted: Type.Array(entry),
    unchanged: Type.Integer(),
  })
}

const OVERRIDE_FIELDS = entrySchema(OVERRIDES.fields, 'An override, as exported files have it.')

/** The schemas that several routes name. */
export const SHARED_SCHEMAS = {
  Rule: entrySchema(RULES.fields, 'A rule.'),
  Override: entrySchema(OVERRIDES.fields, 'An override.', { id: Type.Integer() }),
  OverrideEntry: OVERRIDE_FIELDS,
  Change,
  Problem: Type.Object(
    {
      type: Type.String(),
      title: Type.String(),
      status: Type.Integer(),
      detail: Type.String({ description: 'What is wrong, and what to do.' }),
      code: Type.String(),
      errors: Type.Optional(
        Type.Array(
          Type.Object({
            in: Type.Enum(['path', 'query', 'header', 'body']),
            field: Type.String({
              description: 'The field, such as rate or rules[3].rate; empty for the whole request.',
            }),
            detail: Type.String(),
          }),
          { description: 'One entry for every wrong field.' },
        ),
      ),
    },
    { description: 'An error, in the format of RFC 9457.' },
  ),
}

export const RuleSchema = shared<RuleEntry>('Rule')
export const OverrideSchema = shared<StoredOverride>('Override')
export const ChangeSchema = shared('Change')

export const DifferenceSchema = Type.Object({
  rules: differenceSchema(RuleSchema, ['name']),
  overrides: differenceSchema(shared('OverrideEntry'), ['client', 'pathPattern']),
  expired: Type.Integer({ description: 'Expired overrides in the document, which were left out.' }),
  applied: Type.Boolean({ description: 'Whether it was written.' }),
})

export const DocumentSchema = Type.Object({
  $schema: Type.String(),
  version: Type.Literal(DOCUMENT_VERSION),
  rules: Type.Array(RuleSchema),
  overrides: Type.Array(shared('OverrideEntry')),
})

/** A document to import: each list may be left out, and each field with a default. */
export const DocumentToImport = Type.Unsafe<Values>(importSchema())

function importSchema(): object {
  const { type, required, properties, additionalProperties } = documentSchema()
  return { type, required, properties, additionalProperties }
}

/** Creates the schema of a page of a list. */
export function pageSchema(entries: TSchema) {
  return Type.Object({
    items: Type.Array(entries),
    nextCursor: Type.Union([Type.String(), Type.Null()], {
      description: 'The cursor of the next page; null at the end.',
    }),
  })
}

/** The parameters of every list. */
export const PAGE = {
  limit: Type.Optional(
    Type.Integer({ minimum: 1, maximum: 1_000, default: 100, description: 'The maximum number of entries.' }),
  ),
  cursor: Type.Optional(Type.String({ maxLength: 2_000, description: 'The nextCursor of the page before.' })),
}
export const DEFAULT_LIMIT = 100

/** Returns given fields with the defaults of the others, as a row to be written, which is validated then. */
export function withDefaults<Table extends FieldTable>(fields: Table, values: Values): Entry<Table> {
  return { ...defaultsFor(fields), ...values } as Entry<Table>
}
