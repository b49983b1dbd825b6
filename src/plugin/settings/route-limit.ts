import { VALIDATORS } from '../../generated/validators.js'
import { InvalidSettingError } from '../../ground/errors.js'
import type { SettingTable } from '../../ground/setting.js'
import type { RouteLimitOptions } from '../../http/routes/route-limit.js'
import { refuseContradictions } from '../../limiter/limit/contradictions.js'
import { limitSettings } from '../../limiter/limit/limit-fields.js'
import { LIMIT_NAME, resolveLimit } from '../../limiter/limit/resolve-limit.js'
import { MIDDLEWARE } from './middleware.js'

export const ROUTE_LIMIT = {
  ...limitSettings('route'),
  name: { ...LIMIT_NAME, default: '' },
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
  const called = (name: string) => `${setting}.${name}`
  const limit = resolveLimit(ROUTE_LIMIT, options, ['rate'], called)
  if (limit.shared && limit.name === '') {
    throw new InvalidSettingError(`Setting "${called('shared')}" is true without a name: give a name such as exports`)
  }
  refuseContradictions(limit, options, called)
  return { ...limit, rate: options.rate }
}
