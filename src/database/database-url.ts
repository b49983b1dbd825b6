import { fileURLToPath } from 'node:url'
import { InvalidSettingError } from '../ground/errors.js'
import { quotedScheme, serverUrl } from '../ground/readable-url.js'

export const DEFAULT_DATABASE_URL = 'file:./ratelimit.db'
export const DEFAULT_SCHEMA = 'fastify_smart_ratelimit'

/** Returns a valid URL for messages, without name, password and parameters, of which one may be a password too. */
export function redactUrl(url: string): string {
  return url.startsWith('file:') ? url : url.replace(/\/\/.*@/s, '//***@').replace(/\?.*/s, '')
}

/** Returns the path of a `file:` URL: relative to the working directory (`file:./a.db`), absolute, or `file:///…`. */
export function sqlitePath(url: string): string {
  return url.startsWith('file://') ? fileURLToPath(url) : url.slice('file:'.length)
}

/**
 * @param setting the name of the setting that holds the URL
 * @throws InvalidSettingError when the URL is not of a database that this package supports
 */
export function validateDatabaseUrl(url: string, setting = 'database'): void {
  if (/^postgres(?:ql)?:\/\//.test(url)) {
    if (serverUrl(url) !== undefined) return
    throw new InvalidSettingError(
      `Setting "${setting}" is ${quotedScheme(url)}, which is not a valid URL: check the port, and percent-encode # / ? % @ in the name, the password and what follows the host`,
    )
  }
  if (!/^file:./.test(url) || /^file:(?::memory:|\/\/[^/])/.test(url)) {
    throw new InvalidSettingError(
      `Setting "${setting}" is ${quotedScheme(url)}: give file:./ratelimit.db (SQLite, kept in a file) or postgresql://user:password@host:5432/name`,
    )
  }
  if (url.includes('?') || /^file:\/\/.*#/s.test(url)) {
    throw new InvalidSettingError(
      `Setting "${setting}" has parameters, of which a file takes none: leave out the ? and what follows (in file:///… write %3F and %23 for ? and # in the name of a file)`,
    )
  }
}
