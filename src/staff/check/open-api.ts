/** The OpenAPI document of checks over HTTP. What proxies ask is theirs to say: the guides have it. */
import { readFileSync } from 'node:fs'
import { packagePath } from '../../ground/package-root.js'
import { SHARED_SCHEMAS } from '../api/entry-schemas.js'

const REQUEST_FIELDS = {
  method: { type: 'string', description: 'Such as GET.' },
  path: { type: 'string', description: 'The path as the client sent it, with or without a query.' },
  ip: { type: 'string', description: 'The address of the client.' },
  user: {
    anyOf: [{ type: 'string' }, { type: 'number' }, { type: 'null' }, { type: 'object' }],
    description: 'The id of the user, or the user with all fields that conditions and keys read.',
  },
  headers: {
    type: 'object',
    additionalProperties: { anyOf: [{ type: 'string' }, { type: 'array', items: { type: 'string' } }] },
    description: 'The headers that rules read, in any case.',
  },
  cost: {
    type: 'integer',
    minimum: 1,
    maximum: 2147483647,
    description: 'The cost of the request, by which that of a rule is multiplied; 1 unless given.',
  },
}

const LIMIT_FIELDS = {
  policy: { type: 'string', description: 'What decided: the name of a rule, a prefix, default, override and so on.' },
  rule: { type: ['string', 'null'], description: 'The name of the rule; null where none decided.' },
  client: { type: 'string', description: 'Who was counted, such as ip:203.0.113.7.' },
  key: { type: 'string', description: 'The key of the event in the log.' },
}

const COUNTED = {
  allowed: { type: 'boolean', description: 'Whether the request is within the limit.' },
  count: { type: 'integer', description: "The client's usage, with this request." },
  limit: { type: 'integer' },
  remaining: { type: 'integer' },
  resetMs: { type: 'integer', description: 'The milliseconds until nothing is used.' },
  retryAfterMs: {
    type: ['integer', 'null'],
    description: 'The milliseconds until the same request is allowed; null where waiting does not help.',
  },
  unavailable: { type: 'boolean', description: 'There where the store did not answer.' },
  windows: { type: 'array', items: { type: 'object' }, description: 'There where the rate has several windows.' },
}

const SCHEMAS = {
  Request: closed(REQUEST_FIELDS, ['method', 'path', 'ip']),
  Check: closed(
    {
      allowed: { type: 'boolean', description: 'Whether the request goes on.' },
      status: { type: ['integer', 'null'], description: 'The status of a refusal; null where the request goes on.' },
      headers: {
        type: 'object',
        additionalProperties: { type: 'string' },
        description: 'The headers to send to the client.',
      },
      body: { type: ['string', 'null'], description: 'The body of a refusal; null where the request goes on.' },
      decision: {
        anyOf: [ref('Decision'), { type: 'null' }],
        description: 'The decision of the limit; null where none applies.',
      },
      left_out: {
        type: 'array',
        items: { type: 'string' },
        description: 'The rules left out, since they count what runs at a time, or responses.',
      },
    },
    ['allowed', 'status', 'headers', 'body', 'decision', 'left_out'],
  ),
  Decision: closed(
    {
      ...COUNTED,
      ...LIMIT_FIELDS,
      limits: { type: 'array', items: ref('Limit'), description: 'All limits of the request.' },
    },
    ['allowed', 'count', 'limit', 'remaining', 'resetMs', 'retryAfterMs', ...Object.keys(LIMIT_FIELDS), 'limits'],
  ),
  Limit: closed(
    {
      ...LIMIT_FIELDS,
      decision: {
        anyOf: [
          closed(COUNTED, ['allowed', 'count', 'limit', 'remaining', 'resetMs', 'retryAfterMs']),
          { type: 'null' },
        ],
        description: 'Null where the limit was not asked.',
      },
    },
    [...Object.keys(LIMIT_FIELDS), 'decision'],
  ),
  Problem: SHARED_SCHEMAS.Problem,
}

const ERRORS: Readonly<Record<number, string>> = {
  400: 'A field is wrong, or there are more than 100 requests; nothing was counted.',
  401: 'Without the role: no token, or one that is unknown, revoked or expired.',
  403: 'The role is not checker.',
  413: 'The body is longer than 256 KiB.',
  415: 'The body is not JSON.',
  429: 'Too many refused requests of the caller.',
  503: 'The database of the tokens does not respond.',
}

/** @param mount the path of the checks */
export function checkDocument(mount: string): object {
  const problems = Object.entries(ERRORS).map(([status, description]) => {
    return [status, { description, content: { 'application/problem+json': { schema: ref('Problem') } } }]
  })
  const check = {
    operationId: 'check',
    tags: ['checks'],
    summary: 'Decide about a request, or about up to 100',
    description:
      'A batch is answered in its order, with a problem in the place of what is no request. The status is 200 whatever was decided.',
    requestBody: json({ anyOf: [ref('Request'), { type: 'array', maxItems: 100, items: ref('Request') }] }),
    responses: {
      200: {
        description: 'What was decided.',
        ...json({
          anyOf: [ref('Check'), { type: 'array', items: { anyOf: [ref('Check'), ref('Problem')] } }],
        }),
      },
      ...Object.fromEntries(problems),
    },
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Checks of rate limits',
      description: 'Decisions of fastify-smart-ratelimit about requests of other servers, in any language.',
      version: JSON.parse(readFileSync(packagePath('package.json'), 'utf8')).version,
      license: { name: 'MIT', identifier: 'MIT' },
    },
    servers: [{ url: mount, description: 'This server.' }],
    tags: [{ name: 'checks', description: 'Decisions, each with its event in the log.' }],
    security: [{ token: [] }],
    paths: { '/': { post: check } },
    components: {
      schemas: SCHEMAS,
      securitySchemes: {
        token: {
          type: 'http',
          scheme: 'bearer',
          description: 'A token of ratelimit token create --role checker.',
        },
      },
    },
  }
}

function ref(name: string): object {
  return { $ref: `#/components/schemas/${name}` }
}

function json(schema: object): object {
  return { content: { 'application/json': { schema } } }
}

function closed(properties: object, required: readonly string[]): object {
  return { type: 'object', properties, required, additionalProperties: false }
}
