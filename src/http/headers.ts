import type { FastifyReply } from 'fastify'
import type { Policy } from '../limiter/algorithm.js'
import { SECOND_MS } from '../time/clock.js'
import type { CheckedRequest } from './decide.js'

export const HEADER_VARIANTS = ['legacy', 'draft', 'both', 'none'] as const

/**
 * `legacy` are the `X-RateLimit-*` headers, `draft` the fields `RateLimit-Policy` and `RateLimit` of
 * draft-ietf-httpapi-ratelimit-headers-11, `both` all of them, with the parameters of draft 7 in `RateLimit`.
 */
export type HeaderVariant = (typeof HEADER_VARIANTS)[number]

type SetHeaders = (reply: FastifyReply, checked: CheckedRequest) => void

const SETTERS: Readonly<Record<HeaderVariant, SetHeaders>> = {
  legacy: setLegacyHeaders,
  draft: setDraftFields,
  both(reply, checked) {
    setLegacyHeaders(reply, checked)
    setPolicyField(reply, checked)
    reply.header('ratelimit', `${limitField(checked)}${commentsFor(checked)}`)
  },
  none: () => undefined,
}

/** Returns the function that sets the rate limit headers. */
export function createHeaders(variant: HeaderVariant): SetHeaders {
  return SETTERS[variant]
}

/** Sets `X-RateLimit-Limit`, `-Remaining` and `-Reset` (whole seconds, rounded up). */
function setLegacyHeaders(reply: FastifyReply, { decision }: CheckedRequest): void {
  reply.header('x-ratelimit-limit', decision.limit)
  reply.header('x-ratelimit-remaining', decision.remaining)
  reply.header('x-ratelimit-reset', resetSeconds(decision.resetMs))
}

function setDraftFields(reply: FastifyReply, checked: CheckedRequest): void {
  setPolicyField(reply, checked)
  reply.header('ratelimit', limitField(checked))
}

function setPolicyField(reply: FastifyReply, { limit }: CheckedRequest): void {
  reply.header('ratelimit-policy', limit.policyField)
}

function limitField({ decision, limit }: CheckedRequest): string {
  return `${limit.quotedName};r=${decision.remaining};t=${resetSeconds(decision.resetMs)}`
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

/** Returns a limit's name for the draft's fields: a String of RFC 9651, which has printable ASCII only. */
export function quotedName(name: string): string {
  const ascii = name.replace(/[^\x20-\x7e]+/gu, (text) => encodeURIComponent(text.toWellFormed()))
  return `"${ascii.replace(/["\\]/g, '\\$&')}"`
}

/** Returns the value of `RateLimit-Policy`: the quota, and its window in seconds. */
export function policyField(name: string, { limit, periodMs }: Policy): string {
  return `${quotedName(name)};q=${limit};w=${periodMs / SECOND_MS}`
}
