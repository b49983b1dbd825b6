/** Requests that no client sent, with the route that the app's router finds for them. */
import type { FastifyInstance, FastifyRequest, RouteOptions } from 'fastify'
import createRouter from 'find-my-way'
import { InvalidSettingError } from '../../ground/errors.js'
import { createDescribedRequests, type RequestDescription, toMessage } from '../described-request.js'
import type { RouterOptions } from '../request-path.js'
import { createRouteFinder } from '../routes/route-finder.js'

export interface RoutedRequest {
  readonly request: FastifyRequest
  /** The route of the request; undefined where none that is known matches. */
  readonly route: RouteOptions | undefined
}

/**
 * Creates the function that makes a request from its description, as it would reach the app.
 *
 * @param routes those that are found
 */
export function createRoutedRequests(app: FastifyInstance, router: RouterOptions, routes: readonly RouteOptions[]) {
  const findRoute = createRouteFinder(router, routes)
  const describeRequest = createDescribedRequests(app, router)

  /** @throws InvalidSettingError where no such request can reach the app */
  return function routeRequest(description: RequestDescription, ip: string): RoutedRequest {
    const raw = toMessage(description)
    validateUrl(raw.url ?? '', router)
    const route = findRoute(raw)
    return { request: describeRequest(raw, ip, route), route }
  }
}

function validateUrl(url: string, { useSemicolonDelimiter }: RouterOptions): void {
  try {
    createRouter.sanitizeUrlPath(url, useSemicolonDelimiter)
  } catch (error) {
    throw new InvalidSettingError(`Option "path" is ${JSON.stringify(url)}: the router answers 400 for it`, {
      cause: error,
    })
  }
}
