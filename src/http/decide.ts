import type { FastifyRequest } from 'fastify'
import type { Check, Decision } from '../limiter/algorithm.js'
import type { OverrideSet } from '../overrides/override-set.js'
import type { ActiveOverride } from '../overrides/override-table.js'
import type { RuleSet } from '../rules/rule-set.js'
import { type Ceiling, checkCeiling } from './ceiling.js'
import { type ClientAddress, GONE } from './client-address.js'
import type { ClientKey } from './client-key.js'
import { chargedCost } from './cost.js'
import { DENIED_LIMIT, type Limit, TOO_LONG_LIMIT } from './limits.js'
import { type UserId, userText } from './request-user.js'

/** The dependencies of a decision, resolved when the plugin is registered. */
export interface DecideDependencies {
  now(): number
  address(request: FastifyRequest): ClientAddress
  /** Returns the path as the router sees it. */
  path(request: FastifyRequest): string
  /** Sets `user` and `userFields`. */
  user(checked: CheckedRequest): Promise<undefined> | undefined
  /** Returns the rules and overrides, once per request, so that all of its decision is of one moment. */
  inForce(nowMs: number): InForce | Promise<InForce>
  overrideLimit(override: ActiveOverride): Limit
  /** Returns the limit of a request without override: that of a rule, else the static one. */
  limit(checked: CheckedRequest): Limit | Promise<Limit>
  /** @param refuses whether the request is refused where it is not allowed; otherwise the store counts it in any case */
  check(check: Check, nowMs: number, refuses: boolean): Decision | Promise<Decision>
  /** Answers as `check`, for a limit that counts responses: uses nothing yet. */
  checkAhead(check: Check, nowMs: number): Decision | Promise<Decision>
  /** The limit that requests count against besides; a denial counts against none. */
  readonly ceiling: Ceiling | undefined
}

/** The rules and overrides that decide about a request. */
interface InForce {
  readonly rules: Pick<RuleSet, 'size' | 'match' | 'candidates'>
  readonly overrides: Pick<OverrideSet, 'size' | 'hasUsers' | 'find'>
}

/** For apps and limits without rules and overrides. */
export const NOTHING_IN_FORCE: InForce = {
  rules: { size: 0, match: () => undefined, candidates: () => [] },
  overrides: { size: 0, hasUsers: false, find: () => undefined },
}

const DENIED: Decision = { allowed: false, count: 1, limit: 0, remaining: 0, resetMs: 0, retryAfterMs: null }
const NO_CLIENT: ClientKey = { name: '', shown: '', counter: '', client: '', byAddress: false }

/** A request and its decision. Each step sets the fields that the next ones need. */
export class CheckedRequest {
  nowMs = 0
  address: ClientAddress = GONE
  /** The request's own cost; 0 charges nothing. */
  cost = 0
  inForce = NOTHING_IN_FORCE
  user: UserId = null
  /** The object that the host answered as the user, for conditions. */
  userFields: object | null = null
  /** Null where the path is too long to search for one. */
  override: ActiveOverride | null | undefined = undefined
  /** The allow list or an override lets the request through: the later steps are skipped. */
  isExempt = false
  limit = DENIED_LIMIT
  client = NO_CLIENT
  decision = DENIED

  #path: string | undefined = undefined

  constructor(
    readonly dependencies: DecideDependencies,
    readonly request: FastifyRequest,
  ) {}

  /** The path as the router sees it; many apps decide without it. */
  get path(): string {
    this.#path ??= this.dependencies.path(this.request)
    return this.#path
  }

  /** The question to the limiter. */
  get asked(): Check {
    const { client, limit, cost } = this
    return { key: client.counter, policy: limit.policy, cost: chargedCost(cost, limit.cost) }
  }

  get isRefused(): boolean {
    return this.limit.block && !this.decision.allowed
  }
}

/** The steps of a decision, in order. */
const STEPS = [
  readClient,
  readInForce,
  readUserForOverrides,
  findOverride,
  exempt,
  readUser,
  findLimit,
  findClient,
  check,
] as const

/** Runs the steps. Stays synchronous unless a step returns a promise: the next step begins when that is fulfilled. */
export function decide(checked: CheckedRequest, from = 0): CheckedRequest | Promise<CheckedRequest> {
  for (let index = from; index < STEPS.length && !checked.isExempt; index++) {
    const pending = STEPS[index]?.(checked)
    if (pending !== undefined) return pending.then(() => decide(checked, index + 1))
  }
  return checked
}

type Step = Promise<void> | undefined

function readClient(checked: CheckedRequest): undefined {
  const { dependencies, request } = checked
  checked.nowMs = dependencies.now()
  checked.address = dependencies.address(request)
}

function readInForce(checked: CheckedRequest): Step {
  const inForce = checked.dependencies.inForce(checked.nowMs)
  if (inForce instanceof Promise) {
    return inForce.then((loaded) => {
      checked.inForce = loaded
    })
  }
  checked.inForce = inForce
}

function readUserForOverrides(checked: CheckedRequest): Step {
  return checked.inForce.overrides.hasUsers ? askForUser(checked) : undefined
}

function findOverride(checked: CheckedRequest): undefined {
  const { inForce, address, user, nowMs } = checked
  if (inForce.overrides.size === 0) return
  checked.override = inForce.overrides.find(address.plain, userText(user), checked.path, nowMs)
}

/** Exempts a request. Refusals take precedence: the deny list, then overrides, then the allow list. */
function exempt(checked: CheckedRequest): undefined {
  const { address, override } = checked
  if (address.listed === 'deny' || override === null || override?.effect === 'deny') return
  checked.isExempt = address.listed === 'allow' || override?.effect === 'allow'
}

function readUser(checked: CheckedRequest): Step {
  return checked.inForce.overrides.hasUsers ? undefined : askForUser(checked)
}

function askForUser(checked: CheckedRequest): Step {
  return checked.dependencies.user(checked)
}

function findLimit(checked: CheckedRequest): Step {
  const { dependencies, address, override } = checked
  if (address.listed === 'deny') checked.limit = DENIED_LIMIT
  else if (override === null) checked.limit = TOO_LONG_LIMIT
  else if (override !== undefined) checked.limit = dependencies.overrideLimit(override)
  else {
    const limit = dependencies.limit(checked)
    if (limit instanceof Promise) {
      return limit.then((found) => {
        checked.limit = found
      })
    }
    checked.limit = limit
  }
}

function findClient(checked: CheckedRequest): Step {
  const client = checked.limit.clientKey(checked)
  if (client instanceof Promise) {
    return client.then((key) => {
      checked.client = key
    })
  }
  checked.client = client
}

function check(checked: CheckedRequest): Step {
  const { dependencies, limit, nowMs } = checked
  if (limit.isDenial) return
  const { asked } = checked
  const decision =
    limit.counts === null ? dependencies.check(asked, nowMs, limit.block) : dependencies.checkAhead(asked, nowMs)
  if (dependencies.ceiling !== undefined) return checkCeiling(checked, dependencies.ceiling, decision)
  if (decision instanceof Promise) {
    return decision.then((decided) => {
      checked.decision = decided
    })
  }
  checked.decision = decision
}
