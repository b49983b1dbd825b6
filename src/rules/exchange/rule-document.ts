/** The file of `ratelimit rules export`, and its JSON Schema. */

import type { Field, Kind } from '../../ground/field.js'
import { type Description, defaultsFor } from '../description.js'
import { OVERRIDES, type OverrideEntry } from '../overrides/override.js'
import { RULES } from '../rule.js'
import type { RuleEntry } from '../rule-fields.js'

/** The version of the format: increased when an older version of this package could misread a newer document. */
export const DOCUMENT_VERSION = 1
/** The path of the schema for editors, relative to the folder of an app that has this package. */
export const SCHEMA_PATH = './node_modules/fastify-smart-ratelimit/rules.schema.json'

/** An exported document: all rules by group, priority and name, all overrides that have not expired by client and path. */
export interface RuleDocument {
  readonly $schema: string
  readonly version: typeof DOCUMENT_VERSION
  readonly rules: readonly RuleEntry[]
  readonly overrides: readonly OverrideEntry[]
}

const KINDS: Readonly<Record<Kind, object>> = {
  text: { type: 'string' },
  boolean: { type: 'boolean' },
  integer: { type: 'integer' },
  moment: { anyOf: [{ type: 'string', format: 'date-time' }, { type: 'null' }] },
}

/** Returns the JSON Schema of an import: fields with a default are optional, and so is one of the two lists. */
export function documentSchema() {
  return {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    title: 'Rules and overrides of fastify-smart-ratelimit',
    type: 'object',
    required: ['version'],
    properties: {
      $schema: { type: 'string', description: 'For editors: where this schema is.' },
      version: { type: 'number', const: DOCUMENT_VERSION, description: 'The version of this format.' },
      rules: listSchema(RULES, 'All rules: an import deletes the others.'),
      overrides: listSchema(OVERRIDES, 'All overrides: an import deletes the others.'),
    },
    additionalProperties: false,
    anyOf: [{ required: ['rules'] }, { required: ['overrides'] }],
  }
}

function listSchema(listed: Writable, description: string): object {
  const defaults = defaultsFor(listed.fields)
  const required = Object.keys(listed.fields).filter((name) => !(name in defaults))
  return { type: 'array', items: { ...writtenSchema(listed), required }, description }
}

type Writable = Pick<Description, 'fields' | 'shorthand'>

/**
 * Returns the JSON Schema of fields that are written, in a document or in a request to the API.
 *
 * @param parsed adds the parser of a field to its schema
 */
export function writtenSchema(
  { fields, shorthand }: Writable,
  parsed: (parse: (value: unknown) => unknown, schema: object) => object = (_, schema) => schema,
) {
  return {
    type: 'object',
    properties: {
      ...Object.fromEntries(
        Object.entries(fields).map(([name, field]) => [name, parsed(field.parse, fieldSchema(field))]),
      ),
      ...(shorthand && { [shorthand.name]: parsed((value) => shorthand.parse(value, 0), shorthand.schema) }),
    },
    additionalProperties: false,
  }
}

/**
 * Returns the JSON Schema of a field.
 *
 * @param state `stored` for the value of a row: raw SQL may have written an invalid one, and it has no default
 */
export function fieldSchema(field: Field, state: 'input' | 'stored' = 'input'): object {
  const { kind, schema, about } = field
  if (state === 'stored')
    return { ...KINDS[kind], ...(schema && 'enum' in schema && { enum: schema.enum }), description: about }
  const standard = 'default' in field ? { default: field.default } : {}
  return { ...KINDS[kind], ...standard, ...schema, description: about }
}
