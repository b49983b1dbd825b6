import type { FastifyBaseLogger, FastifyRequest } from 'fastify'
import type { ClientKind } from '../clients/client-kind.js'
import { defaultLimitName, overrideLimitName } from '../clients/counter.js'
import { deriveOnce, inLimit, underRule } from '../clients/limit-client.js'
import { remember } from '../ground/remember.js'
import type { Algorithm } from '../limiter/algorithm.js'
import { type FurtherTerms, policyFor, toTerms } from '../limiter/limit/terms.js'
import { parseRate, type Rate, toPolicy } from '../limiter/rate.js'
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
  UNLIMITED,
} from './checked-request.js'
import type { CodeCounters } from './code-counters.js'
import { createReserve, type Reserve } from './cost.js'
import { after, isThenable, type RequestFunction, tolerate } from './host-function.js'
import { createKindClient, type KeyOptions } from './kind-client.js'
import { PathPrefixes, type RouterOptions } from './request-path.js'

/** Creates a limit that denies the clients of a rule as an override does. */
export function denialForRule({ client }: Rule, options: KeyOptions): Limit {
  return createDenial('override', createKindClient(client, options), true)
}

/** Returns the rate of a request; null where the request has no limit. */
export type RateFunction = RequestFunction<string | null>

export const DEFAULT_RATE = '100/m'
const REMEMBERED_RATES = 1_000

/** Creates the limit of a rule, whose key begins with the rule's name. */
export function limitForRule(rule: Rule, options: KeyOptions, ban: LimitBan | null): Limit {
  const { name, policy, client, refusal } = rule
  const toClient = createKindClient(client, options, (counted) => underRule(name, counted))
  return createLimit(name, toTerms(policy, rule), { toClient, ruleName: name, refusal, ban, kind: client })
}

/** Creates the limit of an override. Each of its clients has a counter of its own, separate from all its others. */
export function limitForOverride({ id, effect, client, bannedAtMs }: ActiveOverride, options: KeyOptions): Limit {
  const limitName = overrideLimitName(id)
  const kind = { kind: client.kind === 'user' ? 'user' : 'ip' } as const
  const toClient = createKindClient(kind, options, (counted) => inLimit(limitName, counted))
  const terms = toTerms(typeof effect === 'object' ? effect : NOTHING, {})
  return createLimit('override', terms, { toClient, isDenial: effect === 'deny', isBan: bannedAtMs !== null, kind })
}

/** Creates the limit of what an address may request in all. It refuses also where others only count. */
export function limitForCeiling(rate: Rate): Limit {
  return createLimit('ceiling', toTerms(toPolicy('fixed_window', rate), {}), { toClient: toAddressClient })
}

/** What code says of the requests of a limit. A request's own cost is found apart, and only rules have every field. */
export interface StaticTerms
  extends Pick<FurtherTerms, 'unit' | 'block'>,
    Partial<Omit<FurtherTerms, 'cost' | 'reserve' | 'unit' | 'block'>> {
  readonly algorithm: Algorithm
  readonly reserve: Reserve
}

export interface StaticLimitOptions extends StaticTerms {
  readonly rateLimits: Readonly<Record<string, string>>
  readonly defaultRate: string | RateFunction
  /** The names of the settings. */
  readonly settings: { readonly rate: string; readonly reserve: string }
  /** The name of the default rate's policy in answers to clients. */
  readonly policyName: string
  readonly toClient: ToClient
  /** By what `toClient` counts; null where a function of the host says so. */
  readonly kind: ClientKind | null
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
  const { defaultRate, policyName, kind, toClient, counters, reserve } = options
  const fixed = { ...options, cost: 1, reserve: typeof reserve === 'number' ? reserve : 0 }
  const setting = options.settings.rate
  const { deriveWithPeriods = (periods) => countedApart(defaultLimitName(periods), toClient) } = options

  function toLimit(name: string, rate: Rate, toClient: ToClient): Limit {
    return createLimit(name, toTerms(policyFor(rate, fixed.algorithm, fixed.unit), fixed), { toClient, kind })
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
  const unlimited = createLimit(policyName, toTerms(NOTHING, { block: options.block }), { toClient, answer: UNLIMITED })
  const limitForText = remember(REMEMBERED_RATES, (text) => {
    const rate = parseRate(text)
    // Answers with different periods would reset one counter each time.
    return toLimit(policyName, rate, deriveWithPeriods(counters.addPeriods(rate)))
  })
  const limitForRate = (rate: string | null) => (rate === null ? unlimited : limitForText(rate))
  const limitForAnswer = tolerate(
    (request: FastifyRequest) => {
      const rate = defaultRate(request)
      return isThenable(rate) ? rate.then(limitForRate) : limitForRate(rate)
    },
    setting,
    options.log,
  )
  const limitOrDefault = (limit: Limit | undefined) => limit ?? limitForText(DEFAULT_RATE)
  return (checked: CheckedRequest): Limit | Promise<Limit> =>
    (prefixes.isEmpty ? undefined : prefixes.find(checked.path)) ??
    after(limitForAnswer(checked.request), limitOrDefault)
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
