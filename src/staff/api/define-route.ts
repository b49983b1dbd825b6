import Type, { type TProperties, type TSchema } from 'typebox'
import type { ApiCall, ApiRoute, RouteDescription } from './api-route.js'

/** Creates a route whose handler has the types of its schemas. */
export function defineRoute<
  Params extends TProperties = TProperties,
  Query extends TProperties = TProperties,
  Body extends TSchema = TSchema,
>(description: RouteDescription<Params, Query, Body>): ApiRoute {
  const {
    needs,
    alsoNeeds,
    params,
    query,
    body,
    handle,
    explain,
    bodyLimit,
    locks = false,
    isLarge = false,
    ...rest
  } = description
  const closed = (properties: TProperties | undefined) =>
    properties && Type.Object(properties, { additionalProperties: false })
  // The call was checked by these very schemas, which the types of a list of routes cannot express.
  const typed = (call: ApiCall) => call as Parameters<typeof handle>[0]
  return {
    ...rest,
    explain,
    bodyLimit,
    locks,
    isLarge,
    params: closed(params),
    query: closed(query),
    body,
    needs: (given) => (typeof needs === 'string' ? needs : needs(given as Parameters<typeof needs>[0])),
    alsoNeeds: alsoNeeds && ((call) => alsoNeeds(typed(call))),
    handle: (call, reply) => handle(typed(call), reply),
  }
}
