import type { FastifyBaseLogger } from 'fastify'
import { defaultLimitName, overrideLimitName } from '../clients/counter.js'
import { deriveOnce, inLimit, underRule } from '../clients/limit-client.js'
import { remember } from '../ground/remember.js'
import { REQUESTS } from '../ground/unit.js'
import type { Algorithm } from '../limiter/algorithm.js'
import { parseRate, type Rate, toPolicy, toReservingPolicy } from '../limiter/rate.js'
import type { CountedStatuses } from '../rules/counted-statuses.js'
import type { ActiveOverride } from '../rules/overrides/override-set.js'
import type { Rule } from '../rules/rule.js'
import type { CheckedRequest } from './checked-request.js'
import {
  createDenial,
  createLimit,
  type Limit,
  type LimitBan,
  NOTHING,
  type ToClient,
  toAddressClient,
} from './checked-request.js'
import type { CodeCounters } from './code-counters.js'
import { createReserve, type Reserve } from './cost.js'
import { after, type RequestFunction, tolerate } from './host-function.js'
import { createKindClient, type KeyOptions } from './kind-client.js'
import { PathPrefixes, type RouterOptions } from './request-path.js'

/** Creates a limit that denies the clients of a rule as an override does. */
export function denialForRule({ client }: Rule, options: KeyOptions): Limit {
  return createDenial('override', createKindClient(client, options), true)
}

export type RateFunction = RequestFunction<string | null | undefined>

export const DEFAULT_RATE = '100/m'
const REMEMBERED_RATES = 1_000

/** Creates the limit of a rule, whose key begins with the rule's name. */
export function limitForRule(rule: Rule, options: KeyOptions, ban: LimitBan | null): Limit {
  const { name, policy, block, client, counts, cost, unit, reserve, noticeAt, refusal } = rule
  const toClient = createKindClient(client, options, (counted) => underRule(name, counted))
  const limit = { policy, block, ruleName: name, toClient }
  return createLimit(name, limit, { counts, cost, unit, reserve, noticeAt, refusal, ban })
}

/** Creates the limit of an override. Each of its clients has a counter of its own, separate from all its others. */
export function limitForOverride({ id, effect, client, bannedAtMs }: ActiveOverride, options: KeyOptions): Limit {
  const limitName = overrideLimitName(id)
  const kind = client.kind === 'user' ? 'user' : 'ip'
  const toClient = createKindClient({ kind }, options, (counted) => inLimit(limitName, counted))
  const policy = typeof effect === 'object' ? effect : NOTHING
  const limit = { policy, block: true, ruleName: '', toClient }
  return createLimit('override', limit, { isDenial: effect === 'deny', isBan: bannedAtMs !== null })
}

/** Creates the limit of what an address may request in all. It refuses also where others only count. */
export function limitForCeiling(rate: Rate): Limit {
  const policy = toPolicy('fixed_window', rate)
  return createLimit('ceiling', { policy, block: true, ruleName: '', toClient: toAddressClient })
}

export interface StaticLimitOptions {
  readonly rateLimits: Readonly<Record<string, string>>
  readonly defaultRate: string | RateFunction
  /** The names of the settings. */
  readonly settings: { readonly rate: string; readonly reserve: string }
  /** The name of the default rate's policy in answers to clients. */
  readonly policyName: string
  readonly algorithm: Algorithm
  readonly block: boolean
  readonly counts: CountedStatuses | null
  readonly unit: string
  readonly reserve: Reserve
  readonly noticeAt: readonly number[] | null
  readonly toClient: ToClient
  /** Derives the client where a function answers the rate: a counter has the periods of one rate. */
  readonly deriveWithPeriods?: (periods: string) => ToClient
  readonly counters: CodeCounters
  readonly router: RouterOptions
  readonly log: FastifyBaseLogger
}

type StaticLimit = (checked: CheckedRequest) => Limit | Promise<Limit>

/** Creates the function that returns the static limit of a path: that of the longest prefix, else the default. */
export function createStaticLimits(options: StaticLimitOptions): StaticLimit {
  const { reserve } = options
  const limitFor = createRateLimits(options)
  if (typeof reserve === 'number') return limitFor
  const reserveFor = createReserve(options.settings.reserve, reserve, options.log)
  return (checked) =>
    after(limitFor(checked), (limit) => after(reserveFor(checked.request), (reserve) => ({ ...limit, reserve })))
}

function createRateLimits(options: StaticLimitOptions): StaticLimit {
  const { defaultRate, policyName, algorithm, block, counts, unit, reserve, noticeAt, toClient, counters } = options
  const setting = options.settings.rate
  const { deriveWithPeriods = (periods) => countedApart(defaultLimitName(periods), toClient) } = options

  function toLimit(name: string, rate: Rate, toClient: ToClient): Limit {
    const policy = unit === REQUESTS ? toPolicy(algorithm, rate) : toReservingPolicy(algorithm, rate)
    const reserved = typeof reserve === 'number' ? reserve : 0
    return createLimit(name, { policy, block, ruleName: '', toClient }, { counts, unit, reserve: reserved, noticeAt })
  }

  const prefixes = new PathPrefixes(
    Object.entries(options.rateLimits).map(
      ([prefix, rate]) =>
        [prefix, toLimit(prefix, parseRate(rate), countedApart(counters.addPrefix(prefix), toClient))] as const,
    ),
    options.router,
  )
  if (typeof defaultRate === 'string') {
    const fallback = toLimit(policyName, parseRate(defaultRate), toClient)
    return prefixes.isEmpty ? () => fallback : (checked: CheckedRequest) => prefixes.find(checked.path) ?? fallback
  }
  const rateFor = tolerate(defaultRate, setting, options.log)
  const limitForRate = remember(REMEMBERED_RATES, (text) => {
    const rate = parseRate(text)
    // Answers with different periods would reset one counter each time.
    return toLimit(policyName, rate, deriveWithPeriods(counters.addPeriods(rate)))
  })
  const limitForAnswer = tolerate(limitForRate, setting, options.log)
  const limitOrDefault = (limit: Limit | undefined) => limit ?? limitForRate(DEFAULT_RATE)
  const limitFor = (rate: string | null | undefined) => after(rate ? limitForAnswer(rate) : undefined, limitOrDefault)
  return (checked: CheckedRequest): Limit | Promise<Limit> =>
    (prefixes.isEmpty ? undefined : prefixes.find(checked.path)) ?? after(rateFor(checked.request), limitFor)
}

/**
 * Creates the function that returns the rate which limits all requests of a route where no rule does, with its setting;
 * undefined where that depends on the request.
 */
export function createRouteRate(
  { rateLimits, defaultRate }: Pick<StaticLimitOptions, 'rateLimits' | 'defaultRate'>,
  router: RouterOptions,
) {
  const prefixes = new PathPrefixes(
    Object.entries(rateLimits).map(([prefix, rate]) => {
      return [prefix, { setting: `middleware.rateLimits[${JSON.stringify(prefix)}]`, rate }] as const
    }),
    router,
  )
  const fallback =
    typeof defaultRate === 'string' ? { setting: 'middleware.defaultRate', rate: defaultRate } : undefined
  return function routeRateFor(url: string) {
    if (prefixes.isEmpty) return fallback
    return /[:*]/.test(url) ? undefined : (prefixes.find(url) ?? fallback)
  }
}

/**
 * Gives clients a separate counter. Events keep the client's key, so that offenders are summed per client. Clients are
 * remembered: so are those of a limit.
 */
export function countedApart(limitName: string, toClient: ToClient): ToClient {
  const countedOnce = deriveOnce((counted) => inLimit(limitName, counted))
  return (checked) => after(toClient(checked), countedOnce)
}
