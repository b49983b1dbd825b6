import { InvalidSettingError } from './errors.js'
import { Type } from './generated/typebox.js'
import { checkCost } from './http/cost.js'
import type { RouteLimitOptions } from './http/route-limit.js'
import { ALGORITHMS } from './limiter/algorithm.js'
import { parseRate } from './limiter/rate.js'
import { checkAlgorithm } from './rules/field-checks.js'
import { type ClientKind, parseClientKind } from './rules/rule.js'
import { Callback, checkFields, explain, type Fields, Flag, shown } from './settings-check.js'

const FIELDS = {
  rate: [Type.Union([Type.String(), Callback]), 'a rate such as 5/m, or a function of the request'],
  key: [Type.Union([Type.String(), Callback]), 'ip, user, header:<Name>, or a function of the request'],
  algorithm: [Type.String(), ALGORITHMS.join(', ')],
  block: [Flag, 'true or false'],
  cost: [Type.Union([Type.Number(), Callback]), 'an integer, or a function of the request'],
  name: [Type.String({ pattern: '^[\\x20-\\x7e]{1,100}$' }), '1 to 100 printable ASCII characters'],
} as const satisfies Fields

/**
 * Reads the options of a limit for single routes.
 *
 * @throws InvalidSettingError for the first one that is wrong or unknown
 */
export function resolveRouteLimit(options: RouteLimitOptions) {
  if (typeof options !== 'object' || options === null) {
    throw new InvalidSettingError(`limit() was given ${shown(options)}: give options such as { rate: '5/m' }`)
  }
  const called = (name: string) => `limit.${name}`
  checkFields(options, FIELDS, called)
  const { rate, key = 'ip', algorithm, block = true, cost = 1, name = '' } = options
  if (rate === undefined) throw new InvalidSettingError('Setting "limit.rate" is missing: give a rate such as 5/m')
  if (typeof rate === 'string') explain(called('rate'), rate, () => parseRate(rate))
  if (typeof cost === 'number') checkCost(called('cost'), cost)
  return {
    rate,
    block,
    cost,
    name,
    key: typeof key === 'string' ? explain(called('key'), key, (): ClientKind => parseClientKind(key)) : key,
    algorithm: explain(called('algorithm'), algorithm, () => checkAlgorithm(algorithm ?? 'fixed_window')),
  }
}
