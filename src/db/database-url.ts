import { InvalidSettingError } from '../errors.js'
import { readableUrl } from '../readable-url.js'

export const DEFAULT_DATABASE_URL = 'file:./ratelimit.db'
export const DEFAULT_SCHEMA = 'fastify_smart_ratelimit'

/** Returns a URL without name and password, for messages; also a URL that is invalid because of its password. */
export function redactUrl(url: string): string {
  return url.replace(/^([a-z]+(?::\/{0,2}|\/{1,2}))?.*@/is, '$1***@').replace(/([?&]password=)[^&#]*/gi, '$1***')
}

/**
 * @param setting the name of the setting that holds the URL
 * @throws InvalidSettingError when the URL is not of a database that this package supports
 */
export function validateDatabaseUrl(url: string, setting = 'database'): void {
  if (/^postgres(?:ql)?:\/\//.test(url)) {
    if (readableUrl(url) !== undefined) return
    throw new InvalidSettingError(
      `Setting "${setting}" is ${JSON.stringify(redactUrl(url))}, which is no URL: check the port, and percent-encode # / ? % @ in the name and the password`,
    )
  }
  if (/^file:./.test(url) && !/^file:(?::memory:|\/\/[^/])/.test(url)) return
  throw new InvalidSettingError(
    `Setting "${setting}" is ${JSON.stringify(redactUrl(url))}: give file:./ratelimit.db (SQLite, kept in a file) or postgresql://user:password@host:5432/name`,
  )
}
