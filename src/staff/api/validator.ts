/** Validates requests by the TypeBox schemas of their routes, for Fastify. */
import type { FastifyRequest, FastifySchemaCompiler } from 'fastify'
import { IsRefine, type TSchema } from 'typebox'
import { Check, Errors } from 'typebox/value'
import { requestedSearch } from '../shell/request-query.js'
import { type InputPart, InvalidInputError, MAX_FIELDS, type WrongField } from './problems.js'

const PARTS: Readonly<Record<string, InputPart>> = { params: 'path', querystring: 'query', headers: 'header' }

type Wrong = Omit<WrongField, 'in'>
type Fields = Readonly<Record<string, unknown>>

const MISSING: Wrong = { field: '', detail: 'is missing: send JSON with Content-Type: application/json' }

/** Compiles the schema of one part of a request. An invalid part is an InvalidInputError with every wrong field. */
export const compileValidator: FastifySchemaCompiler<TSchema> = ({ schema, httpPart = '' }) => {
  const part = PARTS[httpPart] ?? 'body'
  const isText = part === 'path' || part === 'query'
  return function validatePart(input: unknown) {
    const value = isText ? toValues(schema, input) : input
    const refused = isText ? withNul(input) : part === 'body' && input === null ? [MISSING] : []
    const wrong = refused.length > 0 || Check(schema, value) ? refused : wrongIn(schema, value)
    return wrong.length > 0 ? { error: invalidPart(part, wrong) } : { value }
  }
}

function invalidPart(part: InputPart, wrong: readonly Wrong[]): InvalidInputError {
  return new InvalidInputError(wrong.map((each) => ({ in: part, ...each })))
}

/**
 * Prepares a request for its validation: the query is read from the address, since the shape of `request.query` is the
 * host's choice, and a wildcard is a name.
 *
 * @throws InvalidInputError for a query or a body of a route that takes none
 */
export async function prepareInput(request: FastifyRequest): Promise<void> {
  const parameters = new URLSearchParams(requestedSearch(request))
  const names = [...new Set(parameters.keys())]
  request.query = Object.fromEntries(
    names.map((name) => {
      const texts = parameters.getAll(name)
      // A parameter that is sent twice stays a list, which no schema takes.
      return [name, texts.length > 1 ? texts : texts[0]]
    }),
  )
  const { '*': name }: { '*'?: unknown } = Object(request.params)
  if (name !== undefined) request.params = { name }
  const { schema } = request.routeOptions
  if (schema?.querystring === undefined && names.length > 0) {
    throw invalidPart(
      'query',
      names.map((field) => ({ field, detail: 'does not exist: leave it out' })),
    )
  }
  if (schema?.body === undefined && request.body !== undefined && request.body !== null) {
    throw invalidPart('body', [{ field: '', detail: 'is not accepted here: send none' }])
  }
}

/** PostgreSQL refuses a parameter with a NUL, and no text that is stored has one. */
function withNul(input: unknown): Wrong[] {
  const fields = Object.entries(Object(input)).filter(([, text]) => typeof text === 'string' && text.includes('\0'))
  return fields.map(([field]) => ({ field, detail: 'contains NUL: remove it' }))
}

/** Returns the texts of an address in the types of their schemas, where they are such. */
function toValues(schema: TSchema, input: unknown): Fields {
  const { properties } = objectSchema(schema)
  return Object.fromEntries(
    Object.entries(Object(input)).map(([name, text]) => [
      name,
      typeof text === 'string' && Object.hasOwn(properties, name) ? toValue(properties[name], text) : text,
    ]),
  )
}

function toValue(schema: TSchema | undefined, text: string): unknown {
  const { type }: { type?: unknown } = Object(schema)
  if (type === 'boolean') return text === 'true' ? true : text === 'false' ? false : text
  const isNumber = (type === 'integer' || type === 'number') && /^-?\d{1,15}(?:\.\d{1,9})?$/.test(text)
  return isNumber ? Number(text) : text
}

/** Returns the wrong fields of an invalid value: TypeBox ends after eight errors, of which a field may have several. */
function wrongIn(schema: TSchema, value: unknown, path = ''): Wrong[] {
  const { properties, required, additionalProperties } = objectSchema(schema)
  const fieldOf = (name: string) => (path === '' ? name : `${path}.${name}`)
  const wrong: Wrong[] = []
  if (isObject(value)) {
    const unknown = `does not exist: give one of ${Object.keys(properties).join(', ')}`
    for (const name of Object.keys(value)) {
      if (wrong.length >= MAX_FIELDS) break
      const property = Object.hasOwn(properties, name) ? properties[name] : undefined
      if (property !== undefined && !Check(property, value[name]))
        wrong.push(...wrongIn(property, value[name], fieldOf(name)))
      else if (property === undefined && additionalProperties === false)
        wrong.push({ field: fieldOf(name), detail: unknown })
    }
    for (const name of required)
      if (!Object.hasOwn(value, name)) wrong.push({ field: fieldOf(name), detail: 'is required' })
  }
  return wrong.length > 0 ? wrong : [wrongValue(schema, value, path)]
}

/** Returns what is wrong with a value: in the words of its own check, or of the validator, with what to send instead. */
function wrongValue(schema: TSchema, value: unknown, path: string): Wrong {
  const [error] = Errors(schema, value)
  const [refinement] = IsRefine(schema) ? schema['~refine'] : []
  const choices = error?.keyword === 'enum' ? `must be one of ${error.params.allowedValues.join(', ')}` : ''
  const field = [path, ...(error?.instancePath ?? '').split('/').slice(1)].filter((name) => name !== '').join('.')
  return { field, detail: refinement?.error(value) || choices || (error?.message ?? 'is wrong') }
}

interface ObjectSchema {
  readonly properties?: Readonly<Record<string, TSchema>>
  readonly required?: readonly string[]
  readonly additionalProperties?: unknown
}

/** Returns the keywords of a schema that objects are validated by. */
function objectSchema(schema: ObjectSchema): Required<ObjectSchema> {
  return { properties: {}, required: [], additionalProperties: true, ...schema }
}

function isObject(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
