/** The OpenAPI document: `@fastify/swagger` makes it of the routes' own schemas. */
import { readFileSync } from 'node:fs'
import type { FastifyDynamicSwaggerOptions } from '@fastify/swagger'
import type { FastifySchema } from 'fastify'
import { packagePath } from '../../ground/package-root.js'
import { TAGS } from './api-scope.js'
import { SCHEMA_ID, SHARED_SCHEMAS, shared } from './entry-schemas.js'

/** The decorator that answers the document. The host may have its own `swagger`. */
export const DOCUMENT = 'rateLimitOpenApi'

/** The errors of every route. */
const ERRORS: Readonly<Record<number, string>> = {
  401: 'Without a role: no token, or one that is unknown, revoked or expired.',
  403: 'The role does not permit this.',
  429: 'Too many refused requests.',
  503: 'The database does not respond.',
}
const INPUT_ERRORS: Readonly<Record<number, string>> = { 400: 'A field is wrong; nothing was written.' }
const BODY_ERRORS: Readonly<Record<number, string>> = { 413: 'The body is too long.', 415: 'The body is not JSON.' }
const PARAMETER_ERRORS: Readonly<Record<number, string>> = { 404: 'It does not exist.' }
const LOCK_ERRORS: Readonly<Record<number, string>> = { 412: 'If-Match is no longer its ETag; nothing was written.' }
const CONFLICT: Readonly<Record<number, string>> = {
  409: 'Another row, a later change, or a stored value that cannot be read is in the way.',
}

/**
 * Returns the options of `@fastify/swagger`.
 *
 * @param mount the path of the API
 */
export function openApiOptions(mount: string): FastifyDynamicSwaggerOptions {
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
      tags: Object.entries(TAGS).map(([name, description]) => ({ name, description })),
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
    transform: ({ schema, url, route }) => ({
      schema: schema?.operationId === undefined ? schema : withErrors(schema, route.method === 'GET'),
      url: url.replace('*', '{name}'),
    }),
  }
}

/** Returns the schema of an operation with the errors that follow from what it takes. */
function withErrors({ hide, ...schema }: FastifySchema, isRead: boolean): FastifySchema {
  const { params, querystring, body, headers, response } = schema
  const errors = {
    ...(params || querystring || body || headers ? INPUT_ERRORS : {}),
    ...(body ? BODY_ERRORS : {}),
    ...(params ? PARAMETER_ERRORS : {}),
    ...(isRead ? {} : CONFLICT),
    ...(headers ? LOCK_ERRORS : {}),
    ...ERRORS,
  }
  const problems = Object.entries(errors).map(([status, description]) => {
    return [status, { description, content: { 'application/problem+json': { schema: shared('Problem') } } }]
  })
  return { ...schema, response: { ...Object(response), ...Object.fromEntries(problems) } }
}
