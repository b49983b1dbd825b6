/** Requests that no client sent, with the route that the app's router finds for them. */
import { IncomingMessage, METHODS } from 'node:http'
import { Socket } from 'node:net'
import { parse } from 'node:querystring'
import type { FastifyInstance, FastifyRequest, RouteOptions } from 'fastify'
import createRouter from 'find-my-way'
import { InvalidSettingError } from '../../ground/errors.js'
import { createReceivedPath, type RouterOptions, withoutOrigin } from '../request-path.js'
import { createRouteFinder } from '../routes/route-finder.js'

export interface RequestDescription {
  readonly method: string
  /** The path, with or without a query. */
  readonly path: string
  readonly ip: string | undefined
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>
}

export interface DescribedRequest {
  /** The request as limits and the host's functions read it. It has no decorations of the app. */
  readonly request: FastifyRequest
  /** The route of the request; undefined where none that is known matches. */
  readonly route: RouteOptions | undefined
}

/**
 * Creates the function that makes a request from its description.
 *
 * @param routes those that are found
 */
export function createDescribedRequests(app: FastifyInstance, router: RouterOptions, routes: readonly RouteOptions[]) {
  const findRoute = createRouteFinder(router, routes)
  const receivedPath = createReceivedPath(router)

  /** @throws InvalidSettingError where no such request can reach the app */
  return function describeRequest(description: RequestDescription): DescribedRequest {
    const url = toUrl(description.path, router)
    const raw = toMessage(description, url)
    const route = findRoute(raw)
    const { headers, method } = raw
    const { host = '' } = headers
    const request: FastifyRequest = Object.assign(Object.create(null), {
      raw,
      id: '',
      log: app.log,
      server: app,
      socket: raw.socket,
      method,
      url,
      originalUrl: url,
      protocol: 'http',
      host,
      hostname: host.startsWith('[') ? host.slice(0, host.indexOf(']') + 1) : host.split(':', 1).join(),
      ip: description.ip ?? '',
      headers,
      query: parse(url.slice(receivedPath(url).length + 1)),
      is404: route === undefined,
      routeOptions: { method: route?.method, url: route?.url, config: route?.config ?? {} },
    })
    return { request, route }
  }
}

function toMessage({ method, headers }: RequestDescription, url: string): IncomingMessage {
  if (!METHODS.includes(method)) {
    throw new InvalidSettingError(`Option "method" is ${JSON.stringify(method)}: give a method such as GET`)
  }
  const message = new IncomingMessage(new Socket())
  message.method = method
  message.url = url
  for (const [name, values] of Object.entries(headers)) {
    if (values === undefined) continue
    const lines = [values].flat()
    for (const line of lines) message.rawHeaders.push(name, line)
    message.headers[name.toLowerCase()] = lines.join(/^cookie$/i.test(name) ? '; ' : ', ')
  }
  return message
}

/** Events have the target as a client sent it, which may be an absolute-form. */
function toUrl(path: unknown, { useSemicolonDelimiter }: RouterOptions): string {
  const url = typeof path === 'string' ? withoutOrigin(path) : ''
  if (!url.startsWith('/')) {
    throw new InvalidSettingError(`Option "path" is ${JSON.stringify(path)}: give a path such as /login`)
  }
  try {
    createRouter.sanitizeUrlPath(url, useSemicolonDelimiter)
  } catch (error) {
    throw new InvalidSettingError(`Option "path" is ${JSON.stringify(url)}: the router answers 400 for it`, {
      cause: error,
    })
  }
  return url
}
