import type { FastifyReply } from 'fastify'
import { SECOND_MS } from '../ground/time/clock.js'
import { retryAfterSeconds, type Window, type WindowState } from '../limiter/algorithm.js'
import { windowEndMs, windowStartMs } from '../limiter/period.js'
import { type AppliedLimit, type CheckedRequest, type Limit, NOT_ASKED } from './checked-request.js'
import { unitParameter } from './policy-names.js'

export const HEADER_VARIANTS = ['legacy', 'draft', 'both', 'none'] as const

/**
 * `legacy` are the `X-RateLimit-*` headers, `draft` the fields `RateLimit-Policy` and `RateLimit` of
 * draft-ietf-httpapi-ratelimit-headers-11, `both` all of them, with the parameters of draft 7 in `RateLimit`.
 */
export type HeaderVariant = (typeof HEADER_VARIANTS)[number]

type DecidedLimit = Pick<AppliedLimit, 'limit' | 'decision'>

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
function setLegacyHeaders(reply: FastifyReply, { decision }: CheckedRequest): void {
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
  const { applied, limit, decision, nowMs } = checked
  if (limit.isDenial || decision.unavailable) {
    // A limit that let the request through may have set them.
    reply.removeHeader('ratelimit-policy').removeHeader('ratelimit')
    return
  }
  const listed = applied === undefined ? undefined : listedLimits(checked, applied)
  const policies = listed?.map((each) => limitPolicies(each.limit, nowMs)).join(', ') ?? limitPolicies(limit, nowMs)
  const states = listed?.filter(isKnown).map(limitField).join(', ') ?? limitField(checked)
  reply.header('ratelimit-policy', policies)
  reply.header('ratelimit', `${states}${comments(checked)}`)
}

/** Returns all limits, and the ceiling where it decides. */
function listedLimits(checked: CheckedRequest, applied: readonly AppliedLimit[]): readonly DecidedLimit[] {
  return applied.some(({ limit }) => limit === checked.limit) ? applied : [checked, ...applied]
}

/** Returns whether the state of a limit is known: no store may have been asked, or none has answered. */
function isKnown({ decision }: DecidedLimit): boolean {
  return decision !== NOT_ASKED && !decision.unavailable
}

function limitPolicies(limit: Limit, nowMs: number): string {
  return limit.windowNames.length === 0 ? limit.policyField : windowsField(limit, nowMs)
}

function noComments(): string {
  return ''
}

function limitField({ decision, limit }: DecidedLimit): string {
  // The end of a request in progress is not known.
  if (limit.takesPermits) return `${limit.quotedName};r=${decision.remaining}`
  if (decision.windows === undefined) return stateField(limit.quotedName, decision)
  return decision.windows
    .map((state, index) => stateField(limit.windowNames[index] ?? limit.quotedName, state))
    .join(', ')
}

/** Returns what is left, and when all of it is back; of what refuses, when there is enough again, unless there never is. */
function stateField(name: string, { remaining, resetMs, retryAfterMs }: WindowState): string {
  const seconds = retryAfterMs === 0 ? resetSeconds(resetMs) : retryAfterSeconds({ retryAfterMs })
  return seconds === null ? `${name};r=${remaining}` : `${name};r=${remaining};t=${seconds}`
}

/**
 * Returns parameters for parsers of draft 7, which search a `RateLimit` field for `limit=`, `remaining=` and `reset=`
 * and then ignore the legacy headers. The draft treats parameters with a vendor's prefix as comments.
 */
function commentsFor({ decision }: CheckedRequest): string {
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
