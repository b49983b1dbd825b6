import type { FastifyRequest } from 'fastify'
import type { Check, Decision } from '../limiter/algorithm.js'
import type { OverrideSet } from '../rules/override-set.js'
import type { ActiveOverride } from '../rules/override-table.js'
import type { RuleSet } from '../rules/rule-set.js'
import { after } from './after.js'
import type { ClientAddress } from './client-address.js'
import type { ClientKey } from './client-key.js'
import { DENIED_LIMIT, type Limit, TOO_LONG_LIMIT } from './limits.js'
import { type UserId, userText } from './request-user.js'

/** What became of one request: all that headers, the event log and a refusal need. */
export interface Outcome {
  readonly decision: Decision
  readonly refused: boolean
  /** By the deny list, an override, or for a path that is too long: the limiter was not asked. */
  readonly denied: boolean
  readonly limit: Limit
  readonly client: ClientKey
  readonly address: ClientAddress
  readonly user: UserId
  readonly nowMs: number
}

/** The steps of a decision, resolved when the plugin is registered. */
export interface DecideSteps {
  now(): number
  address(request: FastifyRequest): ClientAddress
  user(request: FastifyRequest): UserId | Promise<UserId>
  /** Asked once for a request: all that decides about it is of one moment. */
  snapshot(nowMs: number): InForce | Promise<InForce>
  overrideLimit(override: ActiveOverride): Limit
  limit(request: FastifyRequest, path: string, inForce: InForce): Limit | Promise<Limit>
  check(check: Check, nowMs: number): Decision | Promise<Decision>
}

/** What a request is decided by. */
interface InForce {
  readonly rules: Pick<RuleSet, 'match'>
  readonly overrides: Pick<OverrideSet, 'hasUsers' | 'find'>
}

/** Where there are neither rules nor overrides. */
export const NOTHING_IN_FORCE: InForce = {
  rules: { match: () => undefined },
  overrides: { hasUsers: false, find: () => undefined },
}

/**
 * Asks the limiter about a request; null where the allow list or an override lets it through.
 *
 * @param path as the router sees it
 * @param cost 0 only looks
 */
export type Decide = (request: FastifyRequest, path: string, cost: number) => Outcome | null | Promise<Outcome | null>

const DENIED: Decision = { allowed: false, count: 1, limit: 0, remaining: 0, resetMs: 0, retryAfterMs: null }

/**
 * Nothing in it waits unless a step does: a promise is passed on, any other value is used at once. Every request comes
 * through here, so that what nearly always is no promise makes no closure (`after`) for the case that it is one.
 */
export function createDecide(steps: DecideSteps): Decide {
  function outcomeOf(
    decision: Decision,
    limit: Limit,
    client: ClientKey,
    address: ClientAddress,
    user: UserId,
    nowMs: number,
  ): Outcome {
    const refused = limit.block && !decision.allowed
    return { decision, refused, denied: decision === DENIED, limit, client, address, user, nowMs }
  }

  function checkedClient(
    client: ClientKey,
    limit: Limit,
    cost: number,
    address: ClientAddress,
    user: UserId,
    nowMs: number,
  ): Outcome | Promise<Outcome> {
    const decision = steps.check({ key: client.counter, policy: limit.policy, cost }, nowMs)
    return decision instanceof Promise
      ? decision.then((decided) => outcomeOf(decided, limit, client, address, user, nowMs))
      : outcomeOf(decision, limit, client, address, user, nowMs)
  }

  function checked(
    limit: Limit,
    request: FastifyRequest,
    cost: number,
    address: ClientAddress,
    user: UserId,
    nowMs: number,
  ): Outcome | Promise<Outcome> {
    if (limit === TOO_LONG_LIMIT) return denied(limit, request, address, user, nowMs)
    const client = limit.clientKey(request, address, user)
    return client instanceof Promise
      ? client.then((known) => checkedClient(known, limit, cost, address, user, nowMs))
      : checkedClient(client, limit, cost, address, user, nowMs)
  }

  function denied(
    limit: Limit,
    request: FastifyRequest,
    address: ClientAddress,
    user: UserId,
    nowMs: number,
  ): Outcome | Promise<Outcome> {
    return after(limit.clientKey(request, address, user), (client) =>
      outcomeOf(DENIED, limit, client, address, user, nowMs),
    )
  }

  /** For a client that is not exempt. */
  function limited(
    override: ActiveOverride | null | undefined,
    inForce: InForce,
    request: FastifyRequest,
    path: string,
    cost: number,
    address: ClientAddress,
    user: UserId,
    nowMs: number,
  ): Outcome | Promise<Outcome> {
    if (address.listed === 'deny') return denied(DENIED_LIMIT, request, address, user, nowMs)
    if (override === null) return denied(TOO_LONG_LIMIT, request, address, user, nowMs)
    if (override === undefined) {
      const limit = steps.limit(request, path, inForce)
      return limit instanceof Promise
        ? limit.then((found) => checked(found, request, cost, address, user, nowMs))
        : checked(limit, request, cost, address, user, nowMs)
    }
    const limit = steps.overrideLimit(override)
    if (override.effect === 'deny') return denied(limit, request, address, user, nowMs)
    return checked(limit, request, cost, address, user, nowMs)
  }

  function decideWith(
    inForce: InForce,
    request: FastifyRequest,
    path: string,
    cost: number,
    address: ClientAddress,
    nowMs: number,
  ): ReturnType<Decide> {
    const { overrides } = inForce
    if (overrides.hasUsers) {
      return after(steps.user(request), (user) => {
        const override = overrides.find(address.plain, userText(user), path, nowMs)
        if (isExempt(address, override)) return null
        return limited(override, inForce, request, path, cost, address, user, nowMs)
      })
    }
    const override = overrides.find(address.plain, null, path, nowMs)
    if (isExempt(address, override)) return null
    const user = steps.user(request)
    return user instanceof Promise
      ? user.then((known) => limited(override, inForce, request, path, cost, address, known, nowMs))
      : limited(override, inForce, request, path, cost, address, user, nowMs)
  }

  return function decide(request, path, cost) {
    const nowMs = steps.now()
    const address = steps.address(request)
    const inForce = steps.snapshot(nowMs)
    return inForce instanceof Promise
      ? inForce.then((loaded) => decideWith(loaded, request, path, cost, address, nowMs))
      : decideWith(inForce, request, path, cost, address, nowMs)
  }
}

/** What refuses goes before what lets through: the deny list, then overrides, then the allow list. */
function isExempt({ listed }: ClientAddress, override: ActiveOverride | null | undefined): boolean {
  if (listed === 'deny' || override === null || override?.effect === 'deny') return false
  return listed === 'allow' || override?.effect === 'allow'
}
