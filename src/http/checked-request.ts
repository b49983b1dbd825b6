/** The record of a request, which the steps of its way fill from top to bottom, and the limit that decides about it. */
import type { FastifyRequest } from 'fastify'
import type { Client } from '../clients/client.js'
import type { ClientKind } from '../clients/client-kind.js'
import { type ConditionSources, NO_SOURCES } from '../clients/condition-sources.js'
import type { LimitClient } from '../clients/limit-client.js'
import { SECOND_MS } from '../ground/time/clock.js'
import { REQUESTS } from '../ground/unit.js'
import { type Check, type Decision, isRate, type Policy } from '../limiter/algorithm.js'
import { type Terms, toTerms } from '../limiter/limit/terms.js'
import { hasLessLeft } from '../limiter/windows.js'
import type { ActiveOverride, OverrideSet } from '../rules/overrides/override-set.js'
import { type RefusalAnswer, USUAL_ANSWER } from '../rules/refusal-answer.js'
import type { RuleSet } from '../rules/rule-set.js'
import { type ClientAddress, DISCONNECTED } from './client-address.js'
import { policyField, quotedName, windowNames } from './policy-names.js'
import { type RequestDecision, toRequestDecision } from './request-decision.js'

/** The id of a user; null without a user. */
export type UserId = string | number | bigint | null

/** The part of a request that identifies its client. */
export type Countable = Pick<CheckedRequest, 'request' | 'address' | 'user' | 'userFields'>

export type ToClient = (checked: Countable) => LimitClient | Promise<LimitClient>

export function toAddressClient({ address }: Countable): LimitClient {
  return address.client
}

/** The limit of one request. Its cost is the factor of a request's own, and 0 where the request takes the reserve instead. */
export interface Limit extends Terms {
  /** Whether what a request uses is known when it is answered: its response counts, or it is charged. */
  readonly usesLater: boolean
  /** Whether requests may be decided from a share. */
  readonly mayLease: boolean
  /** Whether requests in progress are counted. */
  readonly takesPermits: boolean
  /** Whether the cost depends on the end of a request: on the response, or on when the request ends. */
  readonly awaitsEnd: boolean
  /** The answer to a refused request. */
  readonly refusal: RefusalAnswer
  /** Bans the clients that it keeps refusing; null where it bans none. */
  readonly ban: LimitBan | null
  /** The name of the rule; empty where none decides. */
  readonly ruleName: string
  /** The name of the limit in answers to the client. */
  readonly policyName: string
  /** The name and the policy, as the draft's header fields spell them. */
  readonly quotedName: string
  readonly policyField: string
  /** The names of the windows, spelled alike, where the policy lists them. */
  readonly windowNames: readonly string[]
  /** Whether every request is refused, without a counter. */
  readonly isDenial: boolean
  /** The answer of what has no counter: `DENIED` or `UNLIMITED`. Null where the store is asked. */
  readonly answer: Decision | null
  /** Whether a rule denies the client, since it refused it too often. */
  readonly isBan: boolean
  readonly toClient: ToClient
  /** By what requests are counted; null where a function of the host says so, and for what counts by address alone. */
  readonly kind: ClientKind | null
}

/** A limit of a request, and the answer to its check. */
export interface AppliedLimit {
  readonly limit: Limit
  readonly client: LimitClient
  readonly check: Check
  /** The answer; `NOT_ASKED` where a remembered refusal of another limit has decided. */
  decision: Decision
  /** Whether the request used something of the limit that is given back if it is refused. */
  isTaken: boolean
}

/** The decision of one limit about a request. */
export type DecidedLimit = Pick<CheckedRequest, 'limit' | 'client' | 'decision' | 'nowMs'>
/** The refusal of a request by one limit. */
export type Refusal = DecidedLimit

/** The bans of a limit's clients. */
export interface LimitBan {
  /** Denies a client until its ban is in force. */
  readonly denial: Limit
  /** Returns whether this process has just banned a client, whose ban may not be in force yet. */
  isBanned(client: LimitClient): boolean | Promise<boolean>
  /** Counts a refusal. It never throws, and nothing waits for it. */
  noteRefusal(refusal: Refusal): void
}

/** The decision of a denial, which has no counter. */
export const DENIED: Decision = { allowed: false, count: 1, limit: 0, remaining: 0, resetMs: 0, retryAfterMs: null }
/** The decision where a function answers that there is no limit: whatever else decides has less left. */
export const UNLIMITED: Decision = {
  allowed: true,
  count: 0,
  limit: 0,
  remaining: Number.MAX_SAFE_INTEGER,
  resetMs: 0,
  retryAfterMs: 0,
}
/** Stands for the decision of a limit that was not asked. */
export const NOT_ASKED: Decision = { allowed: true, count: 0, limit: 0, remaining: 0, resetMs: 0, retryAfterMs: 0 }

/** Creates a limit from its name and its terms. */
export function createLimit(
  policyName: string,
  terms: Terms,
  {
    toClient,
    ruleName = '',
    isDenial = false,
    isBan = false,
    answer = isDenial ? DENIED : null,
    refusal = USUAL_ANSWER,
    ban = null,
    kind = null,
  }: Pick<Limit, 'toClient'> &
    Partial<Pick<Limit, 'ruleName' | 'isDenial' | 'isBan' | 'answer' | 'refusal' | 'ban' | 'kind'>>,
): Limit {
  const { policy, block, counts, cost, unit, noticeAt } = terms
  const takesPermits = !isRate(policy)
  return {
    ...terms,
    ruleName,
    toClient,
    isDenial,
    isBan,
    answer,
    usesLater: counts !== null || unit !== REQUESTS,
    // A share of a lease counts before it is used.
    mayLease: block && unit === REQUESTS && noticeAt === null,
    takesPermits,
    awaitsEnd: takesPermits || counts !== null,
    cost: unit === REQUESTS ? cost : 0,
    refusal,
    ban,
    kind,
    policyName,
    quotedName: quotedName(policyName),
    policyField: policyField(policyName, policy, unit),
    windowNames: windowNames(policyName, policy.windows).map(quotedName),
  }
}

/** A policy of which nothing is ever left. */
export const NOTHING: Policy = { algorithm: 'fixed_window', limit: 0, periodMs: SECOND_MS }

/** Creates a limit that refuses every request. */
export function createDenial(policyName: string, toClient: ToClient = toAddressClient, isBan = false): Limit {
  return createLimit(policyName, toTerms(NOTHING, {}), { toClient, isDenial: true, isBan })
}

/** The limit of addresses on the deny list. */
export const DENIED_LIMIT: Limit = createDenial('deny-list')

/** The limit of requests that take too much work: their path is too long for patterns, or another text for conditions. */
export const TOO_LONG_LIMIT: Limit = createDenial('path-length')

type Rules = Pick<RuleSet, 'size' | 'rules' | 'match' | 'candidates' | 'matching'>

/** The rules and overrides that decide about a request. */
export interface InForce {
  /** The rules of the group without a name. */
  readonly rules: Rules
  /** The rules of each other group, by its name: mostly none. */
  readonly groups: readonly Rules[]
  /** Whether any rule needs to know users. */
  readonly needUsers: boolean
  readonly overrides: Pick<OverrideSet, 'size' | 'hasUsers' | 'find' | 'all'>
  readonly sources: ConditionSources
}

/** The rules and overrides of apps and limits without any. */
export const NOTHING_IN_FORCE: InForce = {
  rules: {
    size: 0,
    rules: [],
    match: () => undefined,
    candidates: () => [],
    matching: () => new Set(),
  },
  groups: [],
  needUsers: false,
  overrides: { size: 0, hasUsers: false, find: () => undefined, all: () => [] },
  sources: NO_SOURCES,
}

const NOBODY: Client = { parts: [], text: '' }
const NO_CLIENT: LimitClient = { counted: NOBODY, logged: NOBODY, clear: NOBODY, key: '', counter: '' }

const NO_CHECK: Check = { key: '', policy: DENIED_LIMIT.policy, cost: 0 }

/** Returns whether a limit refuses its request. */
export function refuses({ limit, decision }: Pick<AppliedLimit, 'limit' | 'decision'>): boolean {
  return limit.block && !decision.allowed
}

/** A request and its decision. Each step sets the fields that the next ones need. */
export class CheckedRequest {
  nowMs = 0
  /** The time for which the request has waited for the store and for what is in force, in milliseconds. */
  waitedMs = 0
  address: ClientAddress = DISCONNECTED
  /** The request's own cost; 0 charges nothing. */
  cost = 1
  inForce = NOTHING_IN_FORCE
  user: UserId = null
  /** The object that the host answered as the user, for conditions. */
  userFields: object | null = null
  /** The override of the client; null where the path is too long to search for one. */
  override: ActiveOverride | null | undefined = undefined
  /** The work that patterns and conditions have taken, of what one request may make. */
  work = 0
  /** The request is let through without a limit: the later steps are skipped. */
  isExempt = false
  /** The limit that decides, and its client, its check and its decision. */
  limit = DENIED_LIMIT
  client = NO_CLIENT
  decision = DENIED
  check = NO_CHECK
  /** All limits, where there are several: the first is that of the group without a name. */
  applied: readonly AppliedLimit[] | undefined = undefined
  /** The answer of the ceiling; undefined where there is none, and for denials. */
  ceiling: DecidedLimit | undefined = undefined
  /** The answer of the other limit, where that was asked and the ceiling decides. */
  overruled: DecidedLimit | undefined = undefined
  #described: RequestDecision | undefined = undefined

  /** @param path as the router sees it */
  constructor(
    readonly request: FastifyRequest,
    readonly path: string,
  ) {}

  get isRefused(): boolean {
    return refuses(this)
  }

  /** The decision as hosts get it, once it is final: made when it is first read, since few requests need it. */
  get described(): RequestDecision {
    this.#described ??= toRequestDecision(this.told, this.applied ?? [this.overruled ?? this], NOT_ASKED)
    return this.#described
  }

  /** The limit that the answer tells of: the one that decides, or a ceiling of which a smaller share is left. */
  get told(): DecidedLimit {
    const { ceiling, decision } = this
    const isNearer = ceiling?.decision.allowed && decision.allowed && hasLessLeft(ceiling.decision, decision)
    return isNearer ? ceiling : this
  }

  /** All limits that were checked: the ceiling stands last. */
  get met(): readonly (DecidedLimit | AppliedLimit)[] {
    const { applied, ceiling, overruled } = this
    if (ceiling === undefined) return applied ?? [this]
    if (applied !== undefined) return [...applied, ceiling]
    if (overruled !== undefined) return [overruled, ceiling]
    return this.limit === ceiling.limit ? [ceiling] : [this, ceiling]
  }

  /** The limits that refuse the request, but for the ceiling where that refuses for longer. */
  get refusals(): readonly Refusal[] {
    const { applied, overruled, nowMs } = this
    if (applied === undefined) return [overruled !== undefined && refuses(overruled) ? overruled : this]
    return applied.flatMap((each) => (refuses(each) ? { ...each, nowMs } : []))
  }

  /** The client that the event names: that of the group without a name, unless the ceiling decides. */
  get loggedClient(): LimitClient {
    const base = this.applied?.[0]
    if (base === undefined) return this.client
    return this.applied?.some(({ limit }) => limit === this.limit) ? base.client : this.client
  }
}
