/** Limits in other units than requests: what requests have reserved, what they are charged for, and what they get back. */
import type { FastifyRequest } from 'fastify'
import type { LimitClient } from '../clients/limit-client.js'
import { InvalidSettingError } from '../ground/errors.js'
import { shown } from '../ground/setting.js'
import { HOUR_MS } from '../ground/time/clock.js'
import { parseUnit, REQUESTS } from '../ground/unit.js'
import type { Decision, Policy, Settlement } from '../limiter/algorithm.js'
import { MAX_COST } from '../limiter/cost.js'
import type { Limiter } from '../limiter/limiter.js'
import { toSettlement } from '../limiter/settlement.js'
import type { UsageLog } from '../log/usage/usage-log.js'
import { type RuleGroups, rulesByName } from '../rules/rule-groups.js'
import { type AppliedLimit, type CheckedRequest, type Limit, NOT_ASKED } from './checked-request.js'
import type { Notices } from './notices.js'
import { REPLY, type RequestWithReply } from './request-reply.js'
import { atRequestEnd } from './response-events.js'

/** What a request has used, by the names of units: `{ tokens: 1834 }`. */
export type Charges = Readonly<Record<string, number>>

/** How much is left of each charged unit; null where no limit of the request has it, or the store has not answered in time. */
export type ChargesLeft = Readonly<Record<string, number | null>>

/** By whom and under which limit a unit is used. */
export interface UsedBy {
  readonly client: LimitClient
  readonly limit: Pick<Limit, 'policyName'>
}

/** What one check of a request has taken of a limit in advance. */
interface Reservation extends Pick<AppliedLimit, 'check' | 'decision'> {
  /** The time of the check. */
  readonly nowMs: number
  /** What the request still holds of it. */
  reserved: number
}

/** A limit in a unit that a request met, also where several checks of the request have asked it. */
interface MetLimit extends Pick<AppliedLimit, 'limit' | 'client' | 'check'> {
  /** Those that may be given back, in the order of their checks. */
  reservations: Reservation[]
  /** What is taken of the limit in all, in advance and by charges. */
  taken: number
  /** Undefined until it is charged, if only for nothing. */
  charged: number | undefined
}

interface RequestUse {
  /** By the names of counters. */
  readonly met: Map<string, MetLimit>
  /** The units that were charged, and when that was last. */
  readonly chargedMs: Map<string, number>
  endedMs: number | undefined
}

/** How long after its end a request may be charged. */
const CHARGEABLE_MS = HOUR_MS

export class ChargedUnits {
  readonly #limiter: Pick<Limiter, 'charge' | 'giveBack' | 'madeByFallback'>
  readonly #now: () => number
  readonly #usage: Pick<UsageLog, 'record'> | undefined
  readonly #rules: () => Pick<RuleGroups, 'rules' | 'groups'>
  readonly #notices: Pick<Notices, 'note'>
  readonly #uses = new WeakMap<FastifyRequest, RequestUse>()
  readonly #underWay = new Set<Promise<unknown>>()

  /**
   * @param usage undefined where none is kept
   * @param rules returns those in force
   */
  constructor(
    limiter: Pick<Limiter, 'charge' | 'giveBack' | 'madeByFallback'>,
    now: () => number,
    usage: Pick<UsageLog, 'record'> | undefined,
    rules: () => Pick<RuleGroups, 'rules' | 'groups'>,
    notices: Pick<Notices, 'note'>,
  ) {
    this.#limiter = limiter
    this.#now = now
    this.#usage = usage
    this.#rules = rules
    this.#notices = notices
  }

  /** Keeps what the limits of a request have reserved, until it is charged for what it has used, or has ended. */
  hold(checked: CheckedRequest): void {
    const { applied = [checked], nowMs } = checked
    const ofUnits = applied.filter(({ limit }) => limit.unit !== REQUESTS)
    if (ofUnits.length === 0) return
    const { met } = this.#useOf(checked.request)
    for (const { limit, client, check, decision } of ofUnits) {
      const isTaken = decision !== NOT_ASKED && decision.allowed && !decision.unavailable
      const reserved = isTaken ? check.cost : 0
      let known = met.get(check.key)
      if (known === undefined) {
        known = { limit, client, check, reservations: [], taken: 0, charged: undefined }
        met.set(check.key, known)
      }
      known.taken += reserved
      if (reserved > 0) known.reservations.push({ check, decision, nowMs, reserved })
    }
  }

  /**
   * Adds to what a request has used.
   *
   * @param decided for whom units are used that no limit of the request counts
   * @throws InvalidSettingError for what is not a unit or not a whole number, and for a request that ended more than an hour
   * ago; then nothing is charged
   */
  async charge(request: FastifyRequest, charges: Charges, decided: UsedBy): Promise<ChargesLeft> {
    if (typeof charges !== 'object' || charges === null) {
      throw new InvalidSettingError(`The charges are ${shown(charges)}: give amounts by unit, such as { tokens: 1834 }`)
    }
    const amounts = Object.entries(charges).map(([unit, amount]) => validateCharge(unit, amount))
    const use = this.#useOf(request)
    if (this.#now() - (use.endedMs ?? Number.POSITIVE_INFINITY) > CHARGEABLE_MS) {
      throw new InvalidSettingError('The request ended more than an hour ago: charge it within an hour of its end')
    }
    const left = await Promise.all(
      amounts.map(async ([unit, amount]) => [unit, await this.#chargeUnit(use, unit, amount, decided)] as const),
    )
    return Object.fromEntries(left)
  }

  #useOf(request: FastifyRequest): RequestUse {
    const known = this.#uses.get(request)
    if (known !== undefined) return known
    const use: RequestUse = { met: new Map(), chargedMs: new Map(), endedMs: undefined }
    this.#uses.set(request, use)
    const { [REPLY]: reply }: RequestWithReply = request
    atRequestEnd(request, reply ?? undefined, () => {
      use.endedMs ??= this.#now()
      this.#giveBackUnused([...use.met.values()])
    })
    return use
  }

  async #chargeUnit(use: RequestUse, unit: string, amount: number, decided: UsedBy): Promise<number | null> {
    const nowMs = this.#now()
    const met = [...use.met.values()].filter(({ limit }) => limit.unit === unit)
    const previousMs = use.chargedMs.get(unit)
    use.chargedMs.set(unit, nowMs)
    // A client's usage has each charge once, however many limits count it.
    for (const [client, policy] of policiesByClient(met, decided)) {
      this.#usage?.record({ client, unit, policy, amount, atMs: nowMs, previousMs })
    }
    const charges = met.flatMap((each) => {
      this.#releaseUnstored(each)
      const excess = addCharge(each, amount)
      const policy = this.#policyNow(each.limit)
      return policy === undefined ? [] : { ...each, check: { ...each.check, policy, cost: excess } }
    })
    if (use.endedMs !== undefined) this.#giveBackUnused(met)
    const answers = Promise.all(charges.map(({ check }) => this.#limiter.charge(check, nowMs)))
    this.#underWay.add(answers)
    const decisions = await answers
    this.#underWay.delete(answers)
    for (const [index, charge] of charges.entries()) this.#notices.note(charge, decisions[index], nowMs)
    return leastLeft(decisions)
  }

  /**
   * Returns the policy by which a limit counts now: a charge by that of an edited rule would begin its counter anew. What
   * counts for a rule that is not in force goes on by its own; undefined where the rule has another unit now.
   */
  #policyNow({ ruleName, policy, unit }: Limit): Policy | undefined {
    const rule = ruleName === '' ? undefined : rulesByName(this.#rules()).get(ruleName)
    if (rule === undefined) return policy
    return rule.unit === unit ? rule.policy : undefined
  }

  /** Waits until the store has counted all charges, or owes them. */
  async close(): Promise<void> {
    await Promise.all(this.#underWay)
  }

  /**
   * Gives back what the fallback has reserved in place of the store, and the store itself, if it says so later: it is charged
   * for all that the request uses.
   */
  #releaseUnstored(met: MetLimit): void {
    const unstored = met.reservations.filter(({ decision }) => this.#limiter.madeByFallback(decision))
    if (unstored.length === 0) return
    met.reservations = met.reservations.filter((each) => !unstored.includes(each))
    for (const { reserved } of unstored) met.taken -= reserved
    this.#limiter.giveBack(
      unstored.map(({ check, reserved, decision, nowMs }) =>
        toSettlement({ ...check, cost: reserved }, decision, nowMs),
      ),
      this.#now(),
    )
  }

  /** Gives back what was reserved and not charged, of the latest checks first. What was never charged keeps its reservation. */
  #giveBackUnused(met: readonly MetLimit[]): void {
    const settlements = met.flatMap((each): Settlement[] => {
      const unused = each.charged === undefined ? 0 : each.taken - each.charged
      each.taken -= unused
      return releaseLatest(each.reservations, unused)
    })
    if (settlements.length > 0) this.#limiter.giveBack(settlements, this.#now())
  }
}

/** Adds to what is charged of a limit, and returns by how much that exceeds what is taken of it. */
function addCharge(met: MetLimit, amount: number): number {
  met.charged = (met.charged ?? 0) + amount
  const excess = Math.max(0, met.charged - met.taken)
  met.taken += excess
  // What a charge exceeds is used: only what later checks reserve may be given back.
  if (excess > 0) met.reservations.length = 0
  return Math.min(excess, MAX_COST)
}

/** Takes an amount out of reservations, and returns the settlements that give it back. */
function releaseLatest(reservations: Reservation[], amount: number): Settlement[] {
  const settlements: Settlement[] = []
  for (let left = amount; left > 0; ) {
    const latest = reservations.at(-1)
    if (latest === undefined) break
    const cost = Math.min(left, latest.reserved)
    settlements.push(toSettlement({ ...latest.check, cost }, latest.decision, latest.nowMs))
    latest.reserved -= cost
    left -= cost
    if (latest.reserved === 0) reservations.pop()
  }
  return settlements
}

/** Returns the clients of limits, each with the first of its policies. */
function policiesByClient(met: readonly UsedBy[], decided: UsedBy): ReadonlyMap<string, string> {
  const used = met.length === 0 ? [decided] : met
  return new Map(used.toReversed().map(({ client, limit }) => [client.logged.text, limit.policyName]))
}

/** Returns the least that is left of a unit in the windows of all limits; a decision alone tells the window with the smallest share. */
function leastLeft(decisions: readonly (Decision | undefined)[]): number | null {
  if (decisions.length === 0 || decisions.includes(undefined)) return null
  const states = decisions.flatMap((decision) => decision?.windows ?? decision ?? [])
  return Math.min(...states.map(({ remaining }) => remaining))
}

/** @throws InvalidSettingError for anything else than a request that this process got, such as its id, or a copy of it */
export function validateRequest(request: Partial<FastifyRequest> | null | undefined): void {
  // A copy has what the request has, but not what its prototype answers.
  if (request?.raw?.socket !== undefined && request.server !== undefined) return
  throw new InvalidSettingError(
    `The charged request is ${shown(request)}: give the request of Fastify, in the process that handles it`,
  )
}

function validateCharge(unit: string, amount: unknown): readonly [string, number] {
  if (typeof amount !== 'number' || !Number.isSafeInteger(amount) || amount < 0) {
    throw new InvalidSettingError(`The charge of ${shown(unit)} is ${shown(amount)}: give a whole number from 0 on`)
  }
  return [parseUnit(unit), amount]
}
