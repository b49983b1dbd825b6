import type { FastifyReply, FastifyRequest, HookHandlerDoneFunction } from 'fastify'
import type { Decide, Outcome } from './decide.js'
import { refuse } from './refusal.js'

/** The hook's steps around a decision, resolved when the plugin is registered. */
export interface OnRequestSteps {
  /** The path as the router sees it. */
  path(request: FastifyRequest): string
  /** What the request costs; 0 where it is left alone. */
  cost(request: FastifyRequest, path: string): number
  decide: Decide
  /** Tells the client. */
  headers(reply: FastifyReply, outcome: Outcome): void
  /** Notes the event. */
  record(request: FastifyRequest, outcome: Outcome): void
  /** Whether the host handles the errors of a request itself. */
  hasErrorHandler(request: FastifyRequest): boolean
  /** Something that cannot happen did: the request goes on, unlimited. */
  failed(error: unknown): void
}

/** The hook. Nothing in it waits unless a step does. */
export function createOnRequest(steps: OnRequestSteps) {
  function decide(request: FastifyRequest): ReturnType<Decide> {
    const path = steps.path(request)
    const cost = steps.cost(request, path)
    return cost === 0 ? null : steps.decide(request, path, cost)
  }

  function settle(
    outcome: Outcome | null,
    request: FastifyRequest,
    reply: FastifyReply,
    done: HookHandlerDoneFunction,
  ) {
    try {
      if (outcome !== null) {
        steps.headers(reply, outcome)
        steps.record(request, outcome)
      }
    } catch (error) {
      steps.failed(error)
    }
    // Outside: a refusal holds whatever noting it does, and what the rest of the request throws is not this hook's.
    if (outcome?.refused) refuse(request, reply, outcome, steps.hasErrorHandler, done)
    else done()
  }

  function failed(error: unknown, done: HookHandlerDoneFunction) {
    steps.failed(error)
    done()
  }

  return function onRequest(request: FastifyRequest, reply: FastifyReply, done: HookHandlerDoneFunction): void {
    let outcome: ReturnType<Decide>
    try {
      outcome = decide(request)
    } catch (error) {
      failed(error, done)
      return
    }
    if (outcome instanceof Promise) {
      outcome.then(
        (decided) => settle(decided, request, reply, done),
        (error: unknown) => failed(error, done),
      )
    } else {
      settle(outcome, request, reply, done)
    }
  }
}
