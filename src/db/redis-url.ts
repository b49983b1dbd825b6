import { InvalidSettingError } from '../errors.js'
import { readableUrl } from '../readable-url.js'
import { redactUrl } from './database-url.js'

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
  const parsed = [first, ...others].map((url) => (REDIS_URL.test(url) ? readableUrl(url) : undefined))
  if (parsed.includes(undefined)) {
    throw new InvalidSettingError(
      `Setting "${setting}" is ${JSON.stringify(redactUrl(text))}: give redis://user:password@host:6379 (rediss:// with TLS; percent-encode # / ? % @ in the name and the password; for a cluster several of them with commas between, or one with ?cluster=true)`,
    )
  }
  const saysCluster = parsed[0]?.searchParams.get('cluster') === 'true'
  return { urls: [first, ...others], isCluster: saysCluster || others.length > 0 }
}
