import type { FastifyInstance, FastifyReply, FastifyRequest, HookHandlerDoneFunction, RouteOptions } from 'fastify'
import { createdByFirstCall, madeOnce } from '../../ground/remember.js'
import { createAsk } from '../../http/ask.js'
import { type Charges, type ChargesLeft, validateRequest } from '../../http/charged-units.js'
import { listCodeLimits } from '../../http/code-limits.js'
import { createOnRequest, keptRecord } from '../../http/on-request.js'
import { notePreflights } from '../../http/preflight.js'
import { noteErrorHandler } from '../../http/refusal.js'
import { REPLY, type RequestWithReply } from '../../http/request-reply.js'
import { ForeignLimits } from '../../http/routes/foreign-limits.js'
import { applyConfigLimit } from '../../http/routes/route-config.js'
import type { RouteLimitOptions } from '../../http/routes/route-limit.js'
import { createChecks, createCosts, createDecision, createSkip } from './decision.js'
import type { HookComponents } from './hook-components.js'
import { createLimits } from './hook-limits.js'
import { createKeys } from './keys.js'
import { createRecords } from './records.js'
import { createRouteLimits } from './route-limits.js'

export interface Hook extends ReturnType<typeof createHook> {}

/** What requests are used under that no limit has checked. */
const UNLIMITED = { policyName: '' }

/** Creates the functions of the hot path, so that it reads no option. */
export function createHook(components: HookComponents) {
  const { app, settings, counters, addresses, units } = components
  const keys = createKeys(components)
  const limits = createLimits(components, keys)
  const checks = createChecks(components)
  const records = createRecords(components)
  const isSkipped = createSkip(components)
  const foreignLimits = new ForeignLimits(app.log)
  const costs = createCosts(components, isSkipped, (request) => foreignLimits.noteRequest(request))
  const decision = createDecision(components, keys, checks, limits, costs, records)
  const checkLate = createOnRequest({ ...decision, costs: costs.late })
  const { routes, ...routeLimits } = createRouteLimits(components, keys, checks, records)

  /** Validates a route's config when it is declared, and registers the route. */
  function noteRoute(this: FastifyInstance, route: RouteOptions): void {
    // A limit without a name is that of its route.
    applyConfigLimit(route, settings.hook, (options) => routeLimits.create(options, 'config.smartRateLimit', true))
    records.noteRoute(route)
    if (settings.hook === 'onRequest') notePreflights(this, route, checkLate)
    noteErrorHandler(route)
    costs.noteRoute(route)
    counters.addRoute(route)
    routes.noteRoute(route)
    foreignLimits.noteRoute(this, route)
  }

  return {
    onRequest: createOnRequest(decision),
    /** A hook for requests that code may check before the plugin does. */
    keepReply(request: RequestWithReply, reply: FastifyReply, done: HookHandlerDoneFunction): void {
      request[REPLY] = reply
      done()
    },
    ask: createAsk(decision, isSkipped, () => 1),
    /** Charges a request for what it has used. */
    async charge(request: FastifyRequest, charges: Charges): Promise<ChargesLeft> {
      validateRequest(request)
      const { loggedClient: client, limit } = keptRecord(request) ?? {
        loggedClient: addresses.client(request).client,
        limit: UNLIMITED,
      }
      return units.charge(request, charges, { client, limit })
    },
    /** Returns what decides about requests that the app did not get. */
    consumer: madeOnce(async () => {
      const { createAppConsume } = await import('./consume.js')
      return createAppConsume(components, decision, isSkipped, records)
    }),
    explain: createdByFirstCall(async () => {
      const { createAppExplain } = await import('./explain.js')
      return createAppExplain(components, decision, routes, isSkipped)
    }),
    /** Returns what finds the templates of routes, of all that are declared by the first call. */
    findTemplates: madeOnce(async () => {
      const { createTemplateFinder } = await import('../../http/routes/route-finder.js')
      return createTemplateFinder(components.router, routes.all)
    }),
    codeLimits: () => listCodeLimits(settings.middleware, routes.listLimits()),
    routeLimit: (options: RouteLimitOptions) => routeLimits.create(options, 'limit', false),
    noteRoute,
    warnOfForeignLimits: () => foreignLimits.warn(),
    postponed: records.postponed,
    /** Returns the limits and costs that routes have so far. */
    routeSettings: () => ({ costs: costs.count, haveLimits: routeLimits.haveLimits() }),
  }
}
