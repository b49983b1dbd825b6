/** Requests that no client of the app sent, as limits and the host's functions read them. */
import { type IncomingHttpHeaders, IncomingMessage, METHODS } from 'node:http'
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

const KNOWN_METHODS: ReadonlySet<string> = new Set(METHODS)
/** The connection of requests that came over none. */
const NO_CONNECTION = new Socket()

/**
 * Creates the message of a request from its description.
 *
 * @throws InvalidSettingError for a method or a path that is none
 */
export function toMessage({ method, path, headers }: RequestDescription): IncomingMessage {
  if (!KNOWN_METHODS.has(method)) {
    throw new InvalidSettingError(`Option "method" is ${shown(method)}: give a method such as GET`)
  }
  // Nothing is read from it: the constructor would make a stream, in half the time of a decision.
  const message: IncomingMessage = Object.create(IncomingMessage.prototype)
  message.socket = NO_CONNECTION
  message.method = method
  message.url = toUrl(path)
  const rawHeaders: string[] = []
  const joined: IncomingHttpHeaders = {}
  for (const name of Object.keys(headers)) {
    const values = headers[name]
    if (values === undefined) continue
    const lowered = name.toLowerCase()
    if (typeof values === 'string') {
      rawHeaders.push(name, values)
      joined[lowered] = values
    } else {
      for (const line of values) rawHeaders.push(name, line)
      joined[lowered] = values.join(lowered === 'cookie' ? '; ' : ', ')
    }
  }
  message.rawHeaders = rawHeaders
  message.headers = joined
  return message
}

/** Events have the target as a client sent it, which may be an absolute-form. */
function toUrl(path: unknown): string {
  if (typeof path === 'string' && path.startsWith('/')) return path
  const url = typeof path === 'string' ? withoutOrigin(path) : ''
  if (url.startsWith('/')) return url
  throw new InvalidSettingError(`Option "path" is ${shown(path)}: give a path such as /login`)
}

/** The options of requests that reach no route. */
const NO_ROUTE = { method: undefined, url: undefined, config: {} }

/** What limits and the host's functions read of a request. It has no decorations of the app. */
class DescribedRequest {
  readonly id = ''
  readonly socket = NO_CONNECTION
  readonly protocol = 'http'
  readonly log: FastifyInstance['log']
  readonly method: string | undefined
  readonly url: string
  readonly originalUrl: string
  readonly headers: IncomingHttpHeaders
  readonly is404: boolean
  readonly routeOptions: object
  readonly #receivedPath: (url: string) => string
  #query: object | undefined

  constructor(
    readonly server: FastifyInstance,
    receivedPath: (url: string) => string,
    readonly raw: IncomingMessage,
    readonly ip: string,
    route: RouteOptions | undefined,
  ) {
    this.#receivedPath = receivedPath
    const { method, url = '/', headers } = raw
    this.log = server.log
    this.method = method
    this.url = url
    this.originalUrl = url
    this.headers = headers
    this.is404 = route === undefined
    this.routeOptions =
      route === undefined ? NO_ROUTE : { method: route.method, url: route.url, config: route.config ?? {} }
  }

  get host(): string {
    return this.headers.host ?? ''
  }

  get hostname(): string {
    const { host } = this
    return host.startsWith('[') ? host.slice(0, host.indexOf(']') + 1) : host.split(':', 1).join()
  }

  get query(): object {
    this.#query ??= parse(this.url.slice(this.#receivedPath(this.url).length + 1))
    return this.#query
  }
}

/** Creates the function that makes a request from its message. */
export function createDescribedRequests(app: FastifyInstance, router: RouterOptions) {
  const receivedPath = createReceivedPath(router)
  /** @param route that of the app which the request would reach; undefined where it reaches none */
  return function describeRequest(raw: IncomingMessage, ip: string, route?: RouteOptions): FastifyRequest {
    return new DescribedRequest(app, receivedPath, raw, ip, route) as unknown as FastifyRequest
  }
}
