import type { FastifyRequest } from 'fastify'
import type { LimitClient } from '../clients/limit-client.js'
import type { Check, Decision } from '../limiter/algorithm.js'
import type { ActiveOverride } from '../rules/overrides/override-set.js'
import { checkUnderCeiling } from './ceiling.js'
import { type CheckedRequest, DENIED_LIMIT, type InForce, type Limit, TOO_LONG_LIMIT } from './checked-request.js'
import type { ClientAddress } from './client-address.js'
import { costUnder } from './cost.js'
import { type Decided, inTimeLeft, type LateDependencies, later, underCeiling } from './late-answers.js'
import { userText } from './request-user.js'
import {
  addGroupLimits,
  applyLimits,
  checkTogether,
  findDenial,
  giveBackTaken,
  pendingWrites,
  refuseByMemory,
  type SeveralLimitsDependencies,
} from './several-limits.js'

/** The dependencies of a decision, resolved when the plugin is registered. */
export interface DecideDependencies extends SeveralLimitsDependencies, LateDependencies {
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
  /** Returns the limit of an override; null where the store cannot count its rate. */
  overrideLimit(override: ActiveOverride): Limit | null
  /** Returns the limit of a request for which there is neither an override nor a rule. */
  staticLimit(checked: CheckedRequest): Limit | Promise<Limit>
  /** Asks for a limit that refuses what is not allowed: it may be decided from a share. */
  checkLeased(check: Check, nowMs: number, waitedMs: number): Decision | Promise<Decision>
}

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
  const { rules, groups, overrides } = checked.inForce
  if (overrides.size > 0) findOverride(checked)
  const { override } = checked
  if (address.listed === 'deny') return findClient(dependencies, checked, DENIED_LIMIT)
  if (override === null) return findClient(dependencies, checked, TOO_LONG_LIMIT)
  if (override?.effect === 'allow' || (address.listed === 'allow' && override?.effect !== 'deny')) {
    checked.isExempt = true
    return checked
  }
  const ofOverride = override && dependencies.overrideLimit(override)
  const proceed = groups.length === 0 ? findClient : findGroups
  if (ofOverride) return proceed(dependencies, checked, ofOverride)
  let rule = rules.size === 0 ? undefined : rules.match(checked.path, checked.request.method, checked.nowMs, checked)
  if (rule?.condition !== undefined) rule = dependencies.chooseRule(checked, rules)
  if (rule === null) return findClient(dependencies, checked, TOO_LONG_LIMIT)
  const limit = (rule && dependencies.ruleLimit(rule)) ?? dependencies.staticLimit(checked)
  return limit instanceof Promise ? later(dependencies, checked, limit, proceed) : proceed(dependencies, checked, limit)
}

/** Adds the limits of groups with a name: a denial decides alone. */
function findGroups(dependencies: DecideDependencies, checked: CheckedRequest, limit: Limit): Decided {
  if (limit.isDenial) return findClient(dependencies, checked, limit)
  const limits = addGroupLimits(dependencies, checked, limit)
  if (limits === null) return findClient(dependencies, checked, TOO_LONG_LIMIT)
  return limits === undefined ? findClient(dependencies, checked, limit) : findClients(dependencies, checked, limits)
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
  if (limit.answer !== null && !countsForCeiling(dependencies, limit))
    return conclude(dependencies, checked, limit.answer)
  checked.check = {
    key: client.counter,
    policy: limit.policy,
    cost: limit.cost === 1 ? cost : costUnder(limit, cost),
  }
  if (limit.ban !== null) return awaitBans(dependencies, checked)
  if (limit.awaitsEnd || dependencies.ceiling !== undefined) return awaitWrites(dependencies, checked)
  const decision = limit.mayLease
    ? dependencies.checkLeased(checked.check, nowMs, waitedMs)
    : dependencies.check(checked.check, nowMs, waitedMs)
  if (decision instanceof Promise) return awaitDecision(dependencies, checked, decision)
  checked.decision = decision
  return checked
}

/** Denials count against nothing. What is too long is no denial of the client, and counts against its ceiling. */
function countsForCeiling({ ceiling }: DecideDependencies, limit: Limit): boolean {
  return ceiling !== undefined && (!limit.isDenial || limit === TOO_LONG_LIMIT)
}

/** Finds the clients of several limits. */
function findClients(dependencies: DecideDependencies, checked: CheckedRequest, limits: readonly Limit[]): Decided {
  const late = applyLimits(checked, limits)
  return late === undefined ? awaitBans(dependencies, checked) : later(dependencies, checked, late, awaitBans)
}

/** Denies a client that this process has just banned: what is in force may not have the ban yet. */
function awaitBans(dependencies: DecideDependencies, checked: CheckedRequest): Decided {
  const denial = findDenial(checked)
  return denial instanceof Promise
    ? later(dependencies, checked, inTimeLeft(dependencies, checked, denial, undefined), denyBanned, true)
    : denyBanned(dependencies, checked, denial)
}

function denyBanned(dependencies: DecideDependencies, checked: CheckedRequest, denial: Limit | undefined): Decided {
  if (denial === undefined) return awaitWrites(dependencies, checked)
  checked.applied = undefined
  return findClient(dependencies, checked, denial)
}

/** Waits for pending writes before any limit is checked, so that a ceiling is checked in the same round trip. */
function awaitWrites(dependencies: DecideDependencies, checked: CheckedRequest): Decided {
  const { limit, client, applied } = checked
  const late = applied
    ? pendingWrites(dependencies, applied)
    : limit.awaitsEnd
      ? dependencies.pendingWrites(client.counter)
      : undefined
  return late === undefined
    ? checkAll(dependencies, checked)
    : later(dependencies, checked, inTimeLeft(dependencies, checked, late, undefined), checkAll, true)
}

/** Checks the limit, or several of them, and the ceiling where there is one. */
function checkAll(dependencies: DecideDependencies, checked: CheckedRequest): Decided {
  const { ceiling } = dependencies
  const ask = checked.applied === undefined ? checkLimit : checkTogether
  const decision =
    ceiling === undefined
      ? ask(dependencies, checked)
      : checkUnderCeiling(dependencies, checked, ceiling, ask, decideLocally)
  if (decision instanceof Promise) return awaitDecision(dependencies, checked, decision)
  return conclude(dependencies, checked, decision)
}

function conclude(dependencies: DecideDependencies, checked: CheckedRequest, decision: Decision): CheckedRequest {
  checked.decision = decision
  if (checked.applied !== undefined && checked.isRefused) giveBackTaken(dependencies, checked)
  return checked
}

function decideLocally(dependencies: DecideDependencies, checked: CheckedRequest): Decision | undefined {
  if (checked.applied !== undefined) return refuseByMemory(dependencies, checked)
  if (checked.limit.answer !== null) return checked.limit.answer
  return checked.limit.awaitsEnd ? undefined : dependencies.ceiling?.decideLocally(checked.check, checked.nowMs)
}

function checkLimit(dependencies: DecideDependencies, checked: CheckedRequest): Decision | Promise<Decision> {
  const { limit, check, nowMs, waitedMs } = checked
  if (limit.answer !== null) return limit.answer
  if (limit.takesPermits) return dependencies.takePermits(checked, check)
  if (limit.awaitsEnd) return dependencies.checkAhead(check, nowMs, waitedMs)
  return limit.mayLease ? dependencies.checkLeased(check, nowMs, waitedMs) : dependencies.check(check, nowMs, waitedMs)
}

/** Waits for the decision of the store. A ceiling does not change this last step, which remembers nothing. */
async function awaitDecision(
  dependencies: DecideDependencies,
  checked: CheckedRequest,
  late: Promise<Decision>,
): Promise<CheckedRequest> {
  const startMs = performance.now()
  const decision = await late
  checked.waitedMs += performance.now() - startMs
  return conclude(dependencies, checked, decision)
}
