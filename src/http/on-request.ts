import type { FastifyBaseLogger, FastifyReply, FastifyRequest, HookHandlerDoneFunction } from 'fastify'
import { isByAddress } from '../clients/client.js'
import { CheckedRequest, NOTHING_IN_FORCE, UNLIMITED } from './checked-request.js'
import { type DecideDependencies, decide } from './decide.js'
import { type RequestFunction, tolerate } from './host-function.js'
import type { RequestDecision } from './request-decision.js'
import { REPLY, type RequestWithReply } from './request-reply.js'

/** The costs of requests, before the limit that decides about them is known. */
export interface RequestCosts {
  /** Whether all costs are 1, which the first requests have to show. */
  readonly areOne: boolean
  /** Returns what a request costs; 0 where it is exempt. */
  costFor(checked: CheckedRequest): number
}

/** The dependencies of the hook, resolved when the plugin is registered. */
export interface HookDependencies extends DecideDependencies {
  readonly costs: RequestCosts
  readonly decide: Decide
  /** Sets the rate limit headers, where there are any. */
  readonly headers: ((reply: FastifyReply, checked: CheckedRequest) => void) | undefined
  /** Records the event and the metrics, where there are any. */
  readonly record: ((checked: CheckedRequest, reply: FastifyReply) => void) | undefined
  /** Counts the request in each limit that counts responses, when its response has such a status, and keeps what it has reserved. */
  awaitResponse(checked: CheckedRequest, reply: FastifyReply): void
  /** Keeps what a request has reserved. */
  holdUnits(checked: CheckedRequest): void
  /** Notes the shares of windows that a request has brought its clients to, where its limits have notices. */
  noteUse(checked: CheckedRequest): void
  /** Warns that a hook is among those of a request twice. Not called where `reply.callNotFound()` runs hooks anew. */
  readonly warnOfTwice?: (() => void) | undefined
  /** The counter of a limit for single routes, but for the route and the client; undefined where that depends. */
  readonly counter?: string | undefined
  /** Warns that another hook of a request counts in the same counter. */
  readonly warnOfCounter?: ((request: FastifyRequest) => void) | undefined
  /** Reports a refusal to the host. It must not throw. */
  noteRefusal(checked: CheckedRequest): void
  /** Answers a refused request. */
  refuse(checked: CheckedRequest, reply: FastifyReply, done: HookHandlerDoneFunction): void
  /** Reports an unexpected error; the request continues without a limit. */
  failed(error: unknown): void
}

/** The property of a request that holds the record of its decision. */
export const DECISION = Symbol('fastify-smart-ratelimit.decision')

/** The property of a request that holds the hooks which have decided about it. */
export const DECIDED_BY = Symbol('fastify-smart-ratelimit.decidedBy')

/** The property of a request that holds how long it has waited for the store, in all hooks together. */
export const WAITED = Symbol('fastify-smart-ratelimit.waited')

/** A request in a hook of this package. Scopes created before the plugin do not initialize the properties. */
type DecidedRequest = RequestWithReply & {
  [DECISION]?: CheckedRequest | null
  [DECIDED_BY]?: readonly HookDependencies[] | null
  [WAITED]?: number
}

/** Returns the record of the limit that refused a request, else of the strictest one; null without a check. */
export function keptRecord(request: DecidedRequest): CheckedRequest | null {
  return request[DECISION] ?? null
}

/** Returns the decision of the limit that refused a request, else of the strictest one; null without a check. */
export function keptDecision(request: DecidedRequest): RequestDecision | null {
  return keptRecord(request)?.described ?? null
}

/**
 * Creates the hook, which decides about a request, sets the headers, records the event, and refuses. It decides once:
 * Fastify runs preHandler hooks anew where the host calls `reply.callNotFound()`.
 */
export function createOnRequest(dependencies: HookDependencies) {
  const byThisHook = [dependencies]
  const { costs } = dependencies
  return function onRequest(request: RequestWithReply, reply: FastifyReply, done: HookHandlerDoneFunction): void {
    const marked: DecidedRequest = request
    if (marked[DECIDED_BY] && hasDecided(dependencies, marked)) {
      done()
      return
    }
    marked[DECIDED_BY] ??= byThisHook
    request[REPLY] = reply
    const checked = new CheckedRequest(request, dependencies.path(request))
    checked.waitedMs = marked[WAITED] ?? 0
    let decided: ReturnType<Decide> = checked
    try {
      if (!costs.areOne) checked.cost = costs.costFor(checked)
      if (checked.cost > 0) decided = dependencies.decide(dependencies, checked)
      else checked.isExempt = true
    } catch (error) {
      dependencies.failed(error)
      checked.isExempt = true
    }
    if (decided instanceof Promise) finishLater(dependencies, checked, decided, reply, done)
    else finish(dependencies, checked, reply, done)
  }
}

/** Returns whether this hook has decided about a request; else adds it to those that have. */
function hasDecided(dependencies: HookDependencies, marked: DecidedRequest): boolean {
  const decidedBy = marked[DECIDED_BY] ?? []
  const { counter } = dependencies
  for (const other of decidedBy) {
    if (other === dependencies) {
      if (!marked.is404) dependencies.warnOfTwice?.()
      return true
    }
    if (counter !== undefined && counter === other.counter) dependencies.warnOfCounter?.(marked)
  }
  marked[DECIDED_BY] = [...decidedBy, dependencies]
  return false
}

/** A function of its own: its closures would cost an allocation also where the decision is not late. */
function finishLater(
  dependencies: HookDependencies,
  checked: CheckedRequest,
  decided: Promise<CheckedRequest>,
  reply: FastifyReply,
  done: HookHandlerDoneFunction,
): void {
  decided.then(
    () => finish(dependencies, checked, reply, done),
    (error: unknown) => {
      dependencies.failed(error)
      checked.isExempt = true
      finish(dependencies, checked, reply, done)
    },
  )
}

/** Sets the headers, records the event, and refuses, unless the request is exempt. */
function finish(
  dependencies: HookDependencies,
  checked: CheckedRequest,
  reply: FastifyReply,
  done: HookHandlerDoneFunction,
): void {
  const { decision, limit } = checked
  const request: DecidedRequest = checked.request
  request[WAITED] = checked.waitedMs
  let isRefused = false
  if (!checked.isExempt) {
    isRefused = limit.block && !decision.allowed
    try {
      // A stricter limit that has checked the request too keeps its decision there, and its headers.
      const kept = request[DECISION]
      if (!kept || kept.told.decision.remaining >= checked.told.decision.remaining || isRefused) {
        request[DECISION] = checked
        // A request may live for days, and the rules of its moment must not.
        checked.inForce = NOTHING_IN_FORCE
        if (checked.told.decision !== UNLIMITED) dependencies.headers?.(reply, checked)
      }
      dependencies.record?.(checked, reply)
      if (limit.noticeAt !== null || checked.applied) dependencies.noteUse(checked)
      if (!isRefused && (limit.usesLater || checked.applied)) dependencies.awaitResponse(checked, reply)
    } catch (error) {
      dependencies.failed(error)
    }
  }
  // Outside of `try`: a refusal holds if recording fails, and errors of the rest of the request are not this hook's.
  if (isRefused) refuseRequest(dependencies, checked, reply, done)
  else done()
}

function refuseRequest(
  dependencies: HookDependencies,
  checked: CheckedRequest,
  reply: FastifyReply,
  done: HookHandlerDoneFunction,
): void {
  for (const refusal of checked.refusals) {
    // A ban of clients that are counted as their proxy would be the proxy's.
    if (checked.address.relay === null || !isByAddress(refusal.client.counted)) refusal.limit.ban?.noteRefusal(refusal)
  }
  dependencies.noteRefusal(checked)
  dependencies.refuse(checked, reply, done)
}

/** Returns whether the plugin's own check leaves a request alone; may be async. */
export type SkipFunction = RequestFunction<boolean>

/** Receives every refused request with its decision, which tells of whom and of what decided, before it is answered. */
export type RefusalFunction = (request: FastifyRequest, decision: RequestDecision) => unknown

export type Decide = (
  dependencies: DecideDependencies,
  checked: CheckedRequest,
) => CheckedRequest | Promise<CheckedRequest>

/** Creates the function that decides about a request, unless the host skips it. A failure to say so skips nothing. */
export function createDecide(skip: SkipFunction | undefined, log: FastifyBaseLogger): Decide {
  if (skip === undefined) return decide
  const isSkipped = tolerate(skip, 'skip', log)

  function decideUnless(
    skipped: boolean | undefined,
    dependencies: DecideDependencies,
    checked: CheckedRequest,
  ): ReturnType<Decide> {
    // The answer true alone exempts: a function that forgets its answer must not.
    if (skipped !== true) return decide(dependencies, checked)
    checked.isExempt = true
    return checked
  }

  return function decideUnlessSkipped(dependencies, checked) {
    const skipped = isSkipped(checked.request)
    return skipped instanceof Promise
      ? skipped.then((answer) => decideUnless(answer, dependencies, checked))
      : decideUnless(skipped, dependencies, checked)
  }
}

/** Creates the function that reports a refusal to the host. It never throws, and nothing waits for it. */
export function createRefusalNotice(onRefused: RefusalFunction | undefined, log: FastifyBaseLogger) {
  if (onRefused === undefined) return () => undefined
  const notify = tolerate(({ request, described }: CheckedRequest) => onRefused(request, described), 'onRefused', log)
  return function noteRefusal(checked: CheckedRequest): void {
    void notify(checked)
  }
}
