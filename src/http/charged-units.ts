/** Limits in other units than requests: what requests have reserved, what they are charged for, and what they get back. */
import type { FastifyRequest } from 'fastify'
import type { LimitClient } from '../clients/limit-client.js'
import { InvalidSettingError } from '../ground/errors.js'
import { shown } from '../ground/setting.js'
import { parseUnit, REQUESTS } from '../ground/unit.js'
import type { Check, Decision, Settlement } from '../limiter/algorithm.js'
import type { Limiter } from '../limiter/limiter.js'
import { toSettlement } from '../limiter/settlement.js'
import type { UsageLog } from '../log/usage/usage-log.js'
import { type AppliedLimit, type CheckedRequest, type Limit, NOT_ASKED } from './checked-request.js'
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

/** A limit in a unit that a request met. */
interface Reservation extends Pick<AppliedLimit, 'limit' | 'client' | 'check' | 'decision'> {
  /** The time of the check. */
  readonly nowMs: number
  /** What it holds of the limit in advance. */
  reserved: number
  charged: number
}

interface RequestUse {
  readonly reservations: Reservation[]
  /** The units that were charged, and when that was last. */
  readonly chargedMs: Map<string, number>
  hasEnded: boolean
}

export class ChargedUnits {
  readonly #limiter: Pick<Limiter, 'charge' | 'giveBack'>
  readonly #now: () => number
  readonly #usage: Pick<UsageLog, 'record'> | undefined
  readonly #uses = new WeakMap<FastifyRequest, RequestUse>()
  readonly #underWay = new Set<Promise<unknown>>()

  /** @param usage undefined where none is kept */
  constructor(
    limiter: Pick<Limiter, 'charge' | 'giveBack'>,
    now: () => number,
    usage: Pick<UsageLog, 'record'> | undefined,
  ) {
    this.#limiter = limiter
    this.#now = now
    this.#usage = usage
  }

  /** Keeps what the limits of a request have reserved, until it is charged for what it has used, or has ended. */
  hold(checked: CheckedRequest): void {
    const { applied = [checked], nowMs } = checked
    const ofUnits = applied.filter(({ limit }) => limit.unit !== REQUESTS)
    if (ofUnits.length === 0) return
    const { reservations } = this.#useOf(checked.request)
    for (const { limit, client, check, decision } of ofUnits) {
      const isTaken = decision !== NOT_ASKED && decision.allowed && !decision.unavailable
      reservations.push({ limit, client, check, decision, nowMs, reserved: isTaken ? check.cost : 0, charged: 0 })
    }
  }

  /**
   * Adds to what a request has used.
   *
   * @param decided for whom units are used that no limit of the request counts
   * @throws InvalidSettingError for what is not a unit or not a whole number; then nothing is charged
   */
  async charge(request: FastifyRequest, charges: Charges, decided: UsedBy): Promise<ChargesLeft> {
    const amounts = Object.entries(charges).map(([unit, amount]) => validateCharge(unit, amount))
    const use = this.#useOf(request)
    const left = await Promise.all(
      amounts.map(async ([unit, amount]) => [unit, await this.#chargeUnit(use, unit, amount, decided)] as const),
    )
    return Object.fromEntries(left)
  }

  #useOf(request: FastifyRequest): RequestUse {
    const known = this.#uses.get(request)
    if (known !== undefined) return known
    const use: RequestUse = { reservations: [], chargedMs: new Map(), hasEnded: false }
    this.#uses.set(request, use)
    const { [REPLY]: reply }: RequestWithReply = request
    atRequestEnd(request, reply ?? undefined, () => {
      use.hasEnded = true
      this.#giveBackUnused(use.reservations)
    })
    return use
  }

  async #chargeUnit(use: RequestUse, unit: string, amount: number, decided: UsedBy): Promise<number | null> {
    const nowMs = this.#now()
    const met = use.reservations.filter(({ limit }) => limit.unit === unit)
    const previousMs = use.chargedMs.get(unit)
    use.chargedMs.set(unit, nowMs)
    // A client's usage has each charge once, however many limits count it.
    for (const [client, policy] of policiesByClient(met, decided)) {
      this.#usage?.record({ client, unit, policy, amount, atMs: nowMs, previousMs })
    }
    const charges = met.map((reservation) => toExcess(reservation, amount))
    if (use.hasEnded) this.#giveBackUnused(met)
    const answers = Promise.all(charges.map((check) => this.#limiter.charge(check, nowMs)))
    this.#underWay.add(answers)
    const decisions = await answers
    this.#underWay.delete(answers)
    return leastLeft(decisions)
  }

  /** Waits until the store has counted all charges, or owes them. */
  async close(): Promise<void> {
    await Promise.all(this.#underWay)
  }

  /** Gives back what was reserved and not charged. What was never charged keeps its reservation. */
  #giveBackUnused(reservations: readonly Reservation[]): void {
    const settlements = reservations.flatMap((reservation): Settlement[] => {
      const { check, decision, nowMs, reserved, charged } = reservation
      if (charged === 0 || charged >= reserved) return []
      reservation.reserved = charged
      return [toSettlement({ ...check, cost: reserved - charged }, decision, nowMs)]
    })
    if (settlements.length > 0) this.#limiter.giveBack(settlements, this.#now())
  }
}

/** Adds to what is charged of a reservation, and returns the check of what exceeds it. */
function toExcess(reservation: Reservation, amount: number): Check {
  const { check, reserved, charged } = reservation
  reservation.charged += amount
  return { ...check, cost: Math.min(amount, Math.max(0, charged + amount - reserved)) }
}

/** Returns the clients of limits, each with the first of its policies. */
function policiesByClient(met: readonly UsedBy[], decided: UsedBy): ReadonlyMap<string, string> {
  const used = met.length === 0 ? [decided] : met
  return new Map(used.toReversed().map(({ client, limit }) => [client.logged.text, limit.policyName]))
}

function leastLeft(decisions: readonly (Decision | undefined)[]): number | null {
  const left = decisions.flatMap((decision) => decision?.remaining ?? [])
  return left.length === 0 || left.length < decisions.length ? null : Math.min(...left)
}

function validateCharge(unit: string, amount: unknown): readonly [string, number] {
  if (typeof amount !== 'number' || !Number.isSafeInteger(amount) || amount < 0) {
    throw new InvalidSettingError(`The charge of ${shown(unit)} is ${shown(amount)}: give a whole number from 0 on`)
  }
  return [parseUnit(unit), amount]
}
