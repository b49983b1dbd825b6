import type { FastifyRequest } from 'fastify'
import type { Check, Decision } from '../limiter/algorithm.js'
import type { ActiveOverride, OverrideSet } from '../overrides/override-set.js'
import type { RuleSet } from '../rules/rule-set.js'
import { type Ceiling, checkUnderCeiling } from './ceiling.js'
import { type ClientAddress, GONE } from './client-address.js'
import type { ClientKey } from './client-key.js'
import { DENIED_LIMIT, type Limit, type Refusal, TOO_LONG_LIMIT } from './limits.js'
import { type UserId, userText } from './request-user.js'
import { chargedCost } from './route-config.js'

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
  /** Returns the limit of an override; null where the store cannot count its rate. */
  overrideLimit(override: ActiveOverride): Limit | null
  /** Returns the limit of a request without override: that of a rule, else the static one. */
  limit(checked: CheckedRequest): Limit | Promise<Limit>
  /** @param refuses whether the request is refused where it is not allowed; otherwise the store counts it in any case */
  check(check: Check, nowMs: number, refuses: boolean): Decision | Promise<Decision>
  /**
   * Returns what the store is still doing for a counter after earlier requests have ended, which their clients may know
   * before. Never rejects.
   */
  underWay(counter: string): Promise<unknown> | undefined
  /** Answers as `check`, for a limit that counts responses: uses nothing yet. */
  checkAhead(check: Check, nowMs: number): Decision | Promise<Decision>
  /** Checks for a limit that counts requests in progress: the request holds what it takes until it ends. */
  takePlaces(checked: CheckedRequest): Decision | Promise<Decision>
  /** The limit that requests count against besides; a denial counts against none. */
  readonly ceiling: Ceiling | undefined
}

/** The rules and overrides that decide about a request. */
interface InForce {
  readonly rules: Pick<RuleSet, 'size' | 'rules' | 'match' | 'candidates'>
  readonly overrides: Pick<OverrideSet, 'size' | 'hasUsers' | 'find' | 'all'>
}

/** For apps and limits without rules and overrides. */
export const NOTHING_IN_FORCE: InForce = {
  rules: { size: 0, rules: [], match: () => undefined, candidates: () => [] },
  overrides: { size: 0, hasUsers: false, find: () => undefined, all: () => [] },
}

const DENIED: Decision = { allowed: false, count: 1, limit: 0, remaining: 0, resetMs: 0, retryAfterMs: null }
const NO_CLIENT: ClientKey = {
  name: '',
  shown: '',
  counter: '',
  client: '',
  banned: '',
  clear: '',
  byAddress: false,
}

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
  /** The refusal of the deciding limit, where the ceiling refuses for longer. */
  overruled: Refusal | undefined = undefined

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

type Decided = CheckedRequest | Promise<CheckedRequest>

/**
 * Decides about a request, in the order of the functions below. Stays synchronous unless one of them has to wait for an
 * answer.
 */
export function decide(checked: CheckedRequest): Decided {
  const { dependencies, request } = checked
  checked.nowMs = dependencies.now()
  checked.address = dependencies.address(request)
  return next(checked, dependencies.inForce(checked.nowMs), readUserForOverrides)
}

function readUserForOverrides(checked: CheckedRequest, inForce: InForce): Decided {
  checked.inForce = inForce
  return next(checked, inForce.overrides.hasUsers ? askForUser(checked) : undefined, decideByOverrides)
}

/** Exempts a request, or goes on. Refusals take precedence: the deny list, then overrides, then the allow list. */
function decideByOverrides(checked: CheckedRequest): Decided {
  const { inForce, address, user, nowMs } = checked
  const { overrides } = inForce
  if (overrides.size > 0) {
    checked.override = overrides.find(address.plain, userText(user), checked.path, nowMs, address.pseudonym)
  }
  checked.isExempt = isExempt(checked)
  if (checked.isExempt) return checked
  return next(checked, overrides.hasUsers ? undefined : askForUser(checked), decideByLimit)
}

function isExempt({ address, override }: CheckedRequest): boolean {
  if (address.listed === 'deny' || override === null || override?.effect === 'deny') return false
  return address.listed === 'allow' || override?.effect === 'allow'
}

function askForUser(checked: CheckedRequest): Promise<undefined> | undefined {
  return checked.dependencies.user(checked)
}

function decideByLimit(checked: CheckedRequest): Decided {
  return next(checked, findLimit(checked), decideForClient)
}

function findLimit(checked: CheckedRequest): Limit | Promise<Limit> {
  const { dependencies, address, override } = checked
  if (address.listed === 'deny') return DENIED_LIMIT
  if (override === null) return TOO_LONG_LIMIT
  return (override && dependencies.overrideLimit(override)) ?? dependencies.limit(checked)
}

function decideForClient(checked: CheckedRequest, limit: Limit): Decided {
  checked.limit = limit
  return next(checked, limit.clientKey(checked), check)
}

function check(checked: CheckedRequest, client: ClientKey): Decided {
  checked.client = client
  const { limit } = checked
  // Denials count against nothing. A path that is too long is no denial of the client.
  if (limit.isDenial && limit !== TOO_LONG_LIMIT) return checked
  return limit.ban === null ? askLimits(checked) : next(checked, limit.ban.isBanned(client), askUnlessBanned)
}

/** Denies a client that this process has just banned: what is in force may not have the ban yet. */
function askUnlessBanned(checked: CheckedRequest, isBanned: boolean): Decided {
  const { ban } = checked.limit
  return isBanned && ban !== null ? decideForClient(checked, ban.denial) : askLimits(checked)
}

/** Waits for what is under way before any limit is asked, so that a ceiling is asked in the same round trip. */
function askLimits(checked: CheckedRequest): Decided {
  const { dependencies, limit, client } = checked
  return limit.awaitsEnd ? next(checked, dependencies.underWay(client.counter), askNow) : askNow(checked)
}

function askNow(checked: CheckedRequest): Decided {
  const { dependencies } = checked
  if (dependencies.ceiling !== undefined) return checkUnderCeiling(checked, dependencies.ceiling, askLimit)
  return next(checked, askLimit(checked), keepDecision)
}

function askLimit(checked: CheckedRequest): Decision | Promise<Decision> {
  const { dependencies, limit, nowMs } = checked
  if (limit.isDenial) return DENIED
  return limit.awaitsEnd ? checkUntilEnd(checked) : dependencies.check(checked.asked, nowMs, limit.block)
}

function checkUntilEnd(checked: CheckedRequest): Decision | Promise<Decision> {
  const { dependencies, limit, asked, nowMs } = checked
  return limit.holdsPlaces ? dependencies.takePlaces(checked) : dependencies.checkAhead(asked, nowMs)
}

function keepDecision(checked: CheckedRequest, decision: Decision): CheckedRequest {
  checked.decision = decision
  return checked
}

/** Goes on with an answer. The functions call each other by name, so that V8 compiles them as one. */
function next<Answer>(
  checked: CheckedRequest,
  answer: Answer | Promise<Answer>,
  proceed: (checked: CheckedRequest, answer: Answer) => Decided,
): Decided {
  return answer instanceof Promise ? nextWhenKnown(checked, answer, proceed) : proceed(checked, answer)
}

/** A function of its own: a closure in `next` would cost every request an allocation. */
function nextWhenKnown<Answer>(
  checked: CheckedRequest,
  answer: Promise<Answer>,
  proceed: (checked: CheckedRequest, answer: Answer) => Decided,
): Promise<CheckedRequest> {
  return answer.then((known) => proceed(checked, known))
}
