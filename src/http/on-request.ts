import type { FastifyReply, FastifyRequest, HookHandlerDoneFunction } from 'fastify'
import type { Decision } from '../limiter/algorithm.js'
import { CheckedRequest, type DecideDependencies, decide } from './decide.js'
import { refuse } from './refusal.js'

/** What the hook does with requests, resolved when the plugin is registered. */
export interface HookDependencies extends DecideDependencies {
  /** The path as the router sees it. */
  path(request: FastifyRequest): string
  /** What the request costs; 0 where it is left alone. */
  cost(request: FastifyRequest, path: string): number
  /** Shows the client where it stands. */
  headers(reply: FastifyReply, checked: CheckedRequest): void
  /** Notes the event. */
  record(checked: CheckedRequest): void
  /** Whether the host handles the errors of a request itself. */
  hasErrorHandler(request: FastifyRequest): boolean
  /** Something that cannot happen did: the request goes on, unlimited. */
  failed(error: unknown): void
}

/** The property of a request that holds its decision. */
export const DECISION = Symbol('fastify-smart-ratelimit.decision')

/** A request as a hook of this package may find it. Scopes that were made before the plugin do not initialize the property. */
type DecidedRequest = FastifyRequest & { [DECISION]?: Decision | null }

/** Returns the decision of the limit that refused a request, else of the strictest one; null where none checked it. */
export function keptDecision(request: DecidedRequest): Decision | null {
  return request[DECISION] ?? null
}

/** Returns false where another limit of the request is stricter: its decision stays. */
function keepDecision(request: DecidedRequest, { decision, isRefused }: CheckedRequest): boolean {
  const kept = request[DECISION]
  if (kept && kept.remaining < decision.remaining && !isRefused) return false
  request[DECISION] = decision
  return true
}

/** The hook: decides about a request, tells the client where it stands, notes the event, and refuses. */
export function createOnRequest(dependencies: HookDependencies) {
  return function onRequest(request: FastifyRequest, reply: FastifyReply, done: HookHandlerDoneFunction): void {
    let checked: ReturnType<typeof decide> | undefined
    try {
      const path = dependencies.path(request)
      const cost = dependencies.cost(request, path)
      if (cost > 0) checked = decide(new CheckedRequest(dependencies, request, path, cost))
    } catch (error) {
      dependencies.failed(error)
    }
    if (checked instanceof Promise) {
      checked.then(
        (decided) => finish(dependencies, decided, reply, done),
        (error: unknown) => {
          dependencies.failed(error)
          done()
        },
      )
    } else if (checked === undefined) done()
    else finish(dependencies, checked, reply, done)
  }
}

function finish(
  dependencies: HookDependencies,
  checked: CheckedRequest,
  reply: FastifyReply,
  done: HookHandlerDoneFunction,
): void {
  if (checked.isExempt) {
    done()
    return
  }
  try {
    if (keepDecision(checked.request, checked)) dependencies.headers(reply, checked)
    dependencies.record(checked)
  } catch (error) {
    dependencies.failed(error)
  }
  // Outside: a refusal holds whatever noting it does, and what the rest of the request throws is not this hook's.
  if (checked.isRefused) refuse(checked, reply, dependencies.hasErrorHandler, done)
  else done()
}
