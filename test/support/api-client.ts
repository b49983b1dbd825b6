/** The client that is generated from the API's document, whose answers are compared with that document. */
import assert from 'node:assert/strict'
import createClient from 'openapi-fetch'
import type { TSchema } from 'typebox'
import { Check, Errors } from 'typebox/value'
import type { paths } from '../generated/api-types.js'

export interface ApiDocument {
  readonly paths: Readonly<Record<string, Readonly<Record<string, { readonly responses: object }>>>>
  readonly components: { readonly schemas: Readonly<Record<string, TSchema>> }
}

/**
 * Creates a client.
 *
 * @param document every answer must be as it says
 */
export function createApiClient<Paths extends object = paths>(baseUrl: string, token: string, document: ApiDocument) {
  const client = createClient<Paths>({ baseUrl, headers: { authorization: `Bearer ${token}` } })
  client.use({
    async onResponse({ schemaPath, request, response }) {
      const answer = response.clone()
      const [type] = (answer.headers.get('content-type') ?? '').split(';')
      const { responses } = document.paths[schemaPath]?.[request.method.toLowerCase()] ?? {}
      const documented: unknown = Reflect.get(Object(responses), answer.status)
      assert.ok(documented, `${request.method} ${schemaPath} answers ${answer.status}, which is not documented`)
      const { content }: { content?: Record<string, { schema: TSchema }> } = Object(documented)
      const text = await answer.text()
      if (content === undefined) return assert.equal(text, '') ?? undefined
      const schema = content[type ?? '']?.schema
      assert.ok(schema, `${request.method} ${schemaPath} answers ${type}, which is not documented`)
      const closed = resolved(schema, document)
      const value: unknown = JSON.parse(text)
      const wrong = Check(closed, value) ? [] : Errors(closed, value)
      assert.deepEqual(wrong, [], `${request.method} ${schemaPath}: ${text.slice(0, 500)}`)
      return undefined
    },
  })
  return client
}

/** Returns a schema with what it refers to in place. */
function resolved(schema: unknown, document: ApiDocument): TSchema {
  return replaced(schema, (ref) =>
    resolved(document.components.schemas[ref.split('/').at(-1) ?? ''], document),
  ) as TSchema
}

function replaced(value: unknown, resolve: (ref: string) => unknown): unknown {
  if (Array.isArray(value)) return value.map((each) => replaced(each, resolve))
  if (typeof value !== 'object' || value === null) return value
  const ref: unknown = Reflect.get(value, '$ref')
  if (typeof ref === 'string') return resolve(ref)
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, replaced(each, resolve)]))
}
