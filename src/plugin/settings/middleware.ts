/** The settings of the limit of requests that no rule matches. */

import { type ClientKind, parseClientKind } from '../../clients/client-kind.js'
import type { NamedLists } from '../../clients/named-lists.js'
import { VALIDATORS } from '../../generated/validators.js'
import { InvalidSettingError } from '../../ground/errors.js'
import {
  explain,
  FLAG,
  parseSettings,
  type SettingTable,
  shown,
  validatedBy,
  validateSettings,
  withoutUndefined,
} from '../../ground/setting.js'
import { parseAddressList, requireLists } from '../../http/client-address.js'
import type { Cost, Reserve } from '../../http/cost.js'
import type { KeyFunction } from '../../http/kind-client.js'
import { DEFAULT_RATE, type RateFunction } from '../../http/policy-limits.js'
import type { Algorithm } from '../../limiter/algorithm.js'
import { ALGORITHM, LEASE, requireSettle, UNIT, validateBackend } from '../../limiter/core/counting-settings.js'
import { parseMiddlewareVariable } from '../../limiter/core/variables.js'
import { validateReserve } from '../../limiter/cost.js'
import { parseRate, toPolicy } from '../../limiter/rate.js'
import { contradictionsInUnit } from '../../limiter/unit-contradictions.js'
import { findCountsProblem } from '../../rules/contradictions.js'
import { COUNTS, type CountedStatuses } from '../../rules/counted-statuses.js'
import { findNoticeProblem, NOTICE_AT } from '../../rules/notice-at.js'
import { FOREIGN_OPTIONS } from './foreign-options.js'
import type { MiddlewareOptions } from './options.js'

const ADDRESSES = {
  ...VALIDATORS.texts,
  allowed: 'a list of addresses and networks',
  default: [],
  parse: (addresses: string[], called: string) => parseAddressList(called, addresses),
}

export const MIDDLEWARE = {
  backend: {
    ...VALIDATORS.textOrReference,
    allowed: 'database, memory, redis, or a Store',
    default: 'database',
    parse: validateBackend,
  },
  defaultRate: {
    ...VALIDATORS.textOrCallback,
    allowed: 'a rate such as 100/m, or a function of the request',
    default: DEFAULT_RATE,
    parse: validateRate,
  },
  rateLimits: {
    ...VALIDATORS.textsByName,
    allowed: 'an object of rates by path prefix',
    default: {},
    parse: validatedBy(validateRates),
  },
  algorithm: ALGORITHM,
  key: {
    ...VALIDATORS.textOrCallback,
    allowed:
      'ip, user, user.<field>, header:<Name>, cookie:<name>, route, up to three with + between, all, or a function of the request',
    default: 'ip',
    parse: parseKey,
  },
  counts: {
    ...VALIDATORS.text,
    allowed: 'requests, or statuses such as 401,403 or 4xx,5xx',
    default: COUNTS.default,
    parse: (counts, called) => explain(called, counts, () => COUNTS.parse(counts)),
  },
  unit: UNIT,
  reserve: {
    ...VALIDATORS.numberOrCallback,
    allowed: 'an integer, or a function of the request',
    default: 0,
    parse: (reserve, called) => (typeof reserve === 'number' ? validateReserve(called, reserve) : reserve),
  },
  noticeAt: {
    ...VALIDATORS.text,
    allowed: 'percentages such as 80,100',
    default: NOTICE_AT.default,
    parse: (noticeAt, called) => explain(called, noticeAt, () => NOTICE_AT.parse(noticeAt)),
  },
  block: { ...FLAG, default: true },
  ceiling: {
    ...VALIDATORS.text,
    allowed: 'a rate such as 600/m',
    parse: (rate, called) => explain(called, rate, () => parseRate(rate)),
  },
  lease: LEASE,
  skipPaths: {
    ...VALIDATORS.texts,
    allowed: 'a list of path prefixes',
    default: [],
    parse: validatedBy(validatePrefixes),
  },
  allowList: ADDRESSES,
  denyList: ADDRESSES,
} as const satisfies SettingTable<MiddlewareOptions>

/** The options by their keys in `RATELIMIT_MIDDLEWARE`. */
const KEYS: ReadonlyMap<string, string> = new Map(
  Object.keys(MIDDLEWARE).map((name) => [name.replace(/[A-Z]/g, '_$&').toUpperCase(), name]),
)

export function resolveMiddleware(options: MiddlewareOptions, fromEnvironment: MiddlewareOptions, lists: NamedLists) {
  const inCode = withoutUndefined(options)
  const merged: MiddlewareOptions = { ...withoutUndefined(fromEnvironment), ...inCode }
  const called = (name: string) => (name in inCode ? `middleware.${name}` : middlewareVariableFor(name))
  validateSettings(MIDDLEWARE, merged, called, FOREIGN_OPTIONS)
  const { allowList, denyList, lease: leaseMs, ...middleware } = parseSettings(MIDDLEWARE, merged, called)
  const { backend, algorithm, defaultRate, rateLimits } = middleware
  validateWindows(called('defaultRate'), defaultRate, algorithm)
  for (const [prefix, rate] of Object.entries(rateLimits)) {
    validateWindows(`${called('rateLimits')}[${JSON.stringify(prefix)}]`, rate, algorithm)
  }
  for (const rate of [defaultRate, ...Object.values(rateLimits)]) validateUnit(called, { ...middleware, rate, cost: 1 })
  validateCounts(called('counts'), merged.counts, algorithm, middleware.counts)
  validateNotices(called('noticeAt'), merged.noticeAt, algorithm, middleware.noticeAt)
  if (leaseMs !== undefined) requireSettle(backend, called('lease'), merged.lease, 'leave lease out')
  if (algorithm === 'concurrency') requireSettle(backend, called('algorithm'), algorithm)
  requireLists(called('allowList'), allowList, lists)
  requireLists(called('denyList'), denyList, lists)
  return { ...middleware, leaseMs, addresses: { allow: allowList, deny: denyList, named: lists } }
}

/** @throws InvalidSettingError for a limit that cannot count responses */
export function validateCounts(
  called: string,
  value: unknown,
  algorithm: Algorithm,
  counts: CountedStatuses | null,
): void {
  const problem = findCountsProblem(algorithm, counts)
  if (problem !== undefined) throw new InvalidSettingError(`Setting "${called}" is ${shown(value)}: ${problem}`)
}

/** @throws InvalidSettingError for a limit that cannot have notices */
export function validateNotices(
  called: string,
  value: unknown,
  algorithm: Algorithm,
  noticeAt: readonly number[] | null,
): void {
  const problem = findNoticeProblem(algorithm, noticeAt)
  if (problem !== undefined) throw new InvalidSettingError(`Setting "${called}" is ${shown(value)}: ${problem}`)
}

/** @throws InvalidSettingError for what a limit of a unit cannot have */
export function validateUnit(
  called: (name: string) => string,
  limit: {
    readonly rate: string | RateFunction
    readonly algorithm: Algorithm
    readonly counts: CountedStatuses | null
    readonly cost: Cost
    readonly unit: string
    readonly reserve: Reserve
  },
): void {
  const { rate } = limit
  const problems = contradictionsInUnit({ ...limit, rate: typeof rate === 'string' ? parseRate(rate) : undefined })
  for (const [name, problem] of Object.entries(problems)) {
    throw new InvalidSettingError(`Setting "${called(name)}" ${problem}`)
  }
}

function middlewareVariableFor(option: string): string {
  const key = [...KEYS].find(([, name]) => name === option)?.[0]
  return key === undefined ? `middleware.${option}` : `RATELIMIT_MIDDLEWARE.${key}`
}

/** Parses `RATELIMIT_MIDDLEWARE`. */
export function readMiddleware(json: string): unknown {
  return Object.fromEntries(
    Object.entries(parseMiddlewareVariable(json)).map(([key, value]) => {
      const option = KEYS.get(key)
      if (option === undefined) {
        throw new InvalidSettingError(
          `Setting "RATELIMIT_MIDDLEWARE" has the key ${JSON.stringify(key)}: known are ${[...KEYS.keys()].join(', ')}`,
        )
      }
      return [option, value]
    }),
  )
}

export function validateRate(rate: string | RateFunction, called: string): string | RateFunction {
  if (typeof rate === 'string') explain(called, rate, () => parseRate(rate))
  return rate
}

/** @throws InvalidSettingError for a rate with a window that the algorithm cannot count */
export function validateWindows(called: string, rate: string | RateFunction, algorithm: Algorithm): void {
  if (typeof rate === 'string') explain(called, rate, () => toPolicy(algorithm, parseRate(rate)))
}

function validateRates(rates: Record<string, string>, called: string): void {
  for (const [prefix, rate] of Object.entries(rates)) {
    validatePrefix(called, prefix)
    validateRate(rate, `${called}[${JSON.stringify(prefix)}]`)
  }
}

function parseKey(key: string | KeyFunction, called: string): ClientKind | KeyFunction {
  return typeof key === 'string' ? explain(called, key, () => parseClientKind(key)) : key
}

function validatePrefixes(prefixes: string[], called: string): void {
  for (const prefix of prefixes) validatePrefix(called, prefix)
}

function validatePrefix(called: string, prefix: string): void {
  if (prefix.startsWith('/')) return
  throw new InvalidSettingError(`Setting "${called}" has the path ${shown(prefix)}: begin it with "/"`)
}
