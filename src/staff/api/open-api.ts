/** The OpenAPI document: `@fastify/swagger` makes it of the routes' own schemas. */
import { readFileSync } from 'node:fs'
import type { FastifyDynamicSwaggerOptions } from '@fastify/swagger'
import { packagePath } from '../../ground/package-root.js'
import { API_TAGS, type ApiAnswer, type ApiRoute } from './api-route.js'
import { SCHEMA_ID, SHARED_SCHEMAS, shared } from './entry-schemas.js'

/** The decorator that answers the document. The host may have its own `swagger`. */
export const DOCUMENT = 'rateLimitOpenApi'

/** The errors of every route. */
const ERRORS: Readonly<Record<number, string>> = {
  401: 'Without a role: no token, or one that is unknown, revoked or expired.',
  403: 'The role is too small.',
  429: 'Too many refused requests.',
  503: 'The database does not answer.',
}
const INPUT_ERRORS: Readonly<Record<number, string>> = { 400: 'A field is wrong; nothing was written.' }
const BODY_ERRORS: Readonly<Record<number, string>> = { 413: 'The body is too long.', 415: 'The body is no JSON.' }
const PARAMETER_ERRORS: Readonly<Record<number, string>> = { 404: 'It does not exist.' }
const LOCK_ERRORS: Readonly<Record<number, string>> = { 412: 'If-Match is not its ETag any more; nothing was written.' }
const CONFLICT: Readonly<Record<number, string>> = {
  409: 'Another row, a later change, or a stored value that cannot be read is in the way.',
}

/**
 * Returns the options of `@fastify/swagger`.
 *
 * @param mount the path of the API
 * @param routeOf returns the route of an address; undefined for what is not in the document
 */
export function openApiOptions(
  mount: string,
  routeOf: (method: string, url: string) => ApiRoute | undefined,
): FastifyDynamicSwaggerOptions {
  return {
    decorator: DOCUMENT,
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'Rate limits',
        description: 'Rules, overrides, history and reports of fastify-smart-ratelimit, for pipelines and tools.',
        version: JSON.parse(readFileSync(packagePath('package.json'), 'utf8')).version,
        license: { name: 'MIT', identifier: 'MIT' },
      },
      servers: [{ url: mount, description: 'This server.' }],
      tags: Object.entries(API_TAGS).map(([name, description]) => ({ name, description })),
      security: [{ token: [] }],
      components: {
        securitySchemes: {
          token: { type: 'http', scheme: 'bearer', description: 'A token of ratelimit token create.' },
        },
      },
    },
    refResolver: {
      buildLocalReference: ({ $id }, _base, _fragment, index) => {
        const id = String($id)
        return id.startsWith(SCHEMA_ID) ? id.slice(SCHEMA_ID.length) : `host-${index}`
      },
    },
    transformObject: (made) => {
      if (!('openapiObject' in made)) return made.swaggerObject
      const schemas = Object(made.openapiObject.components?.schemas)
      // The scope of the API inherits the schemas of the host.
      for (const name of Object.keys(schemas)) {
        if (!Object.hasOwn(SHARED_SCHEMAS, name)) Reflect.deleteProperty(schemas, name)
      }
      return made.openapiObject
    },
    transform: ({ schema, url, route }) => {
      const found = routeOf(String(route.method), url)
      return found === undefined ? { schema, url } : { schema: toSwaggerSchema(found), url: `${mount}${found.path}` }
    },
  }
}

function toSwaggerSchema(route: ApiRoute) {
  const { id, tag, summary, about, params, query, body, locks, answers } = route
  const errors = {
    ...(params || query || body || locks ? INPUT_ERRORS : {}),
    ...(body ? BODY_ERRORS : {}),
    ...(params ? PARAMETER_ERRORS : {}),
    ...(route.method === 'GET' ? {} : CONFLICT),
    ...(locks ? LOCK_ERRORS : {}),
    ...ERRORS,
  }
  return {
    operationId: id,
    tags: [tag],
    summary,
    ...(about !== undefined && { description: about }),
    ...(params && { params }),
    ...(query && { querystring: query }),
    ...(body && { body }),
    ...(locks && { headers: IF_MATCH }),
    response: {
      ...Object.fromEntries(Object.entries(answers).map(([status, answer]) => [status, toResponse(answer)])),
      ...Object.fromEntries(Object.entries(errors).map(([status, text]) => [status, toProblem(text)])),
    },
  }
}

const IF_MATCH = {
  type: 'object',
  properties: {
    'if-match': { type: 'string', description: 'Its ETag: nothing is written when it was changed since.' },
  },
}

function toResponse({ about, schema, tagged, located }: ApiAnswer) {
  const headers = {
    ...(tagged && { ETag: { type: 'string', description: 'For If-Match.' } }),
    ...(located && { Location: { type: 'string', description: 'Its address.' } }),
  }
  return {
    description: about,
    ...(Object.keys(headers).length > 0 && { headers }),
    ...(schema === undefined ? { type: 'null' } : { content: { 'application/json': { schema } } }),
  }
}

function toProblem(description: string) {
  return { description, content: { 'application/problem+json': { schema: shared('Problem') } } }
}
