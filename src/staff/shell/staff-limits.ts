import { createHash } from 'node:crypto'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { type Client, createClient, EVERYBODY } from '../../clients/client.js'
import { staffCounter } from '../../clients/counter.js'
import { MINUTE_MS } from '../../ground/time/clock.js'
import { type Policy, retryAfterSeconds } from '../../limiter/algorithm.js'
import type { Parts } from '../../plugin/parts.js'
import { TooManyAttemptsError } from './staff-errors.js'

// The staff pages have no rules, so that none can lock the staff out. Their limits for strangers are fixed.

/** Refusals are cheap; the limit only keeps a stranger from turning them into a load. */
const REFUSALS: Policy = { algorithm: 'fixed_window', limit: 60, periodMs: MINUTE_MS }
/** The limit is enough for typing errors, too few for guessing. */
const SIGN_INS: Policy = { algorithm: 'fixed_window', limit: 10, periodMs: 5 * MINUTE_MS }
/** The limit of an account over all addresses: more than ten addresses guess no faster. */
const SIGN_INS_OF_ACCOUNT: Policy = { ...SIGN_INS, limit: 100 }
/** Recipients are not to be flooded, nor pages to be kept waiting for a mail server. */
const ALERT_TESTS: Policy = { algorithm: 'fixed_window', limit: 5, periodMs: 5 * MINUTE_MS }
/** Verifying a password takes a core 0.2 s, and 32 MiB: the last in the queue waits for two seconds. */
const MOST_QUEUED = 8

/** The parts that count requests of strangers: in the store, and in memory while that fails. */
export type StaffLimits = Pick<Parts, 'staffLimiter' | 'clock' | 'addresses'>

/**
 * Counts a refusal.
 *
 * @throws TooManyAttemptsError when the client was refused too often already
 */
export function countRefusal(limits: StaffLimits, request: FastifyRequest, reply: FastifyReply): Promise<void> {
  const key = staffCounter('refusal', addressOf(limits, request))
  return spend(limits, reply, key, REFUSALS, 'Too many refused requests')
}

/**
 * Counts an attempt to sign in. A browser that signed in to the account before has a limit of its own, so that
 * strangers cannot lock it out, even from the same address; the others are counted by their address and by the account.
 *
 * @throws TooManyAttemptsError when there were too many attempts already
 */
export async function countSignIn(
  limits: StaffLimits,
  request: FastifyRequest,
  reply: FastifyReply,
  account: string,
  knownBrowser: string | undefined,
): Promise<void> {
  const count = (key: string, policy: Policy) => spend(limits, reply, key, policy, 'Too many attempts to sign in')
  if (knownBrowser !== undefined)
    return count(staffCounter('sign-in-browser', createClient({ name: 'key', value: knownBrowser })), SIGN_INS)
  await count(staffCounter('sign-in', addressOf(limits, request)), SIGN_INS)
  // Unknown names are counted too, so that the answer does not reveal which names exist.
  const name = createHash('sha256').update(account).digest('base64url')
  await count(staffCounter('sign-in-account', createClient({ name: 'key', value: name })), SIGN_INS_OF_ACCOUNT)
}

/**
 * Counts a request with a token that opens nothing, as an attempt to sign in. Those with one that does are not counted,
 * so that strangers at the same address lock no staff out.
 *
 * @throws TooManyAttemptsError when there were too many already
 */
export function countFailedToken(limits: StaffLimits, request: FastifyRequest, reply: FastifyReply): Promise<void> {
  const key = staffCounter('token', addressOf(limits, request))
  return spend(limits, reply, key, SIGN_INS, 'Too many requests with a wrong token')
}

/**
 * Counts a test message of alerts, whoever sends it.
 *
 * @throws TooManyAttemptsError when there were too many already
 */
export function countAlertTest(limits: StaffLimits, reply: FastifyReply): Promise<void> {
  return spend(limits, reply, staffCounter('alert-test', EVERYBODY), ALERT_TESTS, 'Too many test messages')
}

/** A process verifies one password at a time per queue, with one queue for known browsers and one for others. */
const queues = { known: createQueue(MOST_QUEUED), unknown: createQueue(MOST_QUEUED) }

/**
 * Verifies a password when its turn comes.
 *
 * @throws TooManyAttemptsError when too many wait already
 */
export function verifyInTurn(reply: FastifyReply, isKnown: boolean, verify: () => Promise<boolean>): Promise<boolean> {
  const turn = queues[isKnown ? 'known' : 'unknown'](verify)
  if (turn !== undefined) return turn
  reply.header('retry-after', 1)
  throw new TooManyAttemptsError('Too many attempts to sign in at once: try again in a moment.')
}

/** Creates a queue that does one work at a time. It refuses the work and returns undefined when it holds `most`. */
function createQueue(maxLength: number) {
  let length = 0
  let last: Promise<unknown> = Promise.resolve()
  return function enqueue<Result>(work: () => Promise<Result>): Promise<Result> | undefined {
    if (length === maxLength) return undefined
    length++
    const result = last.then(work).finally(() => {
      length--
    })
    last = result.catch(() => undefined)
    return result
  }
}

/** Returns the client as limits count addresses: IPv6 by its network. */
function addressOf({ addresses }: StaffLimits, request: FastifyRequest): Client {
  return addresses.client(request).client.counted
}

async function spend(
  { staffLimiter, clock }: StaffLimits,
  reply: FastifyReply,
  key: string,
  policy: Policy,
  complaint: string,
): Promise<void> {
  const decision = await staffLimiter.check({ key, policy, cost: 1 }, clock.now(), 0)
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
