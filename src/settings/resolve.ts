import { ALERT_SETTINGS, type AlertSettingOptions, alertSettingsFrom } from '../alerts/alert-settings.js'
import { DEFAULT_SCHEMA, validateDatabaseUrl } from '../db/database-url.js'
import { type RedisClient, validateRedis } from '../db/redis.js'
import { NAMESPACE, NAMESPACE_ALLOWED } from '../db/storable.js'
import { InvalidSettingError } from '../errors.js'
import { Type } from '../generated/typebox.js'
import { HEADER_VARIANTS } from '../http/headers.js'
import { STORE_ERROR_ACTIONS } from '../limiter/fallback.js'
import { PRIVACY_SETTINGS, privacyFrom } from '../privacy/privacy-settings.js'
import { type Clock, LAST_MOMENT_MS, SECOND_MS, systemClock } from '../time/clock.js'
import { findVariable, variableFor } from './environment.js'
import { resolveMetrics } from './metrics.js'
import { readMiddleware, resolveMiddleware } from './middleware.js'
import type { RateLimitOptions } from './options.js'
import { resolveSchedule } from './schedule.js'
import {
  type AnySetting,
  Callback,
  choiceFrom,
  FLAG,
  integerFrom,
  numberFrom,
  parseSettings,
  Reference,
  readFlag,
  type SettingTable,
  shown,
  validatedBy,
  validateSettings,
  withoutUndefined,
} from './setting.js'

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

const Text = Type.String({ minLength: 1, maxLength: 2000 })

/** The settings without those of alerts. */
export const OWN_SETTINGS = {
  ...PRIVACY_SETTINGS,
  enabled: { ...FLAG, default: true },
  logEvents: {
    schema: Type.Union([Type.Boolean(), Type.Literal('blocked')]),
    allowed: "true, false or 'blocked'",
    default: false,
    read: readFlag,
  },
  useDynamicRules: { ...FLAG, default: false },
  ruleCacheTimeout: { ...numberFrom(0, 86_400, 'seconds'), default: 60 },
  middleware: { schema: Reference, allowed: 'an object', read: readMiddleware },
  onStoreError: { ...choiceFrom(STORE_ERROR_ACTIONS), default: 'local' },
  database: {
    schema: Type.Union([Text, Reference, Callback]),
    allowed: 'a URL or a client made by createRateLimitClient',
    parse: validatedBy((database: string | object, called) => {
      if (typeof database === 'string') validateDatabaseUrl(database, called)
    }),
  },
  redis: {
    schema: Type.Union([Text, Reference]),
    allowed: 'a URL such as redis://127.0.0.1:6379, or a client or cluster of ioredis',
    parse: validatedBy((redis: string | RedisClient, called) => validateRedis(redis, called)),
  },
  schema: {
    schema: Type.String({ pattern: '^[A-Za-z_][A-Za-z0-9_]{0,62}$' }),
    allowed: 'a name of letters, digits and _, at most 63',
    default: DEFAULT_SCHEMA,
  },
  namespace: { schema: Type.String({ pattern: NAMESPACE.source }), allowed: NAMESPACE_ALLOWED },
  hashHeaderKeys: { ...FLAG, default: false },
  user: { schema: Callback, allowed: 'a function of the request' },
  skip: { schema: Callback, allowed: 'a function of the request that answers true or false' },
  onRefused: { schema: Callback, allowed: 'a function of a request and its decision' },
  hook: { schema: Type.Enum(['onRequest', 'preHandler']), allowed: 'onRequest or preHandler', default: 'onRequest' },
  headers: { ...choiceFrom(HEADER_VARIANTS), default: 'legacy' },
  // 500 ms: longer than a busy database takes, shorter than a client waits.
  storeTimeoutMs: { ...integerFrom(1, 60_000, 'milliseconds'), default: 500 },
  // Some seconds of heavy traffic; a few megabytes, at most 20.
  eventBuffer: { ...integerFrom(1, 1_000_000), default: 20_000 },
  eventSpool: {
    schema: Text,
    allowed: 'a folder, such as ./ratelimit-events',
  },
  metrics: { schema: Reference, allowed: 'an object such as { prometheus: register }', parse: resolveMetrics },
  schedule: { schema: Reference, allowed: 'an object such as { alerts: "*/5 * * * *" }' },
  clock: { schema: Reference, allowed: 'an object with now()', default: systemClock, parse: validateClock },
} as const satisfies SettingTable<Omit<RateLimitOptions, keyof AlertSettingOptions>>

export const SETTINGS: SettingTable<RateLimitOptions> = { ...OWN_SETTINGS, ...ALERT_SETTINGS }

/** Reads options from environment variables. An empty variable counts as absent. */
function optionsFromEnvironment(environment: NodeJS.ProcessEnv): RateLimitOptions {
  return Object.fromEntries(
    Object.entries<AnySetting>(SETTINGS).flatMap(([option, { read }]) => {
      const variable = findVariable(option)
      const text = variable === undefined ? undefined : environment[variable]?.trim()
      return text ? [[option, read === undefined ? text : read(text)]] : []
    }),
  )
}

/** Validates one reading of the clock: a wrong time fits no window and no row. */
function validateClock(clock: Clock): Clock {
  if (typeof clock.now !== 'function') {
    throw new InvalidSettingError('Setting "clock" has no function "now": give an object such as { now: Date.now }')
  }
  const nowMs: unknown = clock.now()
  if (typeof nowMs === 'number' && nowMs >= 0 && nowMs <= LAST_MOMENT_MS) return clock
  throw new InvalidSettingError(
    `Setting "clock" answers ${shown(nowMs)}: give an object whose "now" answers milliseconds since the epoch, as Date.now does`,
  )
}
