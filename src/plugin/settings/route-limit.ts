import { VALIDATORS } from '../../generated/validators.js'
import { InvalidSettingError } from '../../ground/errors.js'
import {
  explain,
  parseSettings,
  type SettingTable,
  shown,
  validatedBy,
  validateSettings,
} from '../../ground/setting.js'
import type { RouteLimitOptions } from '../../http/routes/route-limit.js'
import { validateCost, validateCostUnder } from '../../limiter/cost.js'
import { validateLimitName } from '../../limiter/limit-name.js'
import {
  MIDDLEWARE,
  validateCounts,
  validateNotices,
  validateRate,
  validateUnit,
  validateWindows,
} from './middleware.js'

export const ROUTE_LIMIT = {
  rate: {
    ...VALIDATORS.textOrCallback,
    allowed: 'a rate such as 5/m, or a function of the request',
    parse: validateRate,
  },
  key: MIDDLEWARE.key,
  algorithm: MIDDLEWARE.algorithm,
  counts: MIDDLEWARE.counts,
  unit: MIDDLEWARE.unit,
  reserve: MIDDLEWARE.reserve,
  noticeAt: MIDDLEWARE.noticeAt,
  block: MIDDLEWARE.block,
  cost: {
    ...VALIDATORS.numberOrCallback,
    allowed: 'an integer, or a function of the request',
    default: 1,
    parse: (cost, called) => (typeof cost === 'number' ? validateCost(called, cost) : cost),
  },
  name: {
    ...VALIDATORS.limitName,
    default: '',
    parse: validatedBy((name: string, called) => explain(called, name, () => validateLimitName(name))),
  },
  shared: VALIDATORS.flag,
  allowList: MIDDLEWARE.allowList,
} as const satisfies SettingTable<RouteLimitOptions>

/**
 * Resolves the options of a limit for single routes.
 *
 * @param setting the beginning of the options' names in messages
 * @throws InvalidSettingError for the first invalid or unknown option
 */
export function resolveRouteLimit(options: RouteLimitOptions, setting = 'limit') {
  if (typeof options !== 'object' || options === null) {
    throw new InvalidSettingError(`limit() was given ${shown(options)}: give options such as { rate: '5/m' }`)
  }
  const called = (name: string) => `${setting}.${name}`
  validateSettings(ROUTE_LIMIT, options, called)
  if (options.rate === undefined) {
    throw new InvalidSettingError(`Setting "${called('rate')}" is missing: give a rate such as 5/m`)
  }
  const limit = parseSettings(ROUTE_LIMIT, options, called)
  if (limit.shared && limit.name === '') {
    throw new InvalidSettingError(`Setting "${called('shared')}" is true without a name: give a name such as exports`)
  }
  validateWindows(called('rate'), options.rate, limit.algorithm)
  validateCounts(called('counts'), options.counts, limit.algorithm, limit.counts)
  validateNotices(called('noticeAt'), options.noticeAt, limit.algorithm, limit.noticeAt)
  validateUnit(called, { ...limit, rate: options.rate })
  if (typeof options.rate === 'string' && typeof limit.cost === 'number') {
    validateCostUnder(called('cost'), limit.cost, called('rate'), options.rate)
  }
  return limit
}
