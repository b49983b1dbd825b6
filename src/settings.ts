import { ALERT_FIELDS, type AlertSettingOptions, resolveAlertSettings } from './alerts/alert-settings.js'
import { type Clock, LAST_MOMENT_MS, SECOND_MS, systemClock } from './clock.js'
import { checkDatabaseUrl, DEFAULT_SCHEMA } from './db/database.js'
import { NAMESPACE, NAMESPACE_ALLOWED } from './db/namespace.js'
import { checkRedis } from './db/redis.js'
import { InvalidSettingError } from './errors.js'
import { Type } from './generated/typebox.js'
import { parseAddressList } from './http/client-address.js'
import { HEADER_VARIANTS } from './http/headers.js'
import { DEFAULT_RATE } from './http/limits.js'
import { ALGORITHMS } from './limiter/algorithm.js'
import { STORE_ERROR_ACTIONS } from './limiter/fallback.js'
import { parseRate } from './limiter/rate.js'
import type { MiddlewareOptions, RateLimitOptions } from './options.js'
import { checkAlgorithm } from './rules/field-checks.js'
import { type ClientKind, parseClientKind } from './rules/rule.js'
import { Callback, checkFields, explain, Flag, shown, withoutUndefined } from './settings-check.js'
import { middlewareVariableOf, optionsFromEnvironment, variableOf } from './settings-environment.js'
import { resolveMetrics } from './settings-metrics.js'
import { resolveSchedule } from './settings-schedule.js'
import type { Store } from './stores/store.js'

const Text = Type.String({ minLength: 1, maxLength: 2000 })
const Texts = Type.Array(Type.String())
const Reference = Type.Object({})

/** What values are allowed, and how that is said. */
const FIELDS = {
  enabled: [Flag, 'true or false'],
  logEvents: [Type.Union([Flag, Type.Literal('blocked')]), "true, false or 'blocked'"],
  useDynamicRules: [Flag, 'true or false'],
  ruleCacheTimeout: [Type.Number({ minimum: 0, maximum: 86_400 }), 'seconds, 0 to 86400'],
  middleware: [Reference, 'an object'],
  onStoreError: [Type.Enum([...STORE_ERROR_ACTIONS]), STORE_ERROR_ACTIONS.join(', ')],
  ...ALERT_FIELDS,
  database: [Type.Union([Text, Reference, Callback]), 'a URL or a client made by createRateLimitClient'],
  redis: [Type.Union([Text, Reference]), 'a URL such as redis://127.0.0.1:6379, or a client or cluster of ioredis'],
  schema: [Type.String({ pattern: '^[A-Za-z_][A-Za-z0-9_]{0,62}$' }), 'a name of letters, digits and _, at most 63'],
  namespace: [Type.String({ pattern: NAMESPACE.source }), NAMESPACE_ALLOWED],
  hashSecret: [Type.String({ minLength: 16 }), 'a text of at least 16 characters'],
  hashHeaderKeys: [Flag, 'true or false'],
  user: [Callback, 'a function of the request'],
  hook: [Type.Enum(['onRequest', 'preHandler']), 'onRequest or preHandler'],
  headers: [Type.Enum([...HEADER_VARIANTS]), HEADER_VARIANTS.join(', ')],
  ipv6Subnet: [Type.Integer({ minimum: 1, maximum: 128 }), 'an integer, 1 to 128'],
  storeTimeoutMs: [Type.Integer({ minimum: 1, maximum: 60_000 }), 'milliseconds, 1 to 60000'],
  eventBuffer: [Type.Integer({ minimum: 1, maximum: 1_000_000 }), 'an integer, 1 to 1000000'],
  metrics: [Reference, 'an object such as { prometheus: register }'],
  schedule: [Reference, 'an object such as { alerts: "*/5 * * * *" }'],
  clock: [Reference, 'an object with now()'],
} as const
const MIDDLEWARE_FIELDS = {
  backend: [Type.Union([Text, Reference]), 'database, memory, redis, or a Store'],
  defaultRate: [Type.Union([Type.String(), Callback]), 'a rate such as 100/m, or a function of the request'],
  rateLimits: [Type.Record(Type.String(), Type.String()), 'an object of rates by path prefix'],
  algorithm: [Type.String(), ALGORITHMS.join(', ')],
  key: [Type.Union([Type.String(), Callback]), 'ip, user, header:<Name>, or a function of the request'],
  block: [Flag, 'true or false'],
  skipPaths: [Texts, 'a list of path prefixes'],
  allowList: [Texts, 'a list of addresses and networks'],
  denyList: [Texts, 'a list of addresses and networks'],
} as const

/** Every setting, checked and with its default. */
export type Settings = ReturnType<typeof resolveSettings>

/**
 * Reads the settings: the option, else the environment variable, else the default.
 *
 * @throws InvalidSettingError for the first setting that is wrong or unknown, naming it, its value and what is allowed
 */
export function resolveSettings(options: RateLimitOptions, environment: NodeJS.ProcessEnv) {
  checkFields(options, FIELDS, (name) => name)
  const fromEnvironment = optionsFromEnvironment(environment)
  checkFields(fromEnvironment, FIELDS, variableOf)
  const given = { ...fromEnvironment, ...withoutUndefined(options) }
  const called = (name: string) => (name in withoutUndefined(options) ? name : variableOf(name))
  if (typeof given.database === 'string') {
    checkDatabaseUrl(given.database, options.database === undefined ? variableOf('database') : 'database')
  }
  if (given.redis !== undefined) checkRedis(given.redis, options.redis === undefined ? variableOf('redis') : 'redis')
  if (given.clock !== undefined) checkClock(given.clock)
  if (given.hashHeaderKeys === true && given.hashSecret === undefined) {
    throw new InvalidSettingError('Setting "hashHeaderKeys" is true without "hashSecret": give RATELIMIT_HASH_SECRET')
  }
  const middleware = resolveMiddleware(options.middleware ?? {}, fromEnvironment.middleware ?? {})
  if (middleware.backend === 'redis' && given.redis === undefined) {
    throw new InvalidSettingError(
      'Setting "middleware.backend" is "redis" without "redis": give that option, or RATELIMIT_REDIS_URL, such as redis://127.0.0.1:6379',
    )
  }
  const alerts = resolveAlertSettings(alertOptionsOf(given), called)
  return {
    enabled: given.enabled ?? true,
    logEvents: given.logEvents ?? false,
    useDynamicRules: given.useDynamicRules ?? false,
    ruleCacheTimeoutMs: (given.ruleCacheTimeout ?? 60) * SECOND_MS,
    middleware,
    onStoreError: given.onStoreError ?? 'local',
    alerts,
    schedule: resolveSchedule(given.schedule, alerts),
    database: given.database,
    redis: given.redis,
    schema: given.schema ?? DEFAULT_SCHEMA,
    namespace: given.namespace,
    hashSecret: given.hashHeaderKeys === true ? given.hashSecret : undefined,
    user: given.user,
    hook: given.hook ?? 'onRequest',
    headers: given.headers ?? 'legacy',
    ipv6Subnet: given.ipv6Subnet ?? 64,
    // Half a second: longer than a busy database takes, shorter than a client waits.
    storeTimeoutMs: given.storeTimeoutMs ?? 500,
    // Some seconds of heavy traffic; a few megabytes, at most 10.
    eventBuffer: given.eventBuffer ?? 10_000,
    metrics: resolveMetrics(given.metrics),
    clock: given.clock ?? systemClock,
  }
}

function alertOptionsOf(given: RateLimitOptions): AlertSettingOptions {
  return Object.fromEntries(Object.entries(given).filter(([name]) => Object.hasOwn(ALERT_FIELDS, name)))
}

function resolveMiddleware(options: MiddlewareOptions, fromEnvironment: MiddlewareOptions) {
  const given: MiddlewareOptions = { ...withoutUndefined(fromEnvironment), ...withoutUndefined(options) }
  const called = (name: string) =>
    name in withoutUndefined(options) ? `middleware.${name}` : middlewareVariableOf(name)
  checkFields(given, MIDDLEWARE_FIELDS, called)
  const { backend = 'database', defaultRate = DEFAULT_RATE, rateLimits = {}, key = 'ip' } = given
  if (typeof defaultRate === 'string') explain(called('defaultRate'), defaultRate, () => parseRate(defaultRate))
  for (const [prefix, rate] of Object.entries(rateLimits)) {
    checkPrefix(called('rateLimits'), prefix)
    explain(`${called('rateLimits')}[${JSON.stringify(prefix)}]`, rate, () => parseRate(rate))
  }
  for (const prefix of given.skipPaths ?? []) checkPrefix(called('skipPaths'), prefix)
  return {
    backend: checkBackend(called('backend'), backend),
    defaultRate,
    rateLimits,
    algorithm: explain(called('algorithm'), given.algorithm, () => checkAlgorithm(given.algorithm ?? 'fixed_window')),
    key: typeof key === 'string' ? explain(called('key'), key, (): ClientKind => parseClientKind(key)) : key,
    block: given.block ?? true,
    skipPaths: given.skipPaths ?? [],
    lists: {
      allow: parseAddressList(called('allowList'), given.allowList ?? []),
      deny: parseAddressList(called('denyList'), given.denyList ?? []),
    },
  }
}

/** Checks one reading: a wrong time fits no window and no row. */
function checkClock(clock: Clock): void {
  if (typeof clock.now !== 'function') {
    throw new InvalidSettingError('Setting "clock" has no function "now": give an object such as { now: Date.now }')
  }
  const nowMs: unknown = clock.now()
  if (typeof nowMs === 'number' && nowMs >= 0 && nowMs <= LAST_MOMENT_MS) return
  throw new InvalidSettingError(
    `Setting "clock" answers ${shown(nowMs)}: give an object whose "now" answers milliseconds since the epoch, as Date.now does`,
  )
}

function checkBackend(setting: string, backend: string | Store): 'database' | 'memory' | 'redis' | Store {
  if (typeof backend === 'object') {
    if (typeof backend.check === 'function' && typeof backend.concurrency === 'number') return backend
  } else if (backend === 'database' || backend === 'memory' || backend === 'redis') {
    return backend
  }
  throw new InvalidSettingError(
    `Setting "${setting}" is ${shown(backend)}, which is no backend: give database, memory, redis, or a Store`,
  )
}

function checkPrefix(setting: string, prefix: string): void {
  if (prefix.startsWith('/')) return
  throw new InvalidSettingError(`Setting "${setting}" has the path ${shown(prefix)}: begin it with "/"`)
}
