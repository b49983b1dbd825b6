/** Requests that no client of the app sent, as limits and the host's functions read them. */
import { IncomingMessage, METHODS } from 'node:http'
import { Socket } from 'node:net'
import { parse } from 'node:querystring'
import type { FastifyInstance, FastifyRequest, RouteOptions } from 'fastify'
import { InvalidSettingError } from '../ground/errors.js'
import { shown } from '../ground/setting.js'
import { createReceivedPath, type RouterOptions, withoutOrigin } from './request-path.js'

export interface RequestDescription {
  readonly method: string
  /** The path, with or without a query. */
  readonly path: string
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>
}

/** The connection of requests that came over none. */
const NO_CONNECTION = new Socket()

/**
 * Creates the message of a request from its description.
 *
 * @throws InvalidSettingError for a method or a path that is none
 */
export function toMessage({ method, path, headers }: RequestDescription): IncomingMessage {
  if (!METHODS.includes(method)) {
    throw new InvalidSettingError(`Option "method" is ${shown(method)}: give a method such as GET`)
  }
  const message = new IncomingMessage(NO_CONNECTION)
  message.method = method
  message.url = toUrl(path)
  for (const name of Object.keys(headers)) {
    const values = headers[name]
    if (values === undefined) continue
    const lines = typeof values === 'string' ? [values] : values
    for (const line of lines) message.rawHeaders.push(name, line)
    message.headers[name.toLowerCase()] = lines.join(/^cookie$/i.test(name) ? '; ' : ', ')
  }
  return message
}

/** Events have the target as a client sent it, which may be an absolute-form. */
function toUrl(path: unknown): string {
  const url = typeof path === 'string' ? withoutOrigin(path) : ''
  if (url.startsWith('/')) return url
  throw new InvalidSettingError(`Option "path" is ${shown(path)}: give a path such as /login`)
}

/** Creates the function that makes a request from its message. It has no decorations of the app. */
export function createDescribedRequests(app: FastifyInstance, router: RouterOptions) {
  const receivedPath = createReceivedPath(router)
  /** What all of them have, and what few limits read. */
  const prototype = {
    id: '',
    log: app.log,
    server: app,
    socket: NO_CONNECTION,
    protocol: 'http',
    get host(): string {
      return hostOf(this)
    },
    get hostname(): string {
      const host = hostOf(this)
      return host.startsWith('[') ? host.slice(0, host.indexOf(']') + 1) : host.split(':', 1).join()
    },
    get query() {
      const url: string = Reflect.get(this, 'url')
      const query = parse(url.slice(receivedPath(url).length + 1))
      Object.defineProperty(this, 'query', { value: query })
      return query
    },
  }
  /** @param route that of the app which the request would reach; undefined where it reaches none */
  return function describeRequest(raw: IncomingMessage, ip: string, route?: RouteOptions): FastifyRequest {
    const { method, url, headers } = raw
    const config = route?.config ?? {}
    return Object.assign(Object.create(prototype), {
      raw,
      method,
      url,
      originalUrl: url,
      ip,
      headers,
      is404: route === undefined,
      routeOptions: { method: route?.method, url: route?.url, config },
    })
  }
}

function hostOf(request: object): string {
  return Reflect.get(request, 'headers').host ?? ''
}
