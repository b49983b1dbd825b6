/** Limits that code asks by the text of a client, without a request. */
import type { Client } from '../../clients/client.js'
import { formatCounter, sharedLimitName } from '../../clients/counter.js'
import { InvalidSettingError } from '../../ground/errors.js'
import { rememberClients } from '../../ground/remember.js'
import { type SettingTable, shown } from '../../ground/setting.js'
import { REQUESTS } from '../../ground/unit.js'
import { type Algorithm, type Check, type Decision, isPlain, isRate } from '../algorithm.js'
import { MAX_COST, validateCost, validateReserve } from '../cost.js'
import { refuseContradictions } from '../limit/contradictions.js'
import { limitSettings } from '../limit/limit-fields.js'
import { LIMIT_NAME, resolveLimit } from '../limit/resolve-limit.js'
import { policyFor } from '../limit/terms.js'
import type { Limiter } from '../limiter.js'
import { forCost } from '../peek.js'
import { periodsText } from '../rate.js'
import { toRefund } from '../settlement.js'
import { requireMethod } from './counting-settings.js'
import type { PermitsOfCode } from './held-permits.js'

/** The options of a limit. */
export interface ClientLimitOptions {
  /**
   * The name, 1 to 100 printable ASCII characters. Limits with one name, one rate and one store count together, in all
   * processes: those of `createLimiter`, and `limit({ name, shared: true })` of apps.
   */
  readonly name: string
  /** A rate such as `100/m`. */
  readonly rate: string
  /** The algorithm that counts requests: `fixed_window` unless given. */
  readonly algorithm?: Algorithm | undefined
  /** The part of the limit that a check uses unless it says so itself: an integer, 1 to 2147483647; 1 unless given. */
  readonly cost?: number | undefined
  /** What the rate counts: `requests` unless given, or what is charged later, such as `tokens`. */
  readonly unit?: string | undefined
  /**
   * How much of another unit than requests a check takes in advance: 0 to 2147483647. 0 unless given: a check is allowed while
   * anything is left.
   */
  readonly reserve?: number | undefined
}

export interface ClientCheckOptions {
  /**
   * The part of the limit that this check uses, an integer, 1 to 2147483647; of a limit of another unit than requests what it
   * takes in advance, from 0 on.
   */
  readonly cost?: number | undefined
}

/** The answer to `acquire`: a decision, and the permit that it took where it is allowed. */
export interface Permit extends Decision {
  /** Gives the permit back, once; further calls do nothing, and never fails. Without it the permit is free after the period of the rate. */
  release(): void
}

/**
 * A limit that code asks by the text of a client: `user:7`, `ip:203.0.113.7`, `header:x-api-key:abc`, several with bars
 * between, as the event log spells clients, or `all`. Any other text is a client of its own kind, as a function given as `key`
 * answers it; write `key:` before a text that strangers choose, which could spell a client. All reject for an empty text.
 */
export interface ClientLimit {
  /**
   * Checks a client, and takes the cost of what it allows. While the store fails `onStoreError` decides.
   *
   * @throws InvalidSettingError for an invalid client or cost, and for a limit of the algorithm `concurrency`
   */
  consume(client: string, options?: ClientCheckOptions): Promise<Decision>
  /**
   * Reads the state of a client, and takes nothing: `count` and `remaining` exclude this check, `allowed` and `retryAfterMs` are
   * the answer that it would get.
   */
  peek(client: string): Promise<Decision>
  /**
   * Takes an amount whatever is left, which may leave the client in debt: above the limit.
   *
   * @param amount a whole number from 0 on, of which 2147483647 count at most
   * @returns null where the store has not taken it within `storeTimeoutMs`: it is owed to the store
   * @throws InvalidSettingError for an invalid client or amount, and for a limit of the algorithm `concurrency`
   */
  charge(client: string, amount: number): Promise<Decision | null>
  /**
   * Gives an amount back to the current windows, which never count less than 0. Other processes that have refused the client
   * notice when the wait is over that they answered, for another unit than requests after a second.
   *
   * @param amount a whole number from 0 on
   * @throws InvalidSettingError as `charge`, and where the store has no `settle`
   */
  refund(client: string, amount: number): Promise<void>
  /**
   * Forgets what a client has used. Every process obeys within 2 s.
   *
   * @throws the error of a store that cannot be reached
   */
  reset(client: string): Promise<void>
  /**
   * Forgets what all clients have used of this limit. Every process obeys within 2 s.
   *
   * @throws InvalidSettingError where the store has no `resetAll`; the error of a store that cannot be reached
   */
  resetAll(): Promise<void>
  /**
   * Takes a permit of a limit of the algorithm `concurrency`: `20/60s` is at most 20 at once, each for 60 s at most.
   *
   * @throws InvalidSettingError for an invalid client or cost, and for a limit of another algorithm
   */
  acquire(client: string, options?: ClientCheckOptions): Promise<Permit>
}

export const CLIENT_LIMIT = {
  name: LIMIT_NAME,
  ...limitSettings('code'),
} as const satisfies SettingTable<ClientLimitOptions>

const called = (name: string) => `limit.${name}`

/** @throws InvalidSettingError for the first invalid, missing or unknown option */
function resolveOptions(options: ClientLimitOptions) {
  const limit = resolveLimit(CLIENT_LIMIT, options, ['name', 'rate'], called)
  refuseContradictions(limit, options, called)
  const { name, rate, algorithm, cost, unit, reserve } = limit
  const isOfRequests = unit === REQUESTS
  return {
    limitName: sharedLimitName(periodsText(rate), name),
    policy: policyFor(rate, algorithm, unit),
    isOfRequests,
    cost: isOfRequests ? cost : reserve,
  }
}

/** @throws InvalidSettingError for what are no options, such as the cost itself */
function costIn(options: ClientCheckOptions | undefined): number | undefined {
  if (options === undefined) return undefined
  if (typeof options === 'object' && options !== null) return options.cost
  throw new InvalidSettingError(`The options are ${shown(options)}: give an object such as { cost: 5 }`)
}

export interface ClientLimitDependencies {
  readonly limiter: Limiter
  readonly permits: PermitsOfCode
  readonly nextPermit: () => number
  /** Returns the time in whole milliseconds; throws where the limiter is closed. */
  readonly now: () => number
  /** @throws InvalidSettingError for a text without a client */
  readonly toClient: (text: string) => Client
  readonly store: { readonly settle?: unknown; readonly resetAll?: unknown }
}

/** @throws InvalidSettingError for invalid options */
export function createClientLimit(
  options: ClientLimitOptions,
  { limiter, permits, nextPermit, now, toClient, store }: ClientLimitDependencies,
): ClientLimit {
  const { limitName, policy, isOfRequests, cost: usualCost } = resolveOptions(options)
  const counterFor = rememberClients((client) => formatCounter(limitName, toClient(client)))
  const ask = isOfRequests ? limiter.checkLeased : limiter.check
  const validateUse = isOfRequests ? validateCost : validateReserve
  if (!isRate(policy)) requireMethod(store, 'settle', `"${called('algorithm')}" is "concurrency"`)

  function toCheck(client: string, cost = usualCost): Check {
    return { key: counterFor(client), policy, cost: cost === usualCost ? cost : validateUse('cost', cost) }
  }

  /** @throws InvalidSettingError for an amount that is not a whole number, and where requests in progress are counted */
  function toAmount(client: string, amount: number, what: string): Check {
    requireRates(what)
    if (!Number.isSafeInteger(amount) || amount < 0) {
      throw new InvalidSettingError(`The amount is ${shown(amount)}: give a whole number from 0 on`)
    }
    return { key: counterFor(client), policy, cost: amount }
  }

  function requireRates(what: string): void {
    if (isRate(policy)) return
    throw new InvalidSettingError(
      `The limit ${JSON.stringify(options.name)} counts requests in progress, and has no ${what}(): call acquire(), or give another algorithm`,
    )
  }

  return {
    async consume(client, given) {
      if (!isRate(policy)) requireRates('consume')
      return ask(toCheck(client, costIn(given)), now(), 0)
    },
    async peek(client) {
      const standing = await limiter.check({ key: counterFor(client), policy, cost: 0 }, now(), 0)
      return forCost(standing, usualCost)
    },
    async charge(client, amount) {
      const check = toAmount(client, amount, 'charge')
      return (await limiter.charge({ ...check, cost: Math.min(amount, MAX_COST) }, now())) ?? null
    },
    async refund(client, amount) {
      const nowMs = now()
      requireMethod(store, 'settle', 'refund() was called')
      await limiter.refund(toRefund(toAmount(client, amount, 'refund'), nowMs), nowMs)
    },
    async reset(client) {
      now()
      await limiter.reset([counterFor(client)])
    },
    async resetAll() {
      now()
      requireMethod(store, 'resetAll', 'resetAll() was called')
      await limiter.resetAll([`${limitName}|`])
    },
    async acquire(client, given) {
      if (isRate(policy) || !isPlain(policy)) {
        throw new InvalidSettingError(
          `The limit ${JSON.stringify(options.name)} counts requests over time, and has no acquire(): call consume(), or give the algorithm concurrency`,
        )
      }
      const nowMs = now()
      const taken = { ...toCheck(client, costIn(given)), policy, permit: nextPermit() }
      const decision = await limiter.check(taken, nowMs, 0)
      if (decision.allowed) permits.hold(taken, nowMs)
      return { ...decision, release: () => permits.release(taken) }
    },
  }
}
