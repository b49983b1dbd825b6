import type { FastifyBaseLogger } from 'fastify'
import type { Algorithm, Policy } from '../limiter/algorithm.js'
import { parseRate, type Rate } from '../limiter/rate.js'
import type { ActiveOverride } from '../overrides/override-table.js'
import type { ClientKind, Rule } from '../rules/rule.js'
import { SECOND_MS } from '../time/clock.js'
import { after } from './after.js'
import { type ClientKey, customKey, headerKey, headerValue, inScope, ruleKey, userKey } from './client-key.js'
import { type CounterScopes, overrideScope } from './counter-scopes.js'
import type { CheckedRequest } from './decide.js'
import { guard, type RequestFunction } from './guard.js'
import { policyField, quotedName } from './headers.js'
import { memoize } from './memoize.js'
import { PathPrefixes, type RouterOptions } from './request-path.js'
import { type LateUserWarning, userText } from './request-user.js'

/** What one request is held to. */
export interface Limit {
  readonly policy: Policy
  /** Over-limit requests are refused; otherwise only counted. */
  readonly block: boolean
  /** Empty where no rule decides. */
  readonly ruleName: string
  /** What the client is told that its limit is called. */
  readonly policyName: string
  /** That name and the whole policy, as the draft's header fields spell them. */
  readonly quotedName: string
  readonly policyField: string
  /** Refuses every request, without a counter. */
  readonly isDenial: boolean
  clientKey(checked: Countable): ClientKey | Promise<ClientKey>
}

/** What of a request tells its client apart. */
export type Countable = Pick<CheckedRequest, 'request' | 'address' | 'user'>

function createLimit(
  policyName: string,
  limit: Pick<Limit, 'policy' | 'block' | 'ruleName' | 'clientKey'>,
  isDenial = false,
): Limit {
  return {
    ...limit,
    isDenial,
    policyName,
    quotedName: quotedName(policyName),
    policyField: policyField(policyName, limit.policy),
  }
}

const NOTHING: Policy = { algorithm: 'fixed_window', limit: 0, periodMs: SECOND_MS }

/** A limit that lets nothing through. */
function createDenial(policyName: string): Limit {
  return createLimit(policyName, { policy: NOTHING, block: true, ruleName: '', clientKey: keyOfAddress }, true)
}

/** What an address of the deny list is held to. */
export const DENIED_LIMIT: Limit = createDenial('deny-list')

/** What a request is held to whose path is too long to be searched for the patterns that may decide about it. */
export const TOO_LONG_LIMIT: Limit = createDenial('path-length')

export type KeyFunction = RequestFunction<string | number | bigint | null | undefined>
export type RateFunction = RequestFunction<string | null | undefined>

export type KeyOf = Limit['clientKey']

export const DEFAULT_RATE = '100/m'
const REMEMBERED_RATES = 1_000

export interface KeyOptions {
  readonly log: FastifyBaseLogger
  /** Replaces header values that are secrets. */
  readonly hashHeader: ((value: string) => string) | undefined
  /** Takes note of users where they are counted. */
  readonly users: LateUserWarning
}

function keyOfAddress({ address }: Countable): ClientKey {
  return address.clientKey
}

/** How to tell clients apart by the kinds that rules and `middleware.key` know. Nobody known falls back to the address. */
export function keyOfKind(client: ClientKind, { hashHeader, users }: KeyOptions): KeyOf {
  if (client.kind === 'ip') return keyOfAddress
  if (client.kind === 'user') {
    return ({ request, address, user }) => {
      const id = userText(user)
      if (id === null) {
        users.noteNoUser(request)
        return address.clientKey
      }
      users.noteUser()
      return userKey(id)
    }
  }
  const { name } = client
  return ({ request, address }) => {
    const value = headerValue(request, name)
    if (value === '') return address.clientKey
    return headerKey(name, hashHeader === undefined ? value : hashHeader(value))
  }
}

/** How the host's own function tells clients apart. One that fails is logged and falls back to the address. */
export function keyOfFunction(keyFunction: KeyFunction, setting: string, { log }: KeyOptions): KeyOf {
  const guarded = guard(keyFunction, setting, log)
  return ({ request, address }) =>
    after(guarded(request), (key) => {
      const text = typeof key === 'string' || typeof key === 'number' || typeof key === 'bigint' ? String(key) : ''
      return text.trim() === '' ? address.clientKey : customKey(text)
    })
}

/** The limit of a rule, whose key begins with the rule's name. */
export function limitOfRule({ name, policy, block, client }: Rule, options: KeyOptions): Limit {
  const keyOf = keyOfKind(client, options)
  return createLimit(name, {
    policy,
    block,
    ruleName: name,
    clientKey: deriveKey(keyOf, (key) => ruleKey(name, client.kind, key)),
  })
}

/** The limit of an override. Each client that it is for has a counter of its own, apart from all its others. */
export function limitOfOverride({ id, effect, client }: ActiveOverride, options: KeyOptions): Limit {
  const keyOf = keyOfKind({ kind: client.kind }, options)
  const scope = overrideScope(id)
  const clientKey = countedApart(scope, keyOf)
  const policy = typeof effect === 'object' ? effect : NOTHING
  return createLimit('override', { policy, block: true, ruleName: '', clientKey }, effect === 'deny')
}

export interface StaticLimitOptions {
  readonly rateLimits: Readonly<Record<string, string>>
  readonly defaultRate: string | RateFunction
  /** What the default rate is called where it was set, and where clients are told of it. */
  readonly setting: string
  readonly policyName: string
  readonly algorithm: Algorithm
  readonly block: boolean
  readonly keyOf: KeyOf
  readonly scopes: CounterScopes
  readonly router: RouterOptions
  readonly log: FastifyBaseLogger
}

/** The limit of the static configuration for a path: that of the longest prefix, else the default. */
export function createStaticLimits(options: StaticLimitOptions) {
  const { defaultRate, setting, policyName, algorithm, block, keyOf, scopes } = options

  function limitOf(name: string, { limit, periodMs }: Rate, clientKey: KeyOf): Limit {
    return createLimit(name, { policy: { algorithm, limit, periodMs }, block, ruleName: '', clientKey })
  }

  const prefixes = new PathPrefixes(
    Object.entries(options.rateLimits).map(
      ([prefix, rate]) =>
        [prefix, limitOf(prefix, parseRate(rate), countedApart(scopes.addPrefix(prefix), keyOf))] as const,
    ),
    options.router,
  )
  if (typeof defaultRate === 'string') {
    const fallback = limitOf(policyName, parseRate(defaultRate), keyOf)
    return ({ path }: CheckedRequest): Limit => prefixes.find(path) ?? fallback
  }
  const rateOf = guard(defaultRate, setting, options.log)
  const limitOfRate = remember((text: string) => {
    const rate = parseRate(text)
    // A counter has one period: answers with different ones would start it afresh each time.
    return limitOf(policyName, rate, countedApart(scopes.addPeriod(rate.periodMs), keyOf))
  })
  const limitOfAnswer = guard(limitOfRate, setting, options.log)
  return ({ request, path }: CheckedRequest): Limit | Promise<Limit> =>
    prefixes.find(path) ??
    after(rateOf(request), (rate) =>
      after(rate ? limitOfAnswer(rate) : undefined, (limit) => limit ?? limitOfRate(DEFAULT_RATE)),
    )
}

/** The same client with a counter of its own. The event keeps the client's key, so that offenders add up per client. */
function countedApart(scope: string, keyOf: KeyOf): KeyOf {
  return deriveKey(keyOf, (key) => inScope(scope, key))
}

/** Keys that are made from those of another limit. Those of addresses are kept as long as these: they repeat. */
function deriveKey(keyOf: KeyOf, derive: (key: ClientKey) => ClientKey): KeyOf {
  const deriveOnce = memoize(derive)
  const derived = (key: ClientKey) => (key.byAddress ? deriveOnce(key) : derive(key))
  return (checked) => after(keyOf(checked), derived)
}

/** What a function of the host answers repeats: it is read once. Forgotten together when there is too much of it. */
function remember<Answer>(read: (text: string) => Answer): (text: string) => Answer {
  const remembered = new Map<string, Answer>()
  return function remembering(text) {
    let answer = remembered.get(text)
    if (answer === undefined) {
      answer = read(text)
      if (remembered.size >= REMEMBERED_RATES) remembered.clear()
      remembered.set(text, answer)
    }
    return answer
  }
}
