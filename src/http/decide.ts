import type { FastifyRequest } from 'fastify'
import type { LimitClient } from '../clients/limit-client.js'
import { unremembered } from '../ground/remember.js'
import { patientTimeout } from '../ground/time/cooperative-yield.js'
import type { Check, Decision } from '../limiter/algorithm.js'
import type { ActiveOverride } from '../rules/overrides/override-set.js'
import type { Rule } from '../rules/rule.js'
import { type Ceiling, checkUnderCeiling, isRefusing } from './ceiling.js'
import {
  type CheckedRequest,
  DENIED,
  DENIED_LIMIT,
  type InForce,
  type Limit,
  type LimitBan,
  TOO_LONG_LIMIT,
} from './checked-request.js'
import type { ClientAddress } from './client-address.js'
import { chargedCost } from './cost.js'
import { userText } from './request-user.js'

/** The dependencies of a decision, resolved when the plugin is registered. */
export interface DecideDependencies {
  now(): number
  address(request: FastifyRequest): ClientAddress
  /** Returns the path as the router sees it. */
  path(request: FastifyRequest): string
  /** Whether every request needs its user, whatever is in force. */
  readonly needsUser: boolean
  /** Sets `user` and `userFields`. */
  user(checked: CheckedRequest): Promise<undefined> | undefined
  /**
   * Returns the rules and overrides, once per request, so that all of its decision is of one moment.
   *
   * @param waitedMs how long the request has waited before
   */
  inForce(nowMs: number, waitedMs: number): InForce | Promise<InForce>
  /** The time for which a request waits for the store and for what is in force, in all. */
  readonly storeTimeoutMs: number
  /** Returns the limit of an override; null where the store cannot count its rate. */
  overrideLimit(override: ActiveOverride): Limit | null
  /** Returns the first rule whose condition holds, where that of the first rule for the path has one. */
  chooseRule(checked: CheckedRequest): Rule | null | undefined
  /** Returns the limit of a rule; null where the store cannot count its rate. */
  ruleLimit(rule: Rule): Limit | null
  /** Returns the limit of a request for which there is neither an override nor a rule. */
  staticLimit(checked: CheckedRequest): Limit | Promise<Limit>
  /** Asks the limiter: the store counts the request in any case. */
  check(check: Check, nowMs: number, waitedMs: number): Decision | Promise<Decision>
  /** Asks for a limit that refuses what is not allowed: it may be decided from a share. */
  checkLeased(check: Check, nowMs: number, waitedMs: number): Decision | Promise<Decision>
  /**
   * Returns what the store is still doing for a counter after earlier requests have ended, which their clients may know
   * before. Never rejects.
   */
  pendingWrites(counter: string): Promise<unknown> | undefined
  /** Answers as `check`, for a limit that counts responses: uses nothing yet. */
  checkAhead(check: Check, nowMs: number, waitedMs: number): Decision | Promise<Decision>
  /** Checks for a limit that counts requests in progress: the request holds what it takes until it ends. */
  takePermits(checked: CheckedRequest): Decision | Promise<Decision>
  /** The limit that requests count against besides; a denial counts against none. */
  readonly ceiling: Ceiling | undefined
}

type Decided = CheckedRequest | Promise<CheckedRequest>

/** Goes on with a request when the answer that it waits for is there. */
type Proceed<Answer> = (dependencies: DecideDependencies, checked: CheckedRequest, answer: Answer) => Decided

/**
 * Decides about a request, in the order of the functions below. Each of them ends with an answer that may be late, and
 * the next one goes on at once where it is not. V8 inlines them up to a size: what few requests need is apart.
 */
export function decide(dependencies: DecideDependencies, checked: CheckedRequest): Decided {
  checked.nowMs = dependencies.now()
  checked.address = dependencies.address(checked.request)
  const inForce = dependencies.inForce(checked.nowMs, checked.waitedMs)
  if (inForce instanceof Promise) return later(dependencies, checked, inForce, findUser, true)
  return dependencies.ceiling === undefined
    ? findUser(dependencies, checked, inForce)
    : underCeiling(dependencies, checked, inForce, findUser)
}

function findUser(dependencies: DecideDependencies, checked: CheckedRequest, inForce: InForce): Decided {
  const { address } = checked
  const { needUsers, overrides } = inForce
  checked.inForce = inForce
  const isExempt = address.listed === 'allow' && overrides.size === 0
  const isNeeded = (dependencies.needsUser || needUsers || overrides.hasUsers) && !isExempt
  const late = isNeeded ? dependencies.user(checked) : undefined
  return late === undefined ? findLimit(dependencies, checked) : later(dependencies, checked, late, findLimit)
}

/** Exempts a request, or finds its limit. Refusals go first: the deny list, then overrides, then the allow list. */
function findLimit(dependencies: DecideDependencies, checked: CheckedRequest): Decided {
  const { address } = checked
  const { rules, overrides } = checked.inForce
  if (overrides.size > 0) findOverride(checked)
  const { override } = checked
  if (address.listed === 'deny') return findClient(dependencies, checked, DENIED_LIMIT)
  if (override === null) return findClient(dependencies, checked, TOO_LONG_LIMIT)
  if (override?.effect === 'allow' || (address.listed === 'allow' && override?.effect !== 'deny')) {
    checked.isExempt = true
    return checked
  }
  const ofOverride = override && dependencies.overrideLimit(override)
  if (ofOverride) return findClient(dependencies, checked, ofOverride)
  let rule = rules.size === 0 ? undefined : rules.match(checked.path, checked.request.method, checked.nowMs, checked)
  if (rule?.condition !== undefined) rule = dependencies.chooseRule(checked)
  if (rule === null) return findClient(dependencies, checked, TOO_LONG_LIMIT)
  const limit = (rule && dependencies.ruleLimit(rule)) ?? dependencies.staticLimit(checked)
  return limit instanceof Promise
    ? later(dependencies, checked, limit, findClient)
    : findClient(dependencies, checked, limit)
}

/** Finds the override of a request. What a denied proxy forwards is denied. */
function findOverride(checked: CheckedRequest): void {
  const { address, user, path, nowMs } = checked
  const { overrides } = checked.inForce
  checked.override = overrides.find(address.plain, userText(user), path, nowMs, address.pseudonym, checked)
  if (address.relay === null) return
  const ofRelay = overrides.find(address.relay.plain, null, path, nowMs, address.relay.pseudonym, checked)
  if (ofRelay === null || ofRelay?.effect === 'deny') checked.override = ofRelay
}

function findClient(dependencies: DecideDependencies, checked: CheckedRequest, limit: Limit): Decided {
  checked.limit = limit
  const client = limit.toClient(checked)
  return client instanceof Promise ? later(dependencies, checked, client, check) : check(dependencies, checked, client)
}

function check(dependencies: DecideDependencies, checked: CheckedRequest, client: LimitClient): Decided {
  const { limit, cost, nowMs, waitedMs } = checked
  checked.client = client
  // Denials count against nothing. What is too long is no denial of the client, and counts against its ceiling.
  if (limit.isDenial && (limit !== TOO_LONG_LIMIT || dependencies.ceiling === undefined)) return checked
  checked.check = {
    key: client.counter,
    policy: limit.policy,
    cost: limit.cost === 1 ? cost : chargedCost(cost, limit.cost),
  }
  if (limit.ban !== null) return awaitBan(dependencies, checked, limit.ban)
  if (limit.awaitsEnd || dependencies.ceiling !== undefined) return awaitWrites(dependencies, checked)
  const decision = limit.block
    ? dependencies.checkLeased(checked.check, nowMs, waitedMs)
    : dependencies.check(checked.check, nowMs, waitedMs)
  if (decision instanceof Promise) return awaitDecision(checked, decision)
  checked.decision = decision
  return checked
}

/** Denies a client that this process has just banned: what is in force may not have the ban yet. */
function awaitBan(dependencies: DecideDependencies, checked: CheckedRequest, ban: LimitBan): Decided {
  const isBanned = ban.isBanned(checked.client)
  return isBanned instanceof Promise
    ? later(dependencies, checked, inTimeLeft(dependencies, checked, isBanned, false), denyBanned, true)
    : denyBanned(dependencies, checked, isBanned)
}

function denyBanned(dependencies: DecideDependencies, checked: CheckedRequest, isBanned: boolean): Decided {
  const { ban } = checked.limit
  return isBanned && ban !== null ? findClient(dependencies, checked, ban.denial) : awaitWrites(dependencies, checked)
}

/** Waits for pending writes before any limit is checked, so that a ceiling is checked in the same round trip. */
function awaitWrites(dependencies: DecideDependencies, checked: CheckedRequest): Decided {
  const { limit, client } = checked
  const late = limit.awaitsEnd ? dependencies.pendingWrites(client.counter) : undefined
  return late === undefined
    ? checkAll(dependencies, checked)
    : later(dependencies, checked, inTimeLeft(dependencies, checked, late, undefined), checkAll, true)
}

/** Checks the limit, and the ceiling where there is one. */
function checkAll(dependencies: DecideDependencies, checked: CheckedRequest): Decided {
  const { ceiling } = dependencies
  const decision =
    ceiling === undefined
      ? checkLimit(dependencies, checked)
      : checkUnderCeiling(dependencies, checked, ceiling, checkLimit)
  if (decision instanceof Promise) return awaitDecision(checked, decision)
  checked.decision = decision
  return checked
}

function checkLimit(dependencies: DecideDependencies, checked: CheckedRequest): Decision | Promise<Decision> {
  const { limit, check, nowMs, waitedMs } = checked
  if (limit.isDenial) return DENIED
  if (limit.takesPermits) return dependencies.takePermits(checked)
  if (limit.awaitsEnd) return dependencies.checkAhead(check, nowMs, waitedMs)
  return limit.block ? dependencies.checkLeased(check, nowMs, waitedMs) : dependencies.check(check, nowMs, waitedMs)
}

/** Waits for the decision of the store. A ceiling does not change this last step, which remembers nothing. */
async function awaitDecision(checked: CheckedRequest, late: Promise<Decision>): Promise<CheckedRequest> {
  const startMs = performance.now()
  checked.decision = await late
  checked.waitedMs += performance.now() - startMs
  return checked
}

/** Goes on with an answer: nothing is remembered of what a request makes up that its ceiling refuses. */
function underCeiling<Answer>(
  dependencies: DecideDependencies,
  checked: CheckedRequest,
  answer: Answer,
  proceed: Proceed<Answer>,
): Decided {
  const { ceiling } = dependencies
  const isBeyond = ceiling !== undefined && isRefusing(ceiling, checked)
  return isBeyond ? unremembered(proceed, dependencies, checked, answer) : proceed(dependencies, checked, answer)
}

/**
 * Goes on with a late answer. A function of its own: its closure would cost an allocation also where nothing is late.
 *
 * @param isStored whether the store or the database answers: a request waits for all of that no longer than for one
 */
function later<Answer>(
  dependencies: DecideDependencies,
  checked: CheckedRequest,
  late: Promise<Answer>,
  proceed: Proceed<Answer>,
  isStored = false,
): Promise<CheckedRequest> {
  const startMs = performance.now()
  return late.then((answer) => {
    if (isStored) checked.waitedMs += performance.now() - startMs
    return underCeiling(dependencies, checked, answer, proceed)
  })
}

/** Returns an answer, or the other one when the time of the request is over. */
function inTimeLeft<Answer>(
  { storeTimeoutMs }: DecideDependencies,
  { waitedMs }: CheckedRequest,
  late: Promise<Answer>,
  otherwise: Answer,
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const timer = patientTimeout(() => resolve(otherwise), Math.max(2, storeTimeoutMs - waitedMs))
    late.then(resolve, reject).finally(() => clearTimeout(timer))
  })
}
