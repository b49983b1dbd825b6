import type { FastifyBaseLogger, FastifyRequest } from 'fastify'
import { SECOND_MS } from '../clock.js'
import type { Algorithm, Policy } from '../limiter/algorithm.js'
import { parseRate, type Rate } from '../limiter/rate.js'
import type { ActiveOverride } from '../rules/override-table.js'
import type { ClientKind, Rule } from '../rules/rule.js'
import { after } from './after.js'
import type { ClientAddress } from './client-address.js'
import {
  addressKey,
  type ClientKey,
  customKey,
  headerKey,
  headerValue,
  inScope,
  ruleKey,
  userKey,
} from './client-key.js'
import { type CounterScopes, overrideScope } from './counter-scopes.js'
import { type Asked, guard } from './guard.js'
import { policyField, quotedName } from './headers.js'
import { PathPrefixes, type RouterOptions } from './request-path.js'
import { type LateUserWarning, type UserId, userText } from './request-user.js'

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
  clientKey(request: FastifyRequest, address: ClientAddress, user: UserId): ClientKey | Promise<ClientKey>
}

function createLimit(policyName: string, limit: Pick<Limit, 'policy' | 'block' | 'ruleName' | 'clientKey'>): Limit {
  return {
    ...limit,
    policyName,
    quotedName: quotedName(policyName),
    policyField: policyField(policyName, limit.policy),
  }
}

const NOTHING: Policy = { algorithm: 'fixed_window', limit: 0, periodMs: SECOND_MS }

/** A limit that lets nothing through. */
function createDenial(policyName: string): Limit {
  const clientKey: KeyOf = (_request, address) => addressKey(address)
  return createLimit(policyName, { policy: NOTHING, block: true, ruleName: '', clientKey })
}

/** What an address of the deny list is held to. */
export const DENIED_LIMIT: Limit = createDenial('deny-list')

/** What a request is held to whose path is too long to be searched for the patterns that may decide about it. */
export const TOO_LONG_LIMIT: Limit = createDenial('path-length')

export type KeyFunction = Asked<string | number | bigint | null | undefined>
export type RateFunction = Asked<string | null | undefined>

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

/** How to tell clients apart by the kinds that rules and `middleware.key` know. Nobody known falls back to the address. */
export function keyOfKind(client: ClientKind, { hashHeader, users }: KeyOptions): KeyOf {
  if (client.kind === 'ip') return (_request, address) => addressKey(address)
  if (client.kind === 'user') {
    return (request, address, user) => {
      const id = userText(user)
      if (id === null) {
        users.noteNoUser(request)
        return addressKey(address)
      }
      users.noteUser()
      return userKey(id)
    }
  }
  const { name } = client
  return (request, address) => {
    const value = headerValue(request, name)
    if (value === '') return addressKey(address)
    return headerKey(name, hashHeader === undefined ? value : hashHeader(value))
  }
}

/** How the host's own function tells clients apart. One that fails is logged and falls back to the address. */
export function keyOfFunction(keyFunction: KeyFunction, setting: string, { log }: KeyOptions): KeyOf {
  const guarded = guard(keyFunction, setting, log)
  return (request, address) =>
    after(guarded(request), (key) => {
      const text = typeof key === 'string' || typeof key === 'number' || typeof key === 'bigint' ? String(key) : ''
      return text.trim() === '' ? addressKey(address) : customKey(text)
    })
}

/** The limit of a rule, whose key begins with the rule's name. */
export function limitOfRule({ name, policy, block, client }: Rule, options: KeyOptions): Limit {
  const keyOf = keyOfKind(client, options)
  return createLimit(name, {
    policy,
    block,
    ruleName: name,
    clientKey: (request, address, user) =>
      after(keyOf(request, address, user), (key) => ruleKey(name, client.kind, key)),
  })
}

/** The limit of an override. Each client that it is for has a counter of its own, apart from all its others. */
export function limitOfOverride({ id, effect, client }: ActiveOverride, options: KeyOptions): Limit {
  const keyOf = keyOfKind({ kind: client.kind }, options)
  const scope = overrideScope(id)
  return createLimit('override', {
    policy: typeof effect === 'object' ? effect : NOTHING,
    block: true,
    ruleName: '',
    clientKey: (request, address, user) => after(keyOf(request, address, user), (key) => inScope(scope, key)),
  })
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
    return (_request: FastifyRequest, path: string): Limit => prefixes.find(path) ?? fallback
  }
  const rateOf = guard(defaultRate, setting, options.log)
  const limitOfRate = remember((text: string) => {
    const rate = parseRate(text)
    // A counter has one period: answers with different ones would start it afresh each time.
    return limitOf(policyName, rate, countedApart(scopes.addPeriod(rate.periodMs), keyOf))
  })
  const limitOfAnswer = guard(limitOfRate, setting, options.log)
  return (request: FastifyRequest, path: string): Limit | Promise<Limit> =>
    prefixes.find(path) ??
    after(rateOf(request), (rate) =>
      after(rate ? limitOfAnswer(rate) : undefined, (limit) => limit ?? limitOfRate(DEFAULT_RATE)),
    )
}

/** The same client with a counter of its own. The event keeps the client's key, so that offenders add up per client. */
function countedApart(scope: string, keyOf: KeyOf): KeyOf {
  return (request, address, user) => after(keyOf(request, address, user), (key) => inScope(scope, key))
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
