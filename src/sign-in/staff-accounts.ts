import { createHmac } from 'node:crypto'
import type { FastifyRequest } from 'fastify'
import { InvalidSettingError } from '../errors.js'
import { internalsFor } from '../internals.js'
import { findKnownBrowser, knownBrowserCookie } from './known-browser.js'
import { createDecoys, type PasswordHash, parsePasswordHash, verifyPassword } from './passwords.js'
import { endedSessionCookie, readSessionCookies, sessionCookie } from './session-cookie.js'
import { endSession, findSession, startSession } from './sessions.js'

export interface StaffAccountsOptions {
  /**
   * Password hashes by account name, as `ratelimit hash-password` or `hashPassword()` makes them. Another hash ends the
   * sessions of its account.
   */
  readonly accounts: Readonly<Record<string, string>>
  /** Signs the session cookies: 32 characters or more, the same in all processes. Another one ends all sessions. */
  readonly sessionSecret: string
  /**
   * The path below which browsers send the session; by default where the pages are mounted. Give it, as the browser
   * sees it, where a proxy rewrites paths.
   */
  readonly cookiePath?: string | undefined
}

/** Staff who sign in with a password. Sessions are stored in the database, so that all processes know them. */
export interface StaffAccounts {
  /** Returns the signed-in account, undefined for strangers. Rejects when the database fails. */
  accountFor(request: FastifyRequest): Promise<string | undefined>
  /** Returns whether a request comes from a signed-in account. Rejects when the database fails. */
  isStaff(request: FastifyRequest): Promise<boolean>
  /** Returns whether the name and the password are right. */
  verify(credentials: StaffCredentials): Promise<boolean>
  /** Returns an id of the browser that sent a request, if the account signed in from it before. */
  knownBrowser(request: FastifyRequest, account: string): string | undefined
  /**
   * Starts a session in place of those that the request carries.
   *
   * @param mountPath where the pages are mounted
   * @returns the `Set-Cookie` headers
   */
  startSession(request: FastifyRequest, account: string, mountPath: string): Promise<string[]>
  /** Ends the sessions that the request carries and returns the `Set-Cookie` header. */
  signOut(request: FastifyRequest, mountPath: string): Promise<string>
}

export interface StaffCredentials {
  readonly account: string
  readonly password: string
}

const MAX_ACCOUNT_LENGTH = 100
const MIN_SECRET_LENGTH = 32
const MARK_LENGTH = 16
/** The characters of a cookie's `Path`: no blank and no semicolon. */
const COOKIE_PATH = /^\/[!-:<-~]*$/

/**
 * Creates the built-in sign-in, for hosts without one; pass the result to `dashboardPlugin` and `adminPlugin`. With a
 * `cookiePath` above both, one sign-in is enough.
 *
 * @throws InvalidSettingError for a plain or malformed password, no account, a short secret, or an invalid path
 */
export function staffAccounts({ accounts, sessionSecret, cookiePath }: StaffAccountsOptions): StaffAccounts {
  const hashes = parseAccounts(accounts)
  validateSecret(sessionSecret)
  validateCookiePath(cookiePath)
  if (hashes.size === 0) throw new InvalidSettingError('Option "accounts" is empty: name one account or more')
  const decoyFor = createDecoys([...hashes.values()], sessionSecret)

  async function accountFor(request: FastifyRequest): Promise<string | undefined> {
    for (const cookie of readSessionCookies(request, sessionSecret)) {
      const { database, clock } = internalsFor(request.server)
      const account = await findSession(database, sessionIdFor(cookie), clock.now())
      if (account !== undefined && cookie.endsWith(`.${markFor(account)}`)) return account
    }
    return undefined
  }

  /** Returns a mark of the account's password: another password ends its sessions. */
  function markFor(account: string): string {
    const key = hashes.get(account)?.key ?? ''
    return createHmac('sha256', sessionSecret).update(key).digest('base64url').slice(0, MARK_LENGTH)
  }

  async function endSessions(request: FastifyRequest): Promise<void> {
    const { database } = internalsFor(request.server)
    for (const cookie of readSessionCookies(request, sessionSecret)) await endSession(database, sessionIdFor(cookie))
  }

  return {
    accountFor,

    async isStaff(request) {
      return (await accountFor(request)) !== undefined
    },

    async verify({ account, password }) {
      // An unknown name takes as long as a wrong password, so that the time does not reveal which names exist.
      const hash = hashes.get(account) ?? decoyFor(account)
      return hash !== undefined && verifyPassword(password, hash)
    },

    knownBrowser(request, account) {
      return findKnownBrowser(request, account, sessionSecret)
    },

    async startSession(request, account, mountPath) {
      const { database, clock } = internalsFor(request.server)
      await endSessions(request)
      const id = await startSession(database, account, clock.now())
      const path = cookiePath ?? mountPath
      return [
        sessionCookie(request, path, `${id}.${markFor(account)}`, sessionSecret),
        knownBrowserCookie(request, path, account, sessionSecret),
      ]
    },

    async signOut(request, mountPath) {
      await endSessions(request)
      return endedSessionCookie(request, cookiePath ?? mountPath)
    },
  }
}

/** Returns the part of a cookie before the mark of the password. */
function sessionIdFor(cookie: string): string {
  return cookie.split('.', 1)[0] ?? ''
}

function parseAccounts(accounts: Readonly<Record<string, string>>): Map<string, PasswordHash> {
  return new Map(
    Object.entries(accounts ?? {}).map(([account, text]) => {
      if (account === '' || account.length > MAX_ACCOUNT_LENGTH) {
        throw new InvalidSettingError(
          `Option "accounts" has the name ${JSON.stringify(account)}: give a name of 1 to ${MAX_ACCOUNT_LENGTH} characters`,
        )
      }
      const hash = parsePasswordHash(text)
      // The value is not quoted, since it may be a password.
      if (hash === undefined) {
        throw new InvalidSettingError(
          `Option "accounts" has no password hash for ${JSON.stringify(account)}: make one with "ratelimit hash-password"; it starts with $scrypt$`,
        )
      }
      return [account, hash]
    }),
  )
}

function validateSecret(sessionSecret: string): void {
  if (typeof sessionSecret === 'string' && sessionSecret.length >= MIN_SECRET_LENGTH) return
  throw new InvalidSettingError(
    `Option "sessionSecret" is missing or shorter than ${MIN_SECRET_LENGTH} characters: make one with "openssl rand -base64 32"`,
  )
}

function validateCookiePath(cookiePath: string | undefined): void {
  if (cookiePath === undefined || COOKIE_PATH.test(cookiePath)) return
  throw new InvalidSettingError(
    `Option "cookiePath" is ${JSON.stringify(cookiePath)}: give a path that starts with /, such as /tools/ratelimit`,
  )
}
