/** Checks from code, of the plugin's own limit and of limits for single routes. */
import type { FastifyRequest } from 'fastify'
import type { Decision } from '../limiter/algorithm.js'
import { validateCost } from '../limiter/cost.js'
import { forCost } from '../limiter/peek.js'
import { CheckedRequest, NOT_ASKED } from './checked-request.js'
import { costUnder } from './cost.js'
import { after } from './host-function.js'
import type { HookDependencies } from './on-request.js'
import type { RequestDecision } from './request-decision.js'
import type { AnyRequest } from './request-reply.js'
import { tellDecisive } from './several-limits.js'

export interface CheckOptions {
  /** The part of the limit that is used: an integer, 1 to 2147483647. */
  readonly cost?: number | undefined
}

/** The checks of a limit from code: no header, no event, and no refusal. */
export interface Ask {
  /**
   * Charges the limit, and refuses nothing: the code does, where `allowed` is false.
   *
   * @param options `cost`: what the limit says unless given
   * @returns null where the limit leaves the request alone: with `enabled: false`, or for an address of an allow list
   * @throws InvalidSettingError for an invalid cost
   */
  check(request: AnyRequest, options?: CheckOptions): Promise<RequestDecision | null>
  /**
   * Reads the state of the request's client, and charges nothing: `count` and `remaining` exclude this request, `allowed`
   * and `retryAfterMs` are the answer that it would get.
   */
  peek(request: AnyRequest): Promise<RequestDecision | null>
}

/**
 * Returns a hook for requests without a response of their own: what a limit counts when a response has ended is asked at
 * once.
 *
 * @param note receives the answers of the limit that decides, beside the ceiling
 */
export function asPeek(hook: HookDependencies, note: (decision: Decision) => void = () => undefined): HookDependencies {
  function noted(answer: Decision | Promise<Decision>): Decision | Promise<Decision> {
    return after(answer, (decision) => {
      note(decision)
      return decision
    })
  }
  return {
    ...hook,
    check: (check, nowMs, waitedMs, leads) => noted(hook.check(check, nowMs, waitedMs, leads)),
    checkLeased: (check, nowMs, waitedMs) => noted(hook.checkLeased(check, nowMs, waitedMs)),
    checkAhead: (check, nowMs, waitedMs, leads) => noted(hook.check(check, nowMs, waitedMs, leads)),
    countsAtOnce: true,
    takePermits: (checked, check, leads) => noted(hook.takePermits(checked, check, leads)),
  }
}

/**
 * Creates the functions that check a request from code, also on exempt routes.
 *
 * They have no response of their own: a limit that counts responses counts the check at once.
 *
 * @param isSkipped returns whether the limit leaves a request alone, before it is examined
 * @param costFor returns what a check of a request costs unless it says so itself
 */
export function createAsk(
  hook: HookDependencies,
  isSkipped: (checked: CheckedRequest) => boolean,
  costFor: (request: FastifyRequest) => number,
): Ask {
  const dependencies = asPeek(hook)
  async function ask(request: FastifyRequest, cost: number): Promise<CheckedRequest | null> {
    const checked = new CheckedRequest(request, dependencies.path(request))
    if (isSkipped(checked)) return null
    checked.cost = cost
    await dependencies.decide(dependencies, checked)
    if (checked.isExempt) return null
    if (cost === 0) return checked
    dependencies.holdUnits(checked)
    dependencies.noteUse(checked)
    return checked
  }
  return {
    async check(request: FastifyRequest, { cost }: CheckOptions = {}) {
      const checked = await ask(request, cost === undefined ? costFor(request) : validateCost('check.cost', cost))
      return checked?.described ?? null
    },
    async peek(request: FastifyRequest) {
      const checked = await ask(request, 0)
      return checked && forOneRequest(checked, costFor(request))
    },
  }
}

/** Turns the answer of a check of cost 0 into that for a request with a cost of its own, and returns it. */
export function forOneRequest(checked: CheckedRequest, requestCost: number): RequestDecision {
  const { applied, limit } = checked
  // The ceiling is not among the limits that it refuses beside.
  if (!applied?.some((each) => each.limit === limit)) {
    checked.decision = forCost(checked.decision, costUnder(limit, requestCost))
    return checked.described
  }
  for (const each of applied) {
    if (each.decision === NOT_ASKED) continue
    each.decision = forCost(each.decision, costUnder(each.limit, requestCost))
  }
  checked.decision = tellDecisive(checked, applied)
  return checked.described
}
