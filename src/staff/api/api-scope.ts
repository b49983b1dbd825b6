/** The code that the routes of the API share. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type {
  FastifyBaseLogger,
  FastifyInstance,
  FastifyRequest,
  FastifySchema,
  FastifyTypeProvider,
  RawServerDefault,
} from 'fastify'
import type { Static, TSchema } from 'typebox'
import type { Parts } from '../../plugin/parts.js'
import type { SmartRateLimit } from '../../plugin/smart-rate-limit.js'
import type { Right } from '../shell/roles.js'
import { guardHooks } from '../shell/staff-guard.js'
import type { StaffLimits } from '../shell/staff-limits.js'
import { knownMember, requireMay } from '../shell/staff-member.js'

/** Gives a handler the types of its route's schemas. Answers may be texts and streams of JSON, and have no type here. */
export interface SchemaTypes extends FastifyTypeProvider {
  readonly validator: this['schema'] extends TSchema ? Static<this['schema']> : unknown
}

export type ApiScope = FastifyInstance<
  RawServerDefault,
  IncomingMessage,
  ServerResponse,
  FastifyBaseLogger,
  SchemaTypes
>

/** The parts that the API needs. */
export type ApiParts = StaffLimits & Pick<Parts, 'settings' | 'database' | 'limiter' | 'inForce' | 'staffLog'>

/** The dependencies of the routes. */
export interface ApiContext extends ApiParts {
  readonly limits: SmartRateLimit
  /** Runs a write that the history ascribes to the API, and to who sent the request. */
  write<T>(request: FastifyRequest, work: () => PromiseLike<T>): Promise<T>
}

/** Room for a rule with a long description, or for the headers of an explained request. */
const BODY_LIMIT = 256 * 1024

/** The options of every route: HEAD works whatever the host's `exposeHeadRoutes` is, and no rule applies. */
export const ROUTE = { exposeHeadRoute: true, config: { smartRateLimit: false }, bodyLimit: BODY_LIMIT } as const

/** Returns the options of a route that takes a right. */
export function takes(right: Right | ((request: FastifyRequest) => Right)) {
  const guard = async (request: FastifyRequest) =>
    requireMay(request, typeof right === 'string' ? right : right(request))
  return { ...ROUTE, ...guardHooks(guard) }
}

export const TAGS = {
  rules: 'Rules, which decide about requests.',
  overrides: 'Overrides of single clients, which take precedence over every rule.',
  history: 'Who changed which rule or override, and from where.',
  exchange: 'All rules and overrides as one document.',
  events: 'The log of requests, and reports on it.',
  requests: 'Why a request is decided as it is, and the state of the limiter.',
} as const

/**
 * Returns the options of the route of an operation.
 *
 * @param operationId the name of the operation in generated clients
 * @param right what it takes
 * @param schema the schemas of what it takes and answers
 */
export function operation<Schema extends FastifySchema>(
  tag: keyof typeof TAGS,
  operationId: string,
  right: Parameters<typeof takes>[0],
  summary: string,
  schema: Schema,
) {
  // The document of the host lacks the API.
  return { ...takes(right), schema: { hide: true, tags: [tag], operationId, summary, ...schema } }
}

/**
 * Returns a documented answer.
 *
 * @param schema absent for an answer without a body
 */
export function answer(description: string, schema?: TSchema, headers?: Readonly<Record<string, object>>) {
  return {
    description,
    ...(headers && { headers }),
    ...(schema === undefined ? { type: 'null' } : { content: { 'application/json': { schema } } }),
  }
}

/** Returns the name of who sent a request, for the history. */
export function actorOf(request: FastifyRequest): string {
  return knownMember(request)?.actor ?? ''
}
