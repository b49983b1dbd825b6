import type { AddressPrivacy } from '../../clients/address-privacy.js'
import {
  headerSecret,
  PRIVACY_SETTINGS,
  type PrivacySettingOptions,
  privacyFrom,
} from '../../clients/privacy-settings.js'
import { VALIDATORS } from '../../generated/validators.js'
import { InvalidSettingError } from '../../ground/errors.js'
import {
  ensure,
  FLAG,
  parseSettings,
  readEnvironment,
  type SettingTable,
  shown,
  validateSettings,
  withoutUndefined,
} from '../../ground/setting.js'
import { decideWithoutStore } from '../fallback.js'
import type { Store } from '../stores/store.js'
import type { CountingSettings } from './counting.js'
import type { CountingOptions } from './counting-options.js'
import {
  type Backend,
  COUNTING_SETTINGS,
  isStore,
  LEASE,
  requireSettle,
  validateBackend,
  validateStore,
} from './counting-settings.js'
import { COUNTING_VARIABLES, parseMiddlewareVariable } from './variables.js'

/** Receives failures of the store, and their end, as `(details, message)`: a logger of pino, or `app.log`. */
export interface LimiterLog {
  error(details: object, message: string): void
  warn(details: object, message: string): void
  info(details: object, message: string): void
}

/**
 * The options of `createLimiter`. An absent option is read from its environment variable.
 *
 * Counters are in what is given of `redis`, `database` and `store`, of which one may be given; else in what the environment
 * names, as for the plugin; else in memory.
 */
export interface RateLimiterOptions extends CountingOptions, PrivacySettingOptions {
  /** A store of the host's own, which stays open. */
  store?: Store | undefined
  /**
   * The time for which a process may use a share of a busy client's limit without asking the store: `100ms` to `2s`; off
   * by default. For limits of requests with one fixed window, no calendar month; all others ask the store.
   */
  lease?: string | undefined
  /** Whether clients identified by a header or a cookie are counted by an HMAC of it, as by apps with this option. */
  hashHeaderKeys?: boolean | undefined
  /** Receives failures of the store, as `(details, message)`; the console by default. */
  log?: LimiterLog | undefined
}

/** The settings of a limiter, validated and with their defaults. */
export interface RateLimiterSettings extends CountingSettings {
  readonly database: string | object | undefined
  readonly schema: string
  readonly ipv6Subnet: number
  readonly privacy: AddressPrivacy | undefined
  /** The secret of header values; undefined where they are counted as they are. */
  readonly hashSecret: string | undefined
  readonly log: LimiterLog
}

export const CONSOLE: LimiterLog = {
  error: (details, message) => console.error(message, details),
  warn: (details, message) => console.warn(message, details),
  info: (_details, message) => console.info(message),
}

export const LIMITER_SETTINGS = {
  ...COUNTING_SETTINGS,
  store: {
    ...VALIDATORS.reference,
    allowed: 'a Store',
    parse(store: Store, called: string): Store {
      if (isStore(store)) return validateStore(store, called)
      throw new InvalidSettingError(
        `Setting "${called}" is ${shown(store)}, which is not a valid Store: give one with check and concurrency`,
      )
    },
  },
  lease: LEASE,
  ...PRIVACY_SETTINGS,
  hashHeaderKeys: { ...FLAG, default: false },
  log: {
    ...VALIDATORS.reference,
    allowed: 'an object with error, warn and info',
    default: CONSOLE,
    parse: ensure(
      (log: LimiterLog) => [log.error, log.warn, log.info].every((method) => typeof method === 'function'),
      'is not a logger: give an object with error, warn and info',
    ),
  },
} as const satisfies SettingTable<RateLimiterOptions>

/** What answers where limiting is turned off. */
const NO_COUNTERS: Store = {
  concurrency: Number.POSITIVE_INFINITY,
  check: (checks) => checks.map((check) => decideWithoutStore(true, check)),
  settle: () => undefined,
  reset: () => undefined,
  resetAll: () => undefined,
  close: () => undefined,
}

const variableFor = (option: string) =>
  Object.hasOwn(COUNTING_VARIABLES, option)
    ? COUNTING_VARIABLES[option as keyof typeof COUNTING_VARIABLES].variable
    : undefined

/**
 * Resolves the settings: the option, else the environment variable, else the default.
 *
 * @throws InvalidSettingError for the first invalid or unknown setting; it names the setting, its value and the allowed
 * values
 */
export function resolveLimiter(options: RateLimiterOptions, environment: NodeJS.ProcessEnv): RateLimiterSettings {
  if (typeof options !== 'object' || options === null) {
    throw new InvalidSettingError(
      `createLimiter() was given ${shown(options)}: give options such as { redis: 'redis://127.0.0.1:6379' }`,
    )
  }
  validateSettings(LIMITER_SETTINGS, options, (name) => name)
  const fromEnvironment = readEnvironment(LIMITER_SETTINGS, variableFor, environment)
  const nameInEnvironment = (name: string) => variableFor(name) ?? name
  validateSettings(LIMITER_SETTINGS, fromEnvironment, nameInEnvironment)
  const inCode = withoutUndefined(options)
  const merged: RateLimiterOptions = { ...fromEnvironment, ...inCode }
  const called = (name: string) => (name in inCode ? name : nameInEnvironment(name))
  const { enabled, store, lease, hashHeaderKeys, hashSecret, ...settings } = parseSettings(
    LIMITER_SETTINGS,
    merged,
    called,
  )
  const middleware = parseMiddlewareVariable(environment[COUNTING_VARIABLES.middleware.variable]?.trim() || '{}')
  const backend = store ?? backendInCode(inCode) ?? backendInEnvironment(middleware, fromEnvironment)
  if (backend === 'redis' && settings.redis === undefined) {
    throw new InvalidSettingError(
      'Setting "RATELIMIT_MIDDLEWARE.BACKEND" is "redis" without "redis": give that option, or RATELIMIT_REDIS_URL, such as redis://127.0.0.1:6379',
    )
  }
  const shared = lease ?? leaseInEnvironment(middleware)
  if (shared !== undefined) requireSettle(backend, 'lease', options.lease ?? middleware.LEASE, 'leave lease out')
  return {
    ...settings,
    backend: enabled ? backend : NO_COUNTERS,
    leaseMs: enabled ? shared : undefined,
    privacy: privacyFrom({ ...settings, hashSecret }, called),
    hashSecret: headerSecret(hashHeaderKeys, hashSecret),
  }
}

/** @throws InvalidSettingError where several are given */
function backendInCode(inCode: Partial<RateLimiterOptions>): Backend | undefined {
  const given = (['store', 'redis', 'database'] as const).filter((name) => name in inCode)
  if (given.length > 1) {
    throw new InvalidSettingError(
      `Settings ${given.map((name) => `"${name}"`).join(' and ')} are given: give one of them`,
    )
  }
  return given[0] === 'store' ? inCode.store : given[0]
}

function backendInEnvironment(
  middleware: Readonly<Record<string, unknown>>,
  { redis, database }: Readonly<Record<string, unknown>>,
): Backend {
  if (middleware.BACKEND !== undefined) return validateBackend(middleware.BACKEND, 'RATELIMIT_MIDDLEWARE.BACKEND')
  if (redis !== undefined && database !== undefined) {
    throw new InvalidSettingError(
      'RATELIMIT_REDIS_URL and RATELIMIT_DATABASE_URL are both set: give redis, database or store, or BACKEND in RATELIMIT_MIDDLEWARE, such as {"BACKEND":"redis"}',
    )
  }
  return redis !== undefined ? 'redis' : database !== undefined ? 'database' : 'memory'
}

function leaseInEnvironment({ LEASE: lease }: Readonly<Record<string, unknown>>): number | undefined {
  if (lease === undefined) return undefined
  const called = (name: string) => `RATELIMIT_MIDDLEWARE.${name.toUpperCase()}`
  validateSettings({ lease: LEASE }, { lease }, called)
  return LEASE.parse(String(lease), called('lease'))
}
