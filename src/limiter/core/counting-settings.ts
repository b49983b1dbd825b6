/** The settings of where and how is counted, described once. */
import { DEFAULT_SCHEMA, validateDatabaseUrl } from '../../database/database-url.js'
import { type RedisClient, validateRedis } from '../../database/redis-client.js'
import { VALIDATORS } from '../../generated/validators.js'
import { InvalidSettingError } from '../../ground/errors.js'
import { explain, FLAG, type SettingTable, shown, validatedBy } from '../../ground/setting.js'
import { type Clock, LAST_MOMENT_MS, SECOND_MS, systemClock } from '../../ground/time/clock.js'
import type { Store } from '../stores/store.js'
import type { CountingOptions } from './counting-options.js'

const MIN_LEASE_MS = 100
/** The time in which a reset reaches all processes. */
const MAX_LEASE_MS = 2_000

export const COUNTING_SETTINGS = {
  enabled: { ...FLAG, default: true },
  onStoreError: { ...VALIDATORS.storeErrorAction, default: 'local' },
  database: {
    ...VALIDATORS.textOrReference,
    allowed: 'a URL or a client made by createRateLimitClient',
    isSecret: true,
    parse: validatedBy((database: string | object, called) => {
      if (typeof database === 'string') validateDatabaseUrl(database, called)
    }),
  },
  redis: {
    ...VALIDATORS.textOrReference,
    allowed: 'a URL such as redis://127.0.0.1:6379, or a client or cluster of ioredis',
    isSecret: true,
    parse: validatedBy((redis: string | RedisClient, called) => validateRedis(redis, called)),
  },
  schema: { ...VALIDATORS.schemaName, default: DEFAULT_SCHEMA },
  namespace: VALIDATORS.namespace,
  // 500 ms: longer than a busy database takes, shorter than a client waits.
  storeTimeoutMs: { ...VALIDATORS.storeTimeout, default: 500 },
  clock: { ...VALIDATORS.reference, allowed: 'an object with now()', default: systemClock, parse: validateClock },
} as const satisfies SettingTable<CountingOptions>

/** The setting of the time for which a process may use a share; its value is in milliseconds. */
export const LEASE = { ...VALIDATORS.text, allowed: 'a time such as 1s, 100ms to 2s', parse: parseLease } as const

/** @returns milliseconds */
function parseLease(lease: string, called: string): number {
  const [, digits, unit] = /^(\d{1,4})(ms|s)$/.exec(lease) ?? []
  const leaseMs = Number(digits) * (unit === 's' ? SECOND_MS : 1)
  if (leaseMs >= MIN_LEASE_MS && leaseMs <= MAX_LEASE_MS) return leaseMs
  throw new InvalidSettingError(`Setting "${called}" is ${shown(lease)}: give a time such as 1s, 100ms to 2s`)
}

/** Where counters are: in this process, in a database, in Redis, or in a store of the host's. */
export type Backend = 'database' | 'memory' | 'redis' | Store

/** @throws InvalidSettingError for what is not one */
export function validateBackend(backend: unknown, called: string): Backend {
  if (backend === 'database' || backend === 'memory' || backend === 'redis') return backend
  if (isStore(backend)) return validateStore(backend, called)
  throw new InvalidSettingError(
    `Setting "${called}" is ${shown(backend)}, which is not a valid backend: give database, memory, redis, or a Store`,
  )
}

/** @throws InvalidSettingError for a number of batches with which none would ever be sent */
export function validateStore(store: Store, called: string): Store {
  if (store.concurrency >= 1) return store
  throw new InvalidSettingError(
    `Setting "${called}" is a Store with the concurrency ${store.concurrency}: give 1 or more, or Infinity where it answers at once`,
  )
}

export function isStore(value: unknown): value is Store {
  if (typeof value !== 'object' || value === null) return false
  return 'check' in value && typeof value.check === 'function' && typeof Reflect.get(value, 'concurrency') === 'number'
}

/** Returns whether a store can give back what checks used. The stores of this package can. */
export function canSettle(backend: Backend): boolean {
  return typeof backend === 'string' || backend.settle !== undefined
}

/** @throws InvalidSettingError for a setting that needs a store that can give back */
export function requireSettle(
  backend: Backend,
  called: string,
  value: unknown,
  remedy = 'give another algorithm',
): void {
  if (canSettle(backend)) return
  throw new InvalidSettingError(
    `Setting "${called}" is ${shown(value)}, but the Store given as backend has no method settle: add it, or ${remedy}`,
  )
}

/** @throws InvalidSettingError where the store of a host lacks a method */
export function requireMethod(store: object, method: 'settle' | 'resetAll', what: string): void {
  if (method in store && Reflect.get(store, method) !== undefined) return
  throw new InvalidSettingError(`${what}, but the Store of the host has no method ${method}: add it`)
}

/** Validates one reading of the clock: a wrong time fits no window and no row. */
function validateClock(clock: Clock): Clock {
  if (typeof clock.now !== 'function') {
    throw new InvalidSettingError('Setting "clock" has no function "now": give an object such as { now: Date.now }')
  }
  const nowMs: unknown = explain('clock', clock, () => clock.now())
  if (typeof nowMs === 'number' && nowMs >= 0 && nowMs <= LAST_MOMENT_MS) return clock
  throw new InvalidSettingError(
    `Setting "clock" answers ${shown(nowMs)}: give an object whose "now" answers milliseconds since the epoch, as Date.now does`,
  )
}
