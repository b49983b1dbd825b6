import type { FastifyReply, FastifyRequest } from 'fastify'
import { MINUTE_MS } from '../clock.js'
import type { Internals } from '../internals.js'
import { type Policy, retryAfterSeconds } from '../limiter/algorithm.js'
import { TooManyAttemptsError } from './staff-errors.js'

// No rule applies to the staff pages, so that none can lock the staff out. What strangers may do there is fixed.

/** Refusals are cheap; the limit only keeps a stranger from making them a load. */
const REFUSALS: Policy = { algorithm: 'fixed_window', limit: 60, periodMs: MINUTE_MS }
/** Enough for somebody who mistypes, nothing for somebody who guesses. */
const SIGN_INS: Policy = { algorithm: 'fixed_window', limit: 10, periodMs: 5 * MINUTE_MS }

/** @throws TooManyAttemptsError when the client was refused too often already */
export function countRefusal(internals: Internals, request: FastifyRequest, reply: FastifyReply): Promise<void> {
  return spend(internals, request, reply, 'staff-refusal', REFUSALS, 'Too many refused requests')
}

/** @throws TooManyAttemptsError when the client tried to sign in too often already */
export function countSignIn(internals: Internals, request: FastifyRequest, reply: FastifyReply): Promise<void> {
  return spend(internals, request, reply, 'staff-sign-in', SIGN_INS, 'Too many attempts to sign in')
}

async function spend(
  { staffLimiter, clock, clientAddress }: Internals,
  request: FastifyRequest,
  reply: FastifyReply,
  name: string,
  policy: Policy,
  complaint: string,
): Promise<void> {
  const key = `${name}:${clientAddress(request)}`
  const decision = await staffLimiter.check({ key, policy, cost: 1 }, clock.now())
  if (decision.allowed) return
  const seconds = retryAfterSeconds(decision) ?? 1
  reply.header('retry-after', seconds)
  throw new TooManyAttemptsError(`${complaint}: try again in ${inWords(seconds)}.`)
}

function inWords(seconds: number): string {
  const minutes = Math.ceil(seconds / 60)
  if (seconds < 60) return seconds === 1 ? '1 second' : `${seconds} seconds`
  return minutes === 1 ? '1 minute' : `${minutes} minutes`
}
