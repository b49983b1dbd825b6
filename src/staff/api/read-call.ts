/** Reads what a request says, by the schemas of its route. */
import type { FastifyRequest } from 'fastify'
import type { TObject, TSchema } from 'typebox'
import { Check, Errors } from 'typebox/value'
import { requestedSearch } from '../sign-in/request-query.js'
import type { ApiRoute } from './api-route.js'
import { type InputPart, InvalidInputError, toWrongFields, type WrongField } from './problems.js'

export interface Read {
  readonly params: unknown
  readonly query: Readonly<Record<string, unknown>>
  readonly body: unknown
}

/** @throws InvalidInputError with every wrong field */
export function readCall(route: ApiRoute, request: FastifyRequest): Read {
  const params = toParams(route, request)
  const query = readQuery(route, request)
  const wrong = [...checked(route.params, params, 'path'), ...checked(route.query, query, 'query')]
  const { body } = request
  if (route.body !== undefined) wrong.push(...checkedBody(route, body, params))
  else if (body !== undefined && body !== null)
    wrong.push({ in: 'body', field: '', detail: 'is not taken here: send none' })
  if (wrong.length > 0) throw new InvalidInputError(firstOfEach(wrong))
  return { params, query, body }
}

function firstOfEach(wrong: readonly WrongField[]): WrongField[] {
  const seen = new Set<string>()
  return wrong.filter(({ in: part, field }) => {
    const place = `${part} ${field}`
    const isFirst = !seen.has(place)
    seen.add(place)
    return isFirst
  })
}

/** Reads the query from the URL itself, since the shape of `request.query` is the host's choice. */
export function readQuery({ query }: ApiRoute, request: FastifyRequest): Readonly<Record<string, unknown>> {
  const given = new URLSearchParams(requestedSearch(request))
  const names = [...new Set(given.keys())]
  return Object.fromEntries(
    names.map((name) => {
      const texts = given.getAll(name)
      // A parameter that is given twice stays a list, which no schema takes.
      return [name, texts.length > 1 ? texts : toValue(propertyOf(query, name), texts[0] ?? '')]
    }),
  )
}

/** The names of wildcards and parameters, which are texts. */
function toParams({ path, params }: ApiRoute, request: FastifyRequest): unknown {
  const given = Object(request.params)
  const [, name] = /\{(\w+)\}/.exec(path) ?? []
  if (name === undefined) return undefined
  const text = String(given['*'] ?? given[name])
  return { [name]: toValue(propertyOf(params, name), text) }
}

function propertyOf(schema: TObject | undefined, name: string): TSchema | undefined {
  return schema !== undefined && Object.hasOwn(schema.properties, name) ? schema.properties[name] : undefined
}

/** Returns a text as the type of its schema, where it is one. */
function toValue(schema: TSchema | undefined, text: string): unknown {
  const type: unknown = schema && Reflect.get(schema, 'type')
  if (type === 'boolean') return text === 'true' ? true : text === 'false' ? false : text
  const isNumber = (type === 'integer' || type === 'number') && /^-?\d{1,15}(?:\.\d{1,9})?$/.test(text)
  return isNumber ? Number(text) : text
}

function checkedBody({ body: schema, explain, isLarge }: ApiRoute, body: unknown, params: unknown): WrongField[] {
  if (body === undefined || body === null) {
    return [{ in: 'body', field: '', detail: 'is missing: send JSON with Content-Type: application/json' }]
  }
  if (isLarge) return isObject(body) ? [] : [{ in: 'body', field: '', detail: 'must be an object' }]
  const better = isObject(body) ? (explain?.(body, params) ?? {}) : {}
  const wrong = checked(schema, body, 'body').filter(({ field }) => !Object.hasOwn(better, field))
  // What the address says is a part of the row.
  const isInAddress = (field: string) => Object.hasOwn(Object(params), field) && !Object.hasOwn(Object(body), field)
  const named = toWrongFields('body', better).map(
    (each): WrongField => (isInAddress(each.field) ? { ...each, in: 'path' } : each),
  )
  return [...named, ...wrong]
}

function isObject(value: unknown): boolean {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function checked(schema: TSchema | undefined, value: unknown, part: InputPart): WrongField[] {
  if (schema === undefined) {
    const names = isObject(value) ? Object.keys(Object(value)) : []
    return names.map((field) => ({ in: part, field, detail: 'does not exist: none is taken here' }))
  }
  if (part !== 'body') {
    const withNul = Object.entries(Object(value)).filter(([, text]) => typeof text === 'string' && text.includes('\0'))
    // PostgreSQL refuses such a parameter, and no text that is stored has one.
    if (withNul.length > 0) return withNul.map(([field]) => ({ in: part, field, detail: 'has a NUL: give it without' }))
  }
  if (Check(schema, value)) return []
  const wrong = new Map<string, WrongField>()
  for (const { keyword, instancePath, message, params } of Errors(schema, value)) {
    const missing = keyword === 'required' ? namesIn(params, 'requiredProperties') : []
    const unknown = keyword === 'additionalProperties' ? namesIn(params, 'additionalProperties') : []
    // No value is right for a property that does not exist.
    const detail =
      unknown.length > 0 || keyword === 'boolean'
        ? unknownDetail(schema)
        : missing.length > 0
          ? 'is required'
          : (remedyFor(keyword, params) ?? message)
    for (const name of [...missing, ...unknown, ...(missing.length + unknown.length === 0 ? [''] : [])]) {
      const field = toField(`${instancePath}${name === '' ? '' : `/${name}`}`)
      if (!wrong.has(field)) wrong.set(field, { in: part, field, detail })
    }
  }
  return [...wrong.values()]
}

/** Returns what to give where the validator does not say it. */
function remedyFor(keyword: string, params: object): string | undefined {
  if (keyword === 'enum') return `must be one of ${namesIn(params, 'allowedValues').join(', ')}`
  if (keyword !== 'format') return undefined
  return 'is no moment: give one such as 2027-01-31T12:00:00Z, with each + as %2B in an address'
}

function namesIn(params: object, name: string): string[] {
  const names: unknown = Reflect.get(params, name)
  return Array.isArray(names) ? names.map(String) : []
}

function unknownDetail(schema: TSchema): string {
  const properties: unknown = Reflect.get(schema, 'properties')
  return `does not exist: known are ${Object.keys(Object(properties)).join(', ')}`
}

/** Spells a JSON pointer as messages name fields: `rules[3].rate`. */
function toField(pointer: string): string {
  return pointer
    .split('/')
    .slice(1)
    .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'))
    .reduce((path, part) => (/^\d+$/.test(part) ? `${path}[${part}]` : path === '' ? part : `${path}.${part}`), '')
}
