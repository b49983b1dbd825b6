/** The limits of a request that has several: that of the group without a name, and one of each other group that matches. */
import type { LimitClient } from '../clients/limit-client.js'
import { type Check, countsRefused, type Decision, type Settlement } from '../limiter/algorithm.js'
import type { Limiter } from '../limiter/limiter.js'
import { toDecision, toPeek } from '../limiter/peek.js'
import { toSettlement, withoutCost } from '../limiter/settlement.js'
import { hasLessLeft, refusalMs } from '../limiter/windows.js'
import type { Rule } from '../rules/rule.js'
import { type AppliedLimit, type CheckedRequest, type InForce, type Limit, NOT_ASKED } from './checked-request.js'
import { costUnder } from './cost.js'

export interface SeveralLimitsDependencies {
  /** Returns the first rule of a group whose condition holds, where that of the first rule for the path has one. */
  chooseRule(checked: CheckedRequest, rules: InForce['rules']): Rule | null | undefined
  /** Returns the limit of a rule; null where the store cannot count its rate. */
  ruleLimit(rule: Rule): Limit | null
  /** Returns a refusal that holds without asking the store. */
  remembered(check: Check, nowMs: number): Decision | undefined
  /**
   * Returns what the store is still doing for a counter after earlier requests have ended, which their clients may know
   * before. Never rejects.
   */
  pendingWrites(counter: string): Promise<unknown> | undefined
  /**
   * Asks the limiter: the store counts the request in any case.
   *
   * @param leads how many checks of the request follow, which go to the store together with this one
   */
  check: Limiter['check']
  /** Answers as `check`, for a limit that counts responses: uses nothing yet. */
  checkAhead(check: Check, nowMs: number, waitedMs: number, leads?: number): Decision | Promise<Decision>
  /** Whether `checkAhead` uses the cost at once, since the request has no response of its own. */
  readonly countsAtOnce: boolean
  /** Checks for a limit that counts requests in progress: the request holds what it takes until it ends. */
  takePermits(checked: CheckedRequest, check: Check, leads?: number): Decision | Promise<Decision>
  /** Ends the hold on the permits that a check of a request took, and returns what gives them back. */
  releasePermits(checked: CheckedRequest, check: Check): Settlement | undefined
  /** Gives back what the checks of a request took, before later checks. */
  giveBack(settlements: readonly Settlement[], nowMs: number): void
}

/**
 * Adds the limits of the groups that have a name, of each that of the first rule that matches.
 *
 * @returns undefined where none matches, and null where the search takes too much work
 */
export function addGroupLimits(
  dependencies: SeveralLimitsDependencies,
  checked: CheckedRequest,
  base: Limit,
): readonly Limit[] | null | undefined {
  const { inForce, path, request, nowMs } = checked
  let limits: Limit[] | undefined
  for (const rules of inForce.groups) {
    let rule = rules.match(path, request.method, nowMs, checked)
    if (rule?.condition !== undefined) rule = dependencies.chooseRule(checked, rules)
    if (rule === null) return null
    const limit = rule && dependencies.ruleLimit(rule)
    if (!limit) continue
    if (limits === undefined) limits = [base, limit]
    else limits.push(limit)
  }
  return limits
}

/** Finds the client of each limit of a request. Returns a promise where one of them is late. */
export function applyLimits(checked: CheckedRequest, limits: readonly Limit[]): Promise<void> | undefined {
  const applied: AppliedLimit[] = []
  for (const limit of limits) {
    const client = limit.toClient(checked)
    if (client instanceof Promise) return applyLater(checked, limits, applied, client)
    applied.push(applyLimit(limit, client, checked.cost))
  }
  checked.applied = applied
  return undefined
}

/** @param late the client of the first limit that is not applied */
async function applyLater(
  checked: CheckedRequest,
  limits: readonly Limit[],
  applied: AppliedLimit[],
  late: Promise<LimitClient>,
): Promise<void> {
  const left = limits.slice(applied.length)
  const clients = [late, ...left.slice(1).map((limit) => limit.toClient(checked))]
  for (const [index, client] of (await Promise.all(clients)).entries()) {
    const limit = left[index]
    if (limit !== undefined) applied.push(applyLimit(limit, client, checked.cost))
  }
  checked.applied = applied
}

function applyLimit(limit: Limit, client: LimitClient, requestCost: number): AppliedLimit {
  const cost = limit.cost === 1 ? requestCost : costUnder(limit, requestCost)
  const check = { key: client.counter, policy: limit.policy, cost }
  return { limit, client, check, decision: limit.answer ?? NOT_ASKED, isTaken: false }
}

/** Returns the denial of the first limit whose client this process has just banned. */
export function findDenial(checked: CheckedRequest): Limit | undefined | Promise<Limit | undefined> {
  const { applied = [checked] } = checked
  if (!applied.some(canBan)) return undefined
  const bans = applied.flatMap(({ limit: { ban }, client }) => {
    return ban === null ? [] : { denial: ban.denial, isBanned: ban.isBanned(client) }
  })
  if (!bans.some(({ isBanned }) => isBanned instanceof Promise)) {
    return bans.find(({ isBanned }) => isBanned === true)?.denial
  }
  return Promise.all(bans.map(({ isBanned }) => isBanned)).then((banned) => bans[banned.indexOf(true)]?.denial)
}

function canBan({ limit }: Pick<AppliedLimit, 'limit'>): boolean {
  return limit.ban !== null
}

/** Returns what the store is still doing for the counters of some limits, which their clients may know before. */
export function pendingWrites(
  dependencies: SeveralLimitsDependencies,
  applied: readonly AppliedLimit[],
): Promise<unknown> | undefined {
  if (!applied.some(awaitsEnd)) return undefined
  const writes = applied.flatMap(({ limit, client }) => {
    return limit.awaitsEnd ? (dependencies.pendingWrites(client.counter) ?? []) : []
  })
  return writes.length === 0 ? undefined : Promise.all(writes)
}

function awaitsEnd({ limit }: AppliedLimit): boolean {
  return limit.awaitsEnd
}

/**
 * Decides by the refusals that are remembered. The store is asked for no limit where one of them refuses: nothing is taken,
 * and the other limits have no state.
 *
 * @returns undefined where the store has to be asked
 */
export function refuseByMemory(dependencies: SeveralLimitsDependencies, checked: CheckedRequest): Decision | undefined {
  const { applied = [], nowMs } = checked
  let isRefused = false
  for (const each of applied) {
    if (each.limit.answer !== null) continue
    const decision = rememberedRefusal(dependencies, each, nowMs)
    if (decision === undefined) continue
    each.decision = decision
    if (each.limit.block) isRefused = true
  }
  return isRefused ? tellDecisive(checked, applied) : undefined
}

function rememberedRefusal(
  { remembered }: SeveralLimitsDependencies,
  { limit, check }: AppliedLimit,
  nowMs: number,
): Decision | undefined {
  if (limit.takesPermits) return undefined
  if (limit.counts === null) return remembered(check, nowMs)
  const standing = remembered(toPeek(check), nowMs)
  return standing && toDecision(check, standing)
}

/** Checks all limits that no remembered refusal has decided, together, and tells of the decisive one. */
export function checkTogether(
  dependencies: SeveralLimitsDependencies,
  checked: CheckedRequest,
): Decision | Promise<Decision> {
  const { applied = [] } = checked
  const refused = refuseByMemory(dependencies, checked)
  if (refused !== undefined) return refused
  let late: Promise<void>[] | undefined
  let leads = applied.length
  for (const each of applied) {
    leads--
    if (each.decision !== NOT_ASKED) continue
    const answer = checkOne(dependencies, checked, each, leads)
    if (answer instanceof Promise) {
      late ??= []
      late.push(answer.then((decision) => note(dependencies, each, decision)))
    } else {
      note(dependencies, each, answer)
    }
  }
  return late === undefined
    ? tellDecisive(checked, applied)
    : Promise.all(late).then(() => tellDecisive(checked, applied))
}

function checkOne(
  dependencies: SeveralLimitsDependencies,
  checked: CheckedRequest,
  { limit, check }: AppliedLimit,
  leads: number,
): Decision | Promise<Decision> {
  const { nowMs, waitedMs } = checked
  if (limit.takesPermits) return dependencies.takePermits(checked, check, leads)
  if (limit.counts !== null) return dependencies.checkAhead(check, nowMs, waitedMs, leads)
  return dependencies.check(check, nowMs, waitedMs, leads)
}

function note({ countsAtOnce }: SeveralLimitsDependencies, applied: AppliedLimit, decision: Decision): void {
  const { limit, check } = applied
  const isCharged = check.cost > 0 && (limit.counts === null || countsAtOnce)
  // What a fixed window counts beyond its limit is given back as well: it may refuse because of what others hold for a moment.
  applied.decision = decision
  applied.isTaken = isCharged && (decision.allowed || countsRefused(check.policy))
}

/**
 * Makes a request tell of the limit that decides: of those that refuse the one with the longest wait, else one that would
 * refuse if it blocked, else the one with the smallest share left.
 */
export function tellDecisive(checked: CheckedRequest, applied: readonly AppliedLimit[]): Decision {
  let decisive: AppliedLimit | undefined
  for (const each of applied) if (decisive === undefined || tellsMore(each, decisive)) decisive = each
  if (decisive === undefined) throw new RangeError('a request without limits')
  checked.limit = decisive.limit
  checked.client = decisive.client
  checked.check = decisive.check
  return decisive.decision
}

function tellsMore(a: AppliedLimit, b: AppliedLimit): boolean {
  const [rankA, rankB] = [rank(a), rank(b)]
  if (rankA !== rankB) return rankA > rankB
  return rankA === REFUSES
    ? refusalMs(a.decision) > refusalMs(b.decision)
    : rankA !== UNKNOWN && hasLessLeft(a.decision, b.decision)
}

const [UNKNOWN, ALLOWS, WOULD_REFUSE, REFUSES] = [0, 1, 2, 3]

function rank({ limit, decision }: AppliedLimit): number {
  if (decision === NOT_ASKED) return UNKNOWN
  if (decision.allowed) return ALLOWS
  return limit.block ? REFUSES : WOULD_REFUSE
}

/** Gives back what the limits of a refused request took. */
export function giveBackTaken(dependencies: SeveralLimitsDependencies, checked: CheckedRequest): void {
  const { applied = [], nowMs } = checked
  const settlements = applied.flatMap((each) => {
    const { limit, check, decision, isTaken } = each
    if (!isTaken) return []
    each.isTaken = false
    if (decision.allowed) each.decision = withoutCost(decision, check.cost)
    return limit.takesPermits
      ? (dependencies.releasePermits(checked, check) ?? [])
      : toSettlement(check, decision, nowMs)
  })
  if (settlements.length > 0) dependencies.giveBack(settlements, nowMs)
}
