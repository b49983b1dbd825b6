/** Requests that no client sent: they meet the routes of the app as its router finds them, and none of its hooks. */
import { AsyncLocalStorage } from 'node:async_hooks'
import { METHODS } from 'node:http'
import type { FastifyInstance, FastifyRequest, HTTPMethods, RouteOptions } from 'fastify'
import { errorMessage, InvalidSettingError } from '../ground/errors.js'
import { type RouterOptions, withoutOrigin } from './request-path.js'
import type { ExplainableLimit } from './route-limit.js'

export interface Trial {
  readonly method: string
  /** With or without a query. */
  readonly path: string
  readonly ip: string | undefined
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>
}

export interface RouteWithLimit {
  readonly route: RouteOptions
  readonly limit: ExplainableLimit
}

/** The route that a trial request met, in the config of its double. */
const NOTED = Symbol('fastify-smart-ratelimit: noted')

type Work = (request: FastifyRequest) => Promise<void>

/** The headers that an injected request has by itself. */
const INJECTED_HEADERS = ['user-agent', 'host']

/**
 * Creates the functions that make trial requests. An app of their own has the routes that were noted, which are those
 * declared after the plugin: requests of other routes meet none.
 */
export function createTrialRequests(router: RouterOptions) {
  const routes: RouteOptions[] = []
  const limits = new WeakMap<object, ExplainableLimit>()
  const works = new AsyncLocalStorage<{ readonly trial: Trial; readonly work: Work }>()
  let app: Promise<FastifyInstance> | undefined

  async function createApp(): Promise<FastifyInstance> {
    // Loaded late: a server whose requests are never explained needs no second app.
    const { fastify } = await import('fastify')
    const created = fastify({ exposeHeadRoutes: false, routerOptions: { ...router, maxParamLength: 10_000 } })
    created.addHook('onRequest', async (request, reply) => {
      const { trial, work } = works.getStore() ?? {}
      for (const name of INJECTED_HEADERS) if (trial?.headers[name] === undefined) delete request.headers[name]
      await work?.(request)
      return reply.code(204).send()
    })
    for (const noted of routes) {
      const { method, url, config, constraints } = noted
      const route = {
        method,
        url,
        handler: async () => '',
        config: Object.assign({}, config, { [NOTED]: noted }),
        ...(constraints && { constraints }),
      }
      try {
        created.route(route)
      } catch {
        // A constraint of the app's own strategy, which this app does not have: the route is left out.
      }
    }
    await created.ready()
    return created
  }

  /** Returns the limits that are hooks of a route, in the order in which they run. */
  function limitsOf({ onRequest, preParsing, preValidation, preHandler }: Partial<RouteOptions>): ExplainableLimit[] {
    return [onRequest, preParsing, preValidation, preHandler]
      .flat()
      .flatMap((hook) => (hook === undefined ? [] : (limits.get(hook) ?? [])))
  }

  return {
    noteRoute(route: RouteOptions): void {
      routes.push(route)
    },
    noteLimit(hook: object, limit: ExplainableLimit): void {
      limits.set(hook, limit)
    },
    /** Returns the limits that the route of a trial request has itself, in the order in which they run. */
    limitsFor({ routeOptions: { config } }: FastifyRequest & { routeOptions: { config: { [NOTED]?: RouteOptions } } }) {
      return limitsOf(config[NOTED] ?? {})
    },
    /** Returns the limits of all routes, each with its route. */
    listLimits(): RouteWithLimit[] {
      return routes.flatMap((route) => limitsOf(route).map((limit) => ({ route, limit })))
    },
    /**
     * Runs work with a trial request.
     *
     * @throws InvalidSettingError where no such request can reach the app
     */
    async run<Result>(trial: Trial, work: (request: FastifyRequest) => Promise<Result>): Promise<Result> {
      const { method, path, ip, headers } = trial
      const url = toUrl(path)
      validateMethod(method)
      app ??= createApp()
      const opened = await app
      let result: { readonly answer: Result } | { readonly error: unknown } | undefined
      const keepResult: Work = async (request) => {
        result = await work(request).then(
          (answer) => ({ answer }),
          (error: unknown) => ({ error }),
        )
      }
      try {
        // Async, since a request is injected when it is awaited, which has to happen here.
        await works.run({ trial, work: keepResult }, async () => {
          const remote = ip === undefined ? {} : { remoteAddress: ip }
          await opened.inject({ method, url, headers: toHeaders(headers), ...remote })
        })
      } catch (error) {
        throw new InvalidSettingError(`The request cannot be explained: ${errorMessage(error)}`, { cause: error })
      }
      if (result === undefined) {
        throw new InvalidSettingError(`Option "path" is ${JSON.stringify(url)}: the router answers 400 for it`)
      }
      if ('error' in result) throw result.error
      return result.answer
    },
  }
}

function toHeaders(headers: Trial['headers']): Record<string, string | string[]> {
  return Object.fromEntries(
    Object.entries(headers).flatMap(([name, value]) =>
      value === undefined ? [] : [[name.toLowerCase(), typeof value === 'string' ? value : [...value]]],
    ),
  )
}

/** Events have the target as a client sent it, which may be an absolute-form. */
function toUrl(path: unknown): string {
  const url = typeof path === 'string' ? withoutOrigin(path) : ''
  if (url.startsWith('/')) return url
  throw new InvalidSettingError(`Option "path" is ${JSON.stringify(path)}: give a path such as /login`)
}

function validateMethod(method: string): asserts method is HTTPMethods {
  if (METHODS.includes(method)) return
  throw new InvalidSettingError(`Option "method" is ${JSON.stringify(method)}: give a method such as GET`)
}
