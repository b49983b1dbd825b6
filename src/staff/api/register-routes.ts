/** The parts of the API that only an app with an API loads. */
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest, RouteOptions } from 'fastify'
import { unloadablePeer } from '../../ground/errors.js'
import { forbidStoring } from '../../http/discarded-headers.js'
import { parseDocument } from '../../rules/exchange/parse-document.js'
import { asActor, fromSource } from '../../rules/history/actor.js'
import { decodeBody } from '../shell/decoded-body.js'
import { fromDatabase } from '../shell/staff-errors.js'
import { addGuard } from '../shell/staff-guard.js'
import { hiddenSchema } from '../shell/staff-routes.js'
import { type ApiGuardOptions, createApiGuard } from './api-guard.js'
import { type ApiContext, type ApiParts, actorOf, ROUTE, type SchemaTypes, takes } from './api-scope.js'
import { SCHEMA_ID, SHARED_SCHEMAS } from './entry-schemas.js'
import { addEventRoutes } from './event-routes.js'
import { addExchangeRoutes } from './exchange-routes.js'
import { addHistoryRoutes } from './history-routes.js'
import { DOCUMENT, openApiOptions } from './open-api.js'
import { addOverrideRoutes } from './override-routes.js'
import { answerWithProblem, InvalidJsonError, MethodError, NotFoundError } from './problems.js'
import { addReportRoutes } from './report-routes.js'
import { addRequestRoutes } from './request-routes.js'
import { addRuleRoutes } from './rule-routes.js'
import { compileValidator, prepareInput } from './validator.js'

const JSON_TYPES = ['application/json', 'application/merge-patch+json']

/** @param app a scope of the API alone */
export async function registerApi(app: FastifyInstance, parts: ApiParts, guard: ApiGuardOptions): Promise<void> {
  const context: ApiContext = {
    ...parts,
    limits: app.smartRateLimit,
    write: (request, work) => asActor(actorOf(request), () => fromSource('api', work)),
  }
  const swagger = await import('@fastify/swagger').catch((error: unknown) => {
    throw unloadablePeer({ user: 'apiPlugin', name: '@fastify/swagger', since: '9.9.0' }, error)
  })
  for (const [name, schema] of Object.entries(SHARED_SCHEMAS)) app.addSchema({ ...schema, $id: `${SCHEMA_ID}${name}` })
  await app.register(swagger.default, openApiOptions(app.prefix))
  app.setValidatorCompiler(compileValidator)
  // A schema of an answer only documents it: raw SQL may have filled a row with values of other types.
  app.setSerializerCompiler(() => JSON.stringify)
  app.setErrorHandler<FastifyError>((error, request, reply) => answerWithProblem(parts.staffLog, error, request, reply))
  addParser(app)
  app.addHook('onRequest', setHeaders)
  addGuard(app, createApiGuard(parts, guard))
  app.addHook('preValidation', prepareInput)
  app.addHook('onRoute', nameOutages)
  const methods = collectMethods(app)
  const scope = app.withTypeProvider<SchemaTypes>()
  // The routes are added in the order of the document.
  addRuleRoutes(scope, context)
  addOverrideRoutes(scope, context)
  addHistoryRoutes(scope, context)
  addExchangeRoutes(scope, context)
  addEventRoutes(scope, context)
  await addReportRoutes(scope, context)
  addRequestRoutes(scope, context)
  // The decorator of @fastify/swagger, under another name.
  const document = async () => app[DOCUMENT as 'swagger']()
  app.get('/openapi.json', { ...takes('read'), schema: hiddenSchema() }, document)
  addRefusals(app, [...methods])
}

/** Adds the parser of JSON. A long body is a document to import, the only one for which there is room. */
function addParser(app: FastifyInstance): void {
  const parse = app.getDefaultJsonParser('error', 'error')
  app.removeAllContentTypeParsers()
  app.addContentTypeParser(JSON_TYPES, { parseAs: 'buffer' }, (request, body: Buffer, done) => {
    if (body.length <= ROUTE.bodyLimit) return parse(request, body.toString(), done)
    const failed = (error: Error) => done(error instanceof SyntaxError ? new InvalidJsonError() : error)
    decodeBody(body)
      .then(parseDocument)
      .then((document) => done(null, document), failed)
  })
}

/** Answers 503 where the database of a handler fails. */
function nameOutages(this: FastifyInstance, route: RouteOptions): void {
  const { handler } = route
  route.handler = (request, reply) => fromDatabase((async () => handler.call(this, request, reply))())
}

/** Returns the methods of each address, as its routes are added. */
function collectMethods(app: FastifyInstance): ReadonlyMap<string, readonly string[]> {
  const methods = new Map<string, string[]>()
  app.addHook('onRoute', ({ method, routePath }) => {
    methods.set(routePath, [...(methods.get(routePath) ?? []), ...[method].flat()])
  })
  return methods
}

/** Answers other methods and addresses below the mount, to those with a role. */
function addRefusals(app: FastifyInstance, routes: readonly (readonly [url: string, methods: readonly string[]])[]) {
  for (const [url] of routes) {
    // The methods include those of a wildcard: a rule may be named like the address of another route.
    const methods = routes.flatMap(([each, taken]) => (covers(each, url) ? taken : []))
    const others = app.supportedMethods.filter((method) => !methods.includes(method))
    // A longer address must not reach the wildcard of a shorter one.
    addRefusal(app, others, url, (reply) => {
      reply.header('allow', methods.join(', '))
      return new MethodError(`This address accepts ${methods.join(', ')}.`)
    })
  }
  addRefusal(app, app.supportedMethods, '/*', () => {
    return new NotFoundError('There is no such address: openapi.json lists all of them.')
  })
}

/** Refuses requests before their bodies are read. */
function addRefusal(app: FastifyInstance, method: string[], url: string, errorFor: (reply: FastifyReply) => Error) {
  app.route({
    ...ROUTE,
    method,
    url,
    exposeHeadRoute: false,
    schema: hiddenSchema(),
    preParsing: async (_request, reply) => {
      throw errorFor(reply)
    },
    handler: async () => undefined,
  })
}

function covers(url: string, other: string): boolean {
  return url === other || (url.endsWith('/*') && other.startsWith(url.slice(0, -1)))
}

async function setHeaders(_request: FastifyRequest, reply: FastifyReply): Promise<void> {
  forbidStoring(reply)
  reply.header('x-content-type-options', 'nosniff')
}
