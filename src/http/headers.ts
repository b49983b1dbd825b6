import type { FastifyReply } from 'fastify'
import { SECOND_MS } from '../clock.js'
import type { Policy } from '../limiter/algorithm.js'
import type { Outcome } from './decide.js'

export const HEADER_VARIANTS = ['legacy', 'draft', 'both', 'none'] as const

/**
 * `legacy` are the `X-RateLimit-*` headers, `draft` the fields `RateLimit-Policy` and `RateLimit` of
 * draft-ietf-httpapi-ratelimit-headers-11, `both` all of them, with the parameters of draft 7 in `RateLimit`.
 */
export type HeaderVariant = (typeof HEADER_VARIANTS)[number]

type SetHeaders = (reply: FastifyReply, outcome: Outcome) => void

const SETTERS: Readonly<Record<HeaderVariant, SetHeaders>> = {
  legacy: setLegacyHeaders,
  draft: setDraftFields,
  both(reply, outcome) {
    setLegacyHeaders(reply, outcome)
    setPolicyField(reply, outcome)
    reply.header('ratelimit', `${limitField(outcome)}${commentsFor(outcome)}`)
  },
  none: () => undefined,
}

/** Tells the client where it stands. */
export function createHeaders(variant: HeaderVariant): SetHeaders {
  return SETTERS[variant]
}

/** The same for the limit of a route, where the headers may tell of another limit already: the stricter one's stay. */
export function createStricterHeaders(variant: HeaderVariant): SetHeaders {
  const set = createHeaders(variant)
  return function setStricterHeaders(reply, outcome) {
    const told = remainingIn(reply)
    if (told === undefined || outcome.decision.remaining <= told) set(reply, outcome)
  }
}

/** `X-RateLimit-Limit`, `-Remaining` and `-Reset` (whole seconds, rounded up). */
function setLegacyHeaders(reply: FastifyReply, { decision }: Outcome): void {
  reply.header('x-ratelimit-limit', decision.limit)
  reply.header('x-ratelimit-remaining', decision.remaining)
  reply.header('x-ratelimit-reset', resetSeconds(decision.resetMs))
}

function setDraftFields(reply: FastifyReply, outcome: Outcome): void {
  setPolicyField(reply, outcome)
  reply.header('ratelimit', limitField(outcome))
}

function setPolicyField(reply: FastifyReply, { limit }: Outcome): void {
  reply.header('ratelimit-policy', limit.policyField)
}

function limitField({ decision, limit }: Outcome): string {
  return `${limit.quotedName};r=${decision.remaining};t=${resetSeconds(decision.resetMs)}`
}

/**
 * Parsers that know draft 7 look for `limit=`, `remaining=` and `reset=` wherever there is a `RateLimit` field, and do
 * not look at the legacy headers then. The draft takes parameters behind a vendor's prefix as comments.
 */
function commentsFor({ decision }: Outcome): string {
  return `;fsr-limit=${decision.limit};fsr-remaining=${decision.remaining};fsr-reset=${resetSeconds(decision.resetMs)}`
}

function resetSeconds(resetMs: number): number {
  return Math.ceil(resetMs / SECOND_MS)
}

/** What is left of the limit that the headers tell of. */
function remainingIn(reply: FastifyReply): number | undefined {
  const legacy = reply.getHeader('x-ratelimit-remaining')
  const remaining = legacy ?? /;r=(\d+);t=\d+$/.exec(String(reply.getHeader('ratelimit') ?? ''))?.[1]
  return remaining === undefined ? undefined : Number(remaining)
}

/** How the draft's fields call a limit: a String of RFC 9651, which has printable ASCII only. */
export function quotedName(name: string): string {
  const ascii = name.replace(/[^\x20-\x7e]+/gu, (text) => encodeURIComponent(text.toWellFormed()))
  return `"${ascii.replace(/["\\]/g, '\\$&')}"`
}

/** The value of `RateLimit-Policy`: the quota, and its window in seconds. */
export function policyField(name: string, { limit, periodMs }: Policy): string {
  return `${quotedName(name)};q=${limit};w=${periodMs / SECOND_MS}`
}
