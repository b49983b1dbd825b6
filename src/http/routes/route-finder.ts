/** The routes of paths, found with the library of Fastify's router, without the app. */
import { type IncomingMessage, METHODS, ServerResponse } from 'node:http'
import type { RouteOptions } from 'fastify'
import createRouter from 'find-my-way'
import type { RouterOptions } from '../request-path.js'

/** The longest value of a parameter: longer than any that the log holds. */
const MAX_PARAMETER = 10_000

/** Creates the function that finds the route of a request. */
export function createRouteFinder(options: RouterOptions, routes: readonly RouteOptions[]) {
  const router = createRouter({ ...options, maxParamLength: MAX_PARAMETER, defaultRoute: () => undefined })
  for (const route of routes) {
    try {
      router.on(methodsOf(route), route.url, { constraints: route.constraints ?? {} }, () => route)
    } catch {
      // A constraint of the app's own strategy, which this router does not have: the route is left out.
    }
  }
  return function findRoute(raw: IncomingMessage): RouteOptions | undefined {
    return router.lookup(raw, new ServerResponse(raw))
  }
}

/** Returns the URL of the route that a path reaches, such as `/items/:id`; undefined where it has no parameter. */
export type FindTemplate = (method: string, path: string) => string | undefined

/**
 * Creates the function that finds the template of a path of the log. A wildcard says nothing about a path: it is no
 * template.
 */
export function createTemplateFinder(options: RouterOptions, routes: readonly RouteOptions[]): FindTemplate {
  const router = createRouter({ ...options, maxParamLength: MAX_PARAMETER })
  const templates = new Map<unknown, string>()
  for (const route of routes.filter(({ url }) => !url.endsWith('*'))) {
    const handler = () => undefined
    try {
      router.on(methodsOf(route), route.url, handler)
      if (route.url.includes(':')) templates.set(handler, route.url)
    } catch {
      // Routes of one URL differ in their constraints, of which a path of the log says nothing: one of them is enough.
    }
  }
  return function findTemplate(method, path) {
    return isRouted(method) ? templates.get(router.find(method, path)?.handler) : undefined
  }
}

function methodsOf({ method }: RouteOptions): createRouter.HTTPMethod[] {
  return [method].flat().filter(isRouted)
}

/** The types of the router lack the latest methods. */
function isRouted(method: string): method is createRouter.HTTPMethod {
  return METHODS.includes(method)
}
