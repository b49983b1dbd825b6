import type { FastifyReply } from 'fastify'
import { SECOND_MS } from '../ground/time/clock.js'
import { retryAfterSeconds, type Window, type WindowState } from '../limiter/algorithm.js'
import { windowEndMs, windowStartMs } from '../limiter/period.js'
import { type AppliedLimit, type CheckedRequest, type Limit, NOT_ASKED, UNLIMITED } from './checked-request.js'
import type { HeaderVariant } from './header-variant.js'
import { unitParameter } from './policy-names.js'

type MetLimit = Pick<AppliedLimit, 'limit' | 'decision'>

type SetHeaders = (reply: FastifyReply, checked: CheckedRequest) => void

const SETTERS: Readonly<Record<HeaderVariant, SetHeaders | undefined>> = {
  legacy: setLegacyHeaders,
  draft: setDraftFields,
  both(reply, checked) {
    setLegacyHeaders(reply, checked)
    setDraftFields(reply, checked, commentsFor)
  },
  none: undefined,
}

/** Returns the function that sets the rate limit headers; undefined where there are none. */
export function createHeaders(variant: HeaderVariant): SetHeaders | undefined {
  return SETTERS[variant]
}

/** Sets `X-RateLimit-Limit`, `-Remaining` and `-Reset` (whole seconds, rounded up). */
function setLegacyHeaders(reply: FastifyReply, { told: { decision } }: CheckedRequest): void {
  reply.header('x-ratelimit-limit', decision.limit)
  reply.header('x-ratelimit-remaining', decision.remaining)
  reply.header('x-ratelimit-reset', Math.ceil(decision.resetMs / SECOND_MS))
}

/** A denial is under no policy, and without a store nobody knows what is left: such answers lack the fields. */
function setDraftFields(
  reply: FastifyReply,
  checked: CheckedRequest,
  comments: (checked: CheckedRequest) => string = noComments,
): void {
  const { limit, decision, nowMs } = checked
  if (limit.isDenial || decision.unavailable) {
    // A limit that let the request through may have set them.
    reply.removeHeader('ratelimit-policy').removeHeader('ratelimit')
    return
  }
  const met = checked.met.filter(isLimited)
  reply.header('ratelimit-policy', met.map((each) => limitPolicies(each.limit, nowMs)).join(', '))
  reply.header('ratelimit', `${met.filter(isKnown).map(limitField).join(', ')}${comments(checked)}`)
}

function isLimited({ decision }: MetLimit): boolean {
  return decision !== UNLIMITED
}

/** Returns whether the state of a limit is known: no store may have been asked, or none has answered. */
function isKnown({ decision }: MetLimit): boolean {
  return decision !== NOT_ASKED && !decision.unavailable
}

function limitPolicies(limit: Limit, nowMs: number): string {
  return limit.windowNames.length === 0 ? limit.policyField : windowsField(limit, nowMs)
}

function noComments(): string {
  return ''
}

function limitField({ decision, limit }: MetLimit): string {
  // The end of a request in progress is not known.
  if (limit.takesPermits) return `${limit.quotedName};r=${decision.remaining}`
  if (decision.windows === undefined) return stateField(limit.quotedName, decision)
  return decision.windows
    .map((state, index) => stateField(limit.windowNames[index] ?? limit.quotedName, state))
    .join(', ')
}

/** Returns what is left, and when more is, where some is used; of what refuses, when enough is, unless it never is. */
function stateField(name: string, { limit, remaining, resetMs, moreMs = resetMs, retryAfterMs }: WindowState): string {
  const seconds = retryAfterMs === 0 ? resetSeconds(moreMs) : retryAfterSeconds({ retryAfterMs })
  return remaining === limit || seconds === null ? `${name};r=${remaining}` : `${name};r=${remaining};t=${seconds}`
}

/**
 * Returns parameters for parsers of draft 7, which search a `RateLimit` field for `limit=`, `remaining=` and `reset=`
 * and then ignore the legacy headers. The draft treats parameters with a vendor's prefix as comments.
 */
function commentsFor({ told: { decision } }: CheckedRequest): string {
  return `;fsr-limit=${decision.limit};fsr-remaining=${decision.remaining};fsr-reset=${resetSeconds(decision.resetMs)}`
}

function resetSeconds(resetMs: number): number {
  return Math.ceil(resetMs / SECOND_MS)
}

/** Returns the value of `RateLimit-Policy` for a policy that lists its windows; months differ. */
function windowsField({ policy, windowNames, unit }: Limit, nowMs: number): string {
  const windows = policy.windows ?? []
  const inUnit = unitParameter(unit)
  return windows
    .map((window, index) => `${windowNames[index]};q=${window.limit}${inUnit};w=${secondsIn(window, nowMs)}`)
    .join(', ')
}

function secondsIn({ periodMs }: Window, nowMs: number): number {
  const startMs = windowStartMs(periodMs, nowMs)
  return (windowEndMs(periodMs, startMs) - startMs) / SECOND_MS
}
