/** The settings of the limit of requests that no rule matches. */

import type { NamedLists } from '../../clients/named-lists.js'
import { VALIDATORS } from '../../generated/validators.js'
import { InvalidSettingError } from '../../ground/errors.js'
import {
  parseSettings,
  type SettingTable,
  shown,
  validatedBy,
  validateSettings,
  withoutUndefined,
} from '../../ground/setting.js'
import { doesNotExist } from '../../ground/unknown-option.js'
import { parseAddressList, requireLists } from '../../http/client-address.js'
import { DEFAULT_RATE, type RateFunction } from '../../http/policy-limits.js'
import { LEASE, requireSettle, validateBackend } from '../../limiter/core/counting-settings.js'
import { parseMiddlewareVariable } from '../../limiter/core/variables.js'
import { refuseContradictions } from '../../limiter/limit/contradictions.js'
import { limitSettings } from '../../limiter/limit/limit-fields.js'
import { parseRate } from '../../limiter/rate.js'
import { FOREIGN_OPTIONS } from './foreign-options.js'
import type { MiddlewareOptions } from './options.js'

const { rate: RATE, ...TERMS } = limitSettings('middleware')

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
  defaultRate: { ...RATE, default: DEFAULT_RATE },
  rateLimits: {
    ...VALIDATORS.textsByName,
    allowed: 'an object of rates by path prefix',
    default: {},
    parse: validatedBy(validateRates),
  },
  ...TERMS,
  ceiling: { ...limitSettings('code').rate, allowed: 'a rate such as 600/m' },
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
  const { backend, algorithm } = middleware
  const { defaultRate = DEFAULT_RATE, rateLimits = {} } = merged
  const rates = new Map<string, string | RateFunction>([[called('defaultRate'), defaultRate]])
  for (const [prefix, rate] of Object.entries(rateLimits)) rates.set(calledPrefix(called('rateLimits'), prefix), rate)
  for (const [setting, rate] of rates) {
    const fields = { ...middleware, rate: typeof rate === 'string' ? parseRate(rate) : rate }
    refuseContradictions(fields, { ...merged, rate }, (name) => (name === 'rate' ? setting : called(name)))
  }
  if (leaseMs !== undefined) requireSettle(backend, called('lease'), merged.lease, 'leave lease out')
  if (algorithm === 'concurrency') requireSettle(backend, called('algorithm'), algorithm)
  requireLists(called('allowList'), allowList, lists)
  requireLists(called('denyList'), denyList, lists)
  return { ...middleware, defaultRate, leaseMs, addresses: { allow: allowList, deny: denyList, named: lists } }
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
          `Setting "RATELIMIT_MIDDLEWARE" has the key ${JSON.stringify(key)}, which ${doesNotExist(key, [...KEYS.keys()])}`,
        )
      }
      return [option, value]
    }),
  )
}

function calledPrefix(called: string, prefix: string): string {
  return `${called}[${JSON.stringify(prefix)}]`
}

function validateRates(rates: Record<string, string>, called: string): void {
  for (const [prefix, rate] of Object.entries(rates)) {
    validatePrefix(called, prefix)
    RATE.parse(rate, calledPrefix(called, prefix))
  }
}

function validatePrefixes(prefixes: string[], called: string): void {
  for (const prefix of prefixes) validatePrefix(called, prefix)
}

function validatePrefix(called: string, prefix: string): void {
  if (prefix.startsWith('/')) return
  throw new InvalidSettingError(`Setting "${called}" has the path ${shown(prefix)}: begin it with "/"`)
}
