/** What a host adds to the check by functions of its own: an exemption, and a notice of refusals. */
import type { FastifyBaseLogger, FastifyRequest } from 'fastify'
import type { Decision } from '../limiter/algorithm.js'
import { type CheckedRequest, decide } from './decide.js'
import { type RequestFunction, tolerate } from './host-function.js'

/** Returns whether the plugin's own check leaves a request alone; may be async. */
export type SkipFunction = RequestFunction<boolean>

/** Receives every refused request with its decision, before it is answered. */
export type RefusalFunction = (request: FastifyRequest, decision: Decision) => unknown

export type Decide = (checked: CheckedRequest) => CheckedRequest | Promise<CheckedRequest>

/** Creates the function that decides about a request, unless the host skips it. A failure to say so skips nothing. */
export function createDecide(skip: SkipFunction | undefined, log: FastifyBaseLogger): Decide {
  if (skip === undefined) return decide
  const isSkipped = tolerate(skip, 'skip', log)

  function decideUnless(skipped: boolean | undefined, checked: CheckedRequest): ReturnType<Decide> {
    // Nothing but true exempts: a function that forgets its answer must not.
    if (skipped !== true) return decide(checked)
    checked.isExempt = true
    return checked
  }

  return function decideUnlessSkipped(checked) {
    const skipped = isSkipped(checked.request)
    return skipped instanceof Promise
      ? skipped.then((answer) => decideUnless(answer, checked))
      : decideUnless(skipped, checked)
  }
}

/** Creates the function that reports a refusal to the host. It never throws, and nothing waits for it. */
export function createRefusalNotice(onRefused: RefusalFunction | undefined, log: FastifyBaseLogger) {
  if (onRefused === undefined) return () => undefined
  const notify = tolerate(({ request, decision }: CheckedRequest) => onRefused(request, decision), 'onRefused', log)
  return function noteRefusal(checked: CheckedRequest): void {
    void notify(checked)
  }
}
