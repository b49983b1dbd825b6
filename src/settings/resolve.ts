import { ALERT_SETTINGS, alertSettingsFrom } from '../alerts/alert-settings.js'
import { InvalidSettingError } from '../errors.js'
import { privacyFrom } from '../privacy/privacy-settings.js'
import { SECOND_MS } from '../time/clock.js'
import { resolveMiddleware } from './middleware.js'
import type { RateLimitOptions } from './options.js'
import { resolveSchedule } from './schedule.js'
import { parseSettings, validateSettings, withoutUndefined } from './setting.js'
import { OWN_SETTINGS, optionsFromEnvironment, SETTINGS, variableFor } from './table.js'

/** All settings, validated and with their defaults. */
export type Settings = ReturnType<typeof resolveSettings>

/**
 * Resolves the settings: the option, else the environment variable, else the default.
 *
 * @throws InvalidSettingError for the first invalid or unknown setting; it names the setting, its value and the allowed
 * values
 */
export function resolveSettings(options: RateLimitOptions, environment: NodeJS.ProcessEnv) {
  validateSettings(SETTINGS, options, (name) => name)
  const fromEnvironment = optionsFromEnvironment(environment)
  validateSettings(SETTINGS, fromEnvironment, variableFor)
  const own = withoutUndefined(options)
  const given: RateLimitOptions = { ...fromEnvironment, ...own }
  const called = (name: string) => (name in own ? name : variableFor(name))
  const { ruleCacheTimeout, ...settings } = parseSettings(OWN_SETTINGS, given, called)
  if (settings.hashHeaderKeys && settings.hashSecret === undefined) {
    throw new InvalidSettingError('Setting "hashHeaderKeys" is true without "hashSecret": give RATELIMIT_HASH_SECRET')
  }
  const privacy = privacyFrom(settings, called)
  if (settings.eventSpool !== undefined && settings.logEvents === false) {
    throw new InvalidSettingError(
      `Setting "eventSpool" is ${JSON.stringify(settings.eventSpool)}, and "logEvents" is false: give logEvents: true or 'blocked', or leave out eventSpool`,
    )
  }
  const middleware = resolveMiddleware(options.middleware ?? {}, fromEnvironment.middleware ?? {})
  if (middleware.backend === 'redis' && settings.redis === undefined) {
    throw new InvalidSettingError(
      'Setting "middleware.backend" is "redis" without "redis": give that option, or RATELIMIT_REDIS_URL, such as redis://127.0.0.1:6379',
    )
  }
  const alerts = alertSettingsFrom(parseSettings(ALERT_SETTINGS, given, called), called)
  return {
    ...settings,
    ruleCacheTimeoutMs: ruleCacheTimeout * SECOND_MS,
    middleware,
    alerts,
    schedule: resolveSchedule(settings.schedule, alerts),
    privacy,
    /** The secret of header values; undefined where they are logged and counted as they are. */
    hashSecret: settings.hashHeaderKeys ? settings.hashSecret : undefined,
  }
}
