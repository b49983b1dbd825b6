import type { FastifyRequest, RouteOptions } from 'fastify'
import { InvalidSettingError } from '../../ground/errors.js'
import { REQUESTS } from '../../ground/unit.js'
import type { Decision } from '../../limiter/algorithm.js'
import { type Rate, toRateText } from '../../limiter/rate.js'
import { asPeek, forOneRequest } from '../ask.js'
import { CheckedRequest, type Limit } from '../checked-request.js'
import type { ClientAddress } from '../client-address.js'
import type { RequestDescription } from '../described-request.js'
import { after } from '../host-function.js'
import type { HookDependencies } from '../on-request.js'
import { noteUser } from '../request-user.js'
import type { ExplainableLimit } from '../routes/route-limit.js'
import { type Answer, type ExplainedLimit, withoutStanding, withStanding } from './explained-limit.js'
import { askKnownClients, type KnownClient, type LoggedClient } from './known-client.js'
import { hasAddress, listReasons, type ReasonDependencies, RULE_MATCHES } from './reasons.js'
import type { RoutedRequest } from './routed-request.js'

export interface ExplainOptions {
  /** `GET` unless given. */
  readonly method?: string | undefined
  /** The path as a client sends it, with or without a query; of `http://host/path` its path. */
  readonly path: string
  /** The client's address; without it, what is used of limits by address is not known. */
  readonly ip?: string | undefined
  /**
   * The user's id, or what the option `user` answers, with the fields that conditions and keys read; no user unless given.
   * With the id alone, what is used of limits by a field of the user is not known.
   */
  readonly user?: object | string | number | bigint | null | undefined
  /** The headers, in any case; several values as a list. 2,000 at most. */
  readonly headers?: Readonly<Record<string, string | readonly string[] | undefined>> | undefined
}

/** The limits that a request meets. */
export interface Explanation {
  /**
   * The policy that decides: of several that apply one that refuses, that with the longest wait, else the one with the
   * smallest share left, and the ceiling only where it refuses. Of skipped paths and requests, and of routes that opted out, a limit of the route decides; null
   * without one.
   */
  readonly decided_by: string | null
  /** The limits, in the order in which they are tried; behind them the rules of each group, and the ceiling. */
  readonly limits: readonly ExplainedLimit[]
}

export interface ExplainDependencies extends ReasonDependencies {
  readonly hook: HookDependencies
  /** @throws InvalidSettingError where no such request can reach the app */
  describe(description: RequestDescription, ip: string): RoutedRequest
  /** Returns the limits that are hooks of a route, in the order in which they run. */
  limitsOf(route: RouteOptions): readonly ExplainableLimit[]
  readonly ceiling: Rate | undefined
  address(ip: string | undefined): ClientAddress
  /** Returns why the hook leaves a request alone before it decides; undefined where it does not. */
  whySkipped(checked: CheckedRequest): string | undefined
}

/** The most headers that Node.js takes of a request, unless the server says otherwise. */
const MAX_HEADERS = 2_000
const DENIED_BY_ROUTE = 'The address is on the deny list, which the limits of the route ask: the request is denied.'

/** A decision, and the answers of the limits on the way to it. */
interface Traced {
  readonly checked: CheckedRequest
  /** What stands of the limits that apply, beside the ceiling; an exemption has none. */
  readonly answers: readonly Answer<Limit>[]
  readonly ceiling: Answer | undefined
  /** The reason why no limit is asked; undefined where one is. */
  readonly skipped: string | undefined
}

/**
 * Creates the function that explains which limits a request meets: it decides as the hook does, and charges nothing.
 * Nothing is said of a counter that may be another client's.
 *
 * @throws InvalidSettingError for a request that cannot be
 */
export function createExplain(dependencies: ExplainDependencies) {
  /** @param logged what the log says of the request; undefined for one that is described in full */
  return async function explain(options: ExplainOptions, logged?: LoggedClient): Promise<Explanation> {
    const { method = 'GET', path, ip, user = null, headers = {} } = options
    const address = dependencies.address(typeof ip === 'string' ? ip : undefined)
    if (ip !== undefined && !hasAddress({ address })) {
      throw new InvalidSettingError(`Option "ip" is ${JSON.stringify(ip)}: give an address such as 203.0.113.7`)
    }
    validateHeaderCount(headers)
    const { request, route } = dependencies.describe({ method, path, headers }, address.plain ?? '')
    const hasFields = typeof user === 'object'
    const known: KnownClient = { hasAddress: hasAddress({ address }), hasFields, logged }
    const described = { request, address, user: hasFields ? user : { id: user }, known }
    const traced = await trace(dependencies, described)
    const ofRoute: RouteAnswer[] = []
    for (const limit of route ? dependencies.limitsOf(route) : []) ofRoute.push(await askRoute(limit, described))
    const refusing = ofRoute.find(({ isRefused }) => isRefused)
    // The plugin's own check runs before the limits of the route.
    const isRefused = traced.skipped === undefined && !traced.checked.isExempt && traced.checked.isRefused
    const isDenied = refusing?.decidedBy === 'deny-list'
    return {
      decided_by:
        (isRefused ? undefined : refusing?.decidedBy) ?? decidedBy(traced) ?? strictest(ofRoute)?.decidedBy ?? null,
      limits: [...(await listLimits(dependencies, traced, isDenied)), ...ofRoute.map(({ explained }) => explained)],
    }
  }
}

/** @throws InvalidSettingError for more headers than a request may have */
export function validateHeaderCount(headers: object): void {
  const { length } = Object.values(headers).flat()
  if (length <= MAX_HEADERS) return
  throw new InvalidSettingError(`Option "headers" is of ${length} headers: give at most ${MAX_HEADERS}`)
}

/** A described request, and what is known of its client. */
interface RequestAndClient {
  readonly request: FastifyRequest
  readonly address: ClientAddress
  readonly user: object | null
  readonly known: KnownClient
}

interface RouteAnswer {
  readonly explained: ExplainedLimit
  /** The limit's policy, or the list that decides before it. */
  readonly decidedBy: string
  readonly isRefused: boolean
}

/** Returns the limit of the route with the least left; undefined where none applies. */
function strictest(ofRoute: readonly RouteAnswer[]): RouteAnswer | undefined {
  const left = ({ explained }: RouteAnswer) => explained.remaining ?? Number.POSITIVE_INFINITY
  return ofRoute.filter(({ explained }) => explained.applies).toSorted((one, other) => left(one) - left(other))[0]
}

/** Asks a limit of the route, and charges nothing. */
async function askRoute(
  { policy, rate, unit, dependenciesFor }: ExplainableLimit,
  { request, address, user, known }: RequestAndClient,
): Promise<RouteAnswer> {
  const hook = dependenciesFor(() => address)
  const checked = new CheckedRequest(request, hook.path(request))
  const { asking, missing } = askKnownClients(hook, checked, known)
  checked.cost = 0
  await hook.decide({ ...asPeek(asking), user: () => noteUser(checked, user) }, checked)
  const { decision, limit, isExempt } = checked
  if (isExempt || limit.isDenial) {
    const why = isExempt ? 'The allow list exempts the address.' : 'The deny list decides before it.'
    const explained = withoutStanding(policy, rate, unit, false, why)
    return { explained, decidedBy: isExempt ? 'allow-list' : limit.policyName, isRefused: !isExempt }
  }
  forOneRequest(checked, 1)
  const explained = withStanding(policy, rate, 'The route has this limit of its own.', {
    limit,
    decision,
    missing: missing.get(limit),
  })
  return { explained, decidedBy: policy, isRefused: checked.isRefused }
}

async function trace(
  { hook, whySkipped }: ExplainDependencies,
  { request, address, user, known }: RequestAndClient,
): Promise<Traced> {
  let decision: Decision | undefined
  let ofCeiling: Decision | undefined
  let limit: Limit | undefined
  const checked = new CheckedRequest(request, hook.path(request))
  const { asking, missing } = askKnownClients(hook, checked, known)
  const { ceiling } = asking
  const peeking: HookDependencies = {
    ...asPeek(asking, (answer) => {
      decision = answer
      limit = checked.limit
    }),
    address: () => address,
    user: (checked) => noteUser(checked, user),
    ceiling: ceiling && {
      ...ceiling,
      check: (check, nowMs, waitedMs, leads) =>
        after(ceiling.check(check, nowMs, waitedMs, leads), (answer) => {
          ofCeiling = answer
          return answer
        }),
    },
  }
  checked.cost = 0
  const skipped = whySkipped(checked)
  // A cost of 0 charges nothing: it asks what a request of the cost 1 would be answered.
  await peeking.decide(peeking, checked)
  const isHostSkip = checked.isExempt && checked.nowMs === 0
  if (isHostSkip) {
    checked.nowMs = hook.now()
    checked.inForce = await hook.inForce(checked.nowMs, 0)
  }
  const asked = checked.applied ?? [{ limit: limit ?? checked.limit, decision }]
  const answers = checked.isExempt
    ? []
    : asked.map((each) => ({ limit: each.limit, decision: each.decision, missing: missing.get(each.limit) }))
  if (!checked.isExempt) forOneRequest(checked, 1)
  return {
    checked,
    answers,
    ceiling: ceiling &&
      ofCeiling && { limit: ceiling.limit, decision: ofCeiling, missing: known.hasAddress ? [] : ['ip'] },
    skipped: skipped ?? (isHostSkip ? 'The option "skip" exempts the request.' : undefined),
  }
}

function decidedBy({ checked, skipped }: Traced): string | null {
  if (skipped !== undefined) return null
  if (!checked.isExempt) return checked.limit.policyName
  return checked.override?.effect === 'allow' ? 'override' : 'allow-list'
}

/** @param isDenied whether a limit of the route denies the request, which asks the deny list too */
async function listLimits(
  dependencies: ExplainDependencies,
  traced: Traced,
  isDenied: boolean,
): Promise<ExplainedLimit[]> {
  const { checked, ceiling, skipped } = traced
  const reasons = await listReasons(dependencies, checked)
  const answers = new Map(traced.answers.map((answer) => [answer.limit.policyName, answer]))
  const alone = checked.isExempt || checked.limit.isDenial ? decidedBy(traced) : undefined
  const applies = (name: string) => answers.has(name) || name === alone
  const deciders = new Map(reasons.flatMap(([name, , , , , group = '']) => (applies(name) ? [[group, name]] : [])))
  const limits = reasons.map(([name, rate, unit, matches, why, group = '']): ExplainedLimit => {
    if (skipped !== undefined) {
      const denies = isDenied && name === 'deny-list'
      return withoutStanding(name, rate, unit, denies, denies ? DENIED_BY_ROUTE : skipped, group)
    }
    if (!applies(name)) {
      const idle = matches ? whyNotApplied(deciders.get(group), alone, group, ceiling) : why
      return withoutStanding(name, rate, unit, false, idle, group)
    }
    // A request is not searched for the patterns of rules behind the one that decides: here its path may be too long.
    return withStanding(name, rate, matches ? why : RULE_MATCHES, answers.get(name), group)
  })
  if (dependencies.ceiling === undefined) return limits
  const rate = toRateText(dependencies.ceiling)
  if (ceiling !== undefined && skipped === undefined) {
    const why = 'It counts every checked request of the address, beside what else decides.'
    return [...limits, withStanding('ceiling', rate, why, ceiling)]
  }
  const why = skipped ?? 'Denied and exempt requests count against no ceiling.'
  return [...limits, withoutStanding('ceiling', rate, REQUESTS, false, why)]
}

/**
 * @param decider what applies of its group
 * @param alone what decides without any group; undefined where nothing does
 */
function whyNotApplied(
  decider: string | undefined,
  alone: string | null | undefined,
  group: string,
  ceiling: Answer | undefined,
): string {
  const before = decider ?? alone
  if (before === undefined) {
    const isOverCeiling = ceiling?.decision?.allowed === false && !ceiling.decision.unavailable
    return isOverCeiling ? 'The ceiling refuses, and no other limit is asked.' : 'The store cannot count its rate.'
  }
  return `${JSON.stringify(before)} decides before it${decider === undefined || group === '' ? '' : ' in the group'}.`
}
