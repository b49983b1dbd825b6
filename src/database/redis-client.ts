/** Clients of Redis, and the addresses of servers. */
import { InvalidSettingError } from '../ground/errors.js'
import { quotedScheme, serverUrl } from '../ground/readable-url.js'

/** The members of a Redis client that this package uses; a `Redis` and a `Cluster` of ioredis have them all. */
export interface RedisClient {
  readonly status: string
  readonly isCluster: boolean
  connect(): Promise<unknown>
  evalsha(sha: string, keyCount: number, ...keysAndArguments: (string | number)[]): Promise<unknown>
  eval(script: string, keyCount: number, ...keysAndArguments: (string | number)[]): Promise<unknown>
  get(key: string): Promise<unknown>
  incr(key: string): Promise<unknown>
  del(key: string): Promise<unknown>
  on(event: string, listener: (...values: unknown[]) => void): unknown
  off(event: string, listener: (...values: unknown[]) => void): unknown
}

const METHODS = [
  'connect',
  'evalsha',
  'eval',
  'get',
  'incr',
  'del',
  'on',
  'off',
] as const satisfies (keyof RedisClient)[]

/**
 * @param setting the name of the setting that holds it
 * @throws InvalidSettingError when a URL is not of Redis, or an object is not a client of ioredis
 */
export function validateRedis(redis: string | object, setting = 'redis'): void {
  if (typeof redis === 'string') parseRedisUrl(redis, setting)
  else if (!('status' in redis) || METHODS.some((name) => typeof Reflect.get(redis, name) !== 'function')) {
    throw new InvalidSettingError(
      `Setting "${setting}" is an object that is not a valid client of ioredis: give a URL such as redis://127.0.0.1:6379, or a Redis or Cluster of ioredis`,
    )
  }
}

/** The address of a Redis server or cluster. */
export interface RedisAddress {
  /** The seed nodes of a cluster, or the one server. */
  readonly urls: readonly [string, ...string[]]
  readonly isCluster: boolean
}

const REDIS_URL = /^rediss?:\/\/[^/]/
/** Matches a comma between two URLs, not one inside a password. */
const BETWEEN_URLS = /,\s*(?=rediss?:\/\/)/

/**
 * Parses `redis://user:password@host:6379/0` (`rediss://` with TLS). Several separated by commas, or one with
 * `?cluster=true`, are a cluster.
 *
 * @param setting the name of the setting that holds the URL
 * @throws InvalidSettingError
 */
export function parseRedisUrl(text: string, setting = 'redis'): RedisAddress {
  const [first = '', ...others] = text.split(BETWEEN_URLS)
  const parsed = [first, ...others].map((url) => (REDIS_URL.test(url) ? serverUrl(url) : undefined))
  if (parsed.includes(undefined)) {
    throw new InvalidSettingError(
      `Setting "${setting}" is ${quotedScheme(text)}: give redis://user:password@host:6379 (rediss:// with TLS; percent-encode # / ? % @ in the name and the password; for a cluster several of them with commas between, or one with ?cluster=true)`,
    )
  }
  const saysCluster = parsed[0]?.searchParams.get('cluster') === 'true'
  return { urls: [first, ...others], isCluster: saysCluster || others.length > 0 }
}
