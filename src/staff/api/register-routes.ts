/** Everything of the API that only an app with an API loads. */
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { unloadablePeer } from '../../ground/errors.js'
import { forbidStoring } from '../../http/no-store.js'
import type { Internals } from '../../plugin/internals.js'
import { asActor, fromSource } from '../../rules/history/actor.js'
import { fromDatabase } from '../sign-in/staff-errors.js'
import { addGuard, guardHooks } from '../sign-in/staff-guard.js'
import { knownMember, requireMay } from '../sign-in/staff-member.js'
import { hiddenSchema } from '../sign-in/staff-routes.js'
import type { ApiContext } from './api-context.js'
import { type ApiGuardOptions, createApiGuard } from './api-guard.js'
import type { ApiRoute } from './api-route.js'
import { SCHEMA_ID, SHARED_SCHEMAS } from './entry-schemas.js'
import { eventRoutes } from './event-routes.js'
import { exchangeRoutes } from './exchange-routes.js'
import { historyRoutes } from './history-routes.js'
import { DOCUMENT, openApiOptions } from './open-api.js'
import { overrideRoutes } from './override-routes.js'
import { answerWithProblem, MethodError, NotFoundError } from './problems.js'
import { readCall, readQuery } from './read-call.js'
import { reportRoutes } from './report-routes.js'
import { requestRoutes } from './request-routes.js'
import { ruleRoutes } from './rule-routes.js'

/** Room for a rule with a long description, or for the headers of an explained request. */
const BODY_LIMIT = 256 * 1024
const JSON_TYPES = ['application/json', 'application/merge-patch+json']

/** Returns all routes of the API, in the order of its document. */
export function apiRoutes(context: ApiContext): readonly ApiRoute[] {
  return [
    ...ruleRoutes(context),
    ...overrideRoutes(context),
    ...historyRoutes(context),
    ...exchangeRoutes(context),
    ...eventRoutes(context),
    ...reportRoutes(context),
    ...requestRoutes(context),
  ]
}

/** @param app a scope of the API alone */
export async function registerApi(app: FastifyInstance, internals: Internals, guard: ApiGuardOptions): Promise<void> {
  const mount = app.prefix
  const context: ApiContext = {
    internals,
    limits: app.smartRateLimit,
    write: (actor, work) => asActor(actor, () => fromSource('api', work)),
  }
  const routes = apiRoutes(context)
  const byAddress = new Map(routes.map((route) => [`${route.method} ${mount}${toUrl(route.path)}`, route]))
  const swagger = await import('@fastify/swagger').catch((error: unknown) => {
    throw unloadablePeer({ user: 'apiPlugin', name: '@fastify/swagger', since: '9.9.0' }, error)
  })
  for (const [name, schema] of Object.entries(SHARED_SCHEMAS)) app.addSchema({ ...schema, $id: `${SCHEMA_ID}${name}` })
  await app.register(
    swagger.default,
    openApiOptions(mount, (method, url) => byAddress.get(`${method} ${url}`)),
  )
  app.setErrorHandler<FastifyError>((error, request, reply) => answerWithProblem(internals.log, error, request, reply))
  app.addHook('onRequest', setHeaders)
  addGuard(app, createApiGuard(internals, guard))
  const parse = app.getDefaultJsonParser('error', 'error')
  app.removeAllContentTypeParsers()
  app.addContentTypeParser(JSON_TYPES, { parseAs: 'string' }, parse)
  for (const route of routes) addRoute(app, route)
  addDocument(app)
  addRefusals(app, routes)
}

function addRoute(app: FastifyInstance, route: ApiRoute): void {
  app.route({
    ...routeOptions(route.id),
    method: route.method,
    url: toUrl(route.path),
    exposeHeadRoute: true,
    bodyLimit: route.bodyLimit ?? BODY_LIMIT,
    ...guardHooks(async (request) => requireMay(request, route.needs(readQuery(route, request)))),
    handler: (request, reply) => fromDatabase(answer(route, request, reply)),
  })
}

async function answer(route: ApiRoute, request: FastifyRequest, reply: FastifyReply) {
  const call = { ...readCall(route, request), request, actor: knownMember(request)?.actor ?? '' }
  const right = route.alsoNeeds?.(call)
  if (right !== undefined) requireMay(request, right)
  return reply.send(await route.handle(call, reply))
}

function addDocument(app: FastifyInstance): void {
  app.get('/openapi.json', {
    ...routeOptions('getDocument'),
    exposeHeadRoute: true,
    onRequest: async (request) => requireMay(request, 'read'),
    // The decorator of @fastify/swagger, under another name.
    handler: async () => app[DOCUMENT as 'swagger'](),
  })
}

/** Answers other methods and addresses below the mount, to those with a role. */
function addRefusals(app: FastifyInstance, routes: readonly ApiRoute[]): void {
  const methodsByUrl = new Map<string, string[]>([['/openapi.json', ['GET', 'HEAD']]])
  for (const { path, method } of routes) {
    const url = toUrl(path)
    const methods = method === 'GET' ? ['GET', 'HEAD'] : [method]
    methodsByUrl.set(url, [...(methodsByUrl.get(url) ?? []), ...methods])
  }
  for (const url of methodsByUrl.keys()) {
    // Also those of a wildcard: a rule may be named like the address of another route.
    const methods = [...methodsByUrl].flatMap(([each, taken]) => (covers(each, url) ? taken : []))
    const others = app.supportedMethods.filter((method) => !methods.includes(method))
    // A longer address must not reach the wildcard of a shorter one.
    app.route({
      ...routeOptions('method'),
      method: others,
      url,
      exposeHeadRoute: false,
      preParsing: async (_request, reply) => {
        reply.header('allow', methods.join(', '))
        throw new MethodError(`This address takes ${methods.join(', ')}.`)
      },
      handler: async () => undefined,
    })
  }
  app.route({
    ...routeOptions('not-found'),
    method: app.supportedMethods,
    url: '/*',
    exposeHeadRoute: false,
    preParsing: async () => {
      throw new NotFoundError('There is no such address: openapi.json has all of them.')
    },
    handler: async () => undefined,
  })
}

function covers(url: string, other: string): boolean {
  return url === other || (url.endsWith('/*') && other.startsWith(url.slice(0, -1)))
}

/** Returns what all routes have in common: no rule applies to them, and the host's own document lacks them. */
function routeOptions(name: string) {
  return { config: { smartRateLimit: false, name }, schema: hiddenSchema() } as const
}

/** Returns the address for the router. The name of a rule may have slashes, and be longer than its parameters are. */
function toUrl(path: string): string {
  return path.replace('{name}', '*').replace(/\{(\w+)\}/g, ':$1')
}

async function setHeaders(_request: FastifyRequest, reply: FastifyReply): Promise<void> {
  forbidStoring(reply)
  reply.header('x-content-type-options', 'nosniff')
}
