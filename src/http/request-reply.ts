/** Requests and replies as the hooks of this package see them. */
import type {
  FastifyReply,
  FastifyRequest,
  HookHandlerDoneFunction,
  RawServerBase,
  RouteGenericInterface,
} from 'fastify'

/** The property of a request that holds its reply, which code that has only the request needs. */
export const REPLY = Symbol('fastify-smart-ratelimit.reply')

export type RequestWithReply = FastifyRequest & { [REPLY]?: FastifyReply | null }

/** A request of HTTP, HTTPS or HTTP/2. */
export type AnyRequest = FastifyRequest<RouteGenericInterface, RawServerBase>

/** A reply of HTTP, HTTPS or HTTP/2. */
export type AnyReply = FastifyReply<RouteGenericInterface, RawServerBase>

/**
 * A hook for the apps of every server. It is declared as a method, since the code of this package has Fastify's types for
 * HTTP/1: all that it reads of a request is there in HTTP/2 as well.
 */
export type AnyHook = { hook(request: AnyRequest, reply: AnyReply, done: HookHandlerDoneFunction): void }['hook']
