/** What the public functions take: requests and replies of every server that Fastify starts, HTTP/2 included. */
import type {
  FastifyReply,
  FastifyRequest,
  HookHandlerDoneFunction,
  RawServerBase,
  RouteGenericInterface,
} from 'fastify'

/** A request of HTTP, HTTPS or HTTP/2. */
export type AnyRequest = FastifyRequest<RouteGenericInterface, RawServerBase>

/** A reply of HTTP, HTTPS or HTTP/2. */
export type AnyReply = FastifyReply<RouteGenericInterface, RawServerBase>

/**
 * A hook for the apps of every server. It is declared as a method, since the code of this package has Fastify's types for
 * HTTP/1: all that it reads of a request is there in HTTP/2 as well.
 */
export type AnyHook = { hook(request: AnyRequest, reply: AnyReply, done: HookHandlerDoneFunction): void }['hook']
