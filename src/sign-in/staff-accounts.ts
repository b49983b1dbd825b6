import { createHmac } from 'node:crypto'
import type { FastifyRequest } from 'fastify'
import { InvalidSettingError } from '../errors.js'
import { internalsOf } from '../internals.js'
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
  /** Signs the session cookies: 32 characters or more, the same in all processes. Another one signs everybody out. */
  readonly sessionSecret: string
  /**
   * The path below which browsers send the session along; where the pages are mounted unless given. Give it where a
   * proxy rewrites paths, as the browser sees it.
   */
  readonly cookiePath?: string | undefined
}

/** Staff who sign in with a password. Sessions are kept in the database, so that all processes know them. */
export interface StaffAccounts {
  /** Who is signed in, undefined for strangers. Rejects when the database cannot tell. */
  accountOf(request: FastifyRequest): Promise<string | undefined>
  /** Whether a request comes from somebody who is signed in. Rejects when the database cannot tell. */
  isStaff(request: FastifyRequest): Promise<boolean>
  /** Whether the name and the password are right. */
  verify(credentials: StaffCredentials): Promise<boolean>
  /** An id of the browser that a request comes from, if the account was signed in from it before. */
  knownBrowser(request: FastifyRequest, account: string): string | undefined
  /**
   * Starts a session in place of those the request may carry.
   *
   * @param mountPath where the pages are mounted
   * @returns the `Set-Cookie` headers
   */
  startSession(request: FastifyRequest, account: string, mountPath: string): Promise<string[]>
  /** Ends the sessions that the request carries and answers the `Set-Cookie` header. */
  signOut(request: FastifyRequest, mountPath: string): Promise<string>
}

export interface StaffCredentials {
  readonly account: string
  readonly password: string
}

const MAX_ACCOUNT_LENGTH = 100
const MIN_SECRET_LENGTH = 32
const MARK_LENGTH = 16
/** What a cookie's `Path` can hold: no blank and no semicolon. */
const COOKIE_PATH = /^\/[!-:<-~]*$/

/**
 * The built-in sign-in, for hosts that have none of their own; hand the result to `dashboardPlugin` and `adminPlugin`.
 * With a `cookiePath` above both, one sign-in is enough.
 *
 * @throws InvalidSettingError for a plain or malformed password, no account at all, a short secret, or a path that is none
 */
export function staffAccounts({ accounts, sessionSecret, cookiePath }: StaffAccountsOptions): StaffAccounts {
  const hashes = parseAccounts(accounts)
  checkSecret(sessionSecret)
  checkCookiePath(cookiePath)
  if (hashes.size === 0) throw new InvalidSettingError('Option "accounts" is empty: name one account or more')
  const decoyFor = createDecoys([...hashes.values()], sessionSecret)

  async function accountOf(request: FastifyRequest): Promise<string | undefined> {
    for (const cookie of readSessionCookies(request, sessionSecret)) {
      const { database, clock } = internalsOf(request.server)
      const account = await findSession(database, idOf(cookie), clock.now())
      if (account !== undefined && cookie.endsWith(`.${markOf(account)}`)) return account
    }
    return undefined
  }

  /** Tells the passwords of an account apart: another one ends its sessions. */
  function markOf(account: string): string {
    const key = hashes.get(account)?.key ?? ''
    return createHmac('sha256', sessionSecret).update(key).digest('base64url').slice(0, MARK_LENGTH)
  }

  async function endSessions(request: FastifyRequest): Promise<void> {
    const { database } = internalsOf(request.server)
    for (const cookie of readSessionCookies(request, sessionSecret)) await endSession(database, idOf(cookie))
  }

  return {
    accountOf,

    async isStaff(request) {
      return (await accountOf(request)) !== undefined
    },

    async verify({ account, password }) {
      // An unknown name takes as long as a wrong password: the answer's time does not tell which names exist.
      const hash = hashes.get(account) ?? decoyFor(account)
      return hash !== undefined && verifyPassword(password, hash)
    },

    knownBrowser(request, account) {
      return findKnownBrowser(request, account, sessionSecret)
    },

    async startSession(request, account, mountPath) {
      const { database, clock } = internalsOf(request.server)
      await endSessions(request)
      const id = await startSession(database, account, clock.now())
      const path = cookiePath ?? mountPath
      return [
        sessionCookie(request, path, `${id}.${markOf(account)}`, sessionSecret),
        knownBrowserCookie(request, path, account, sessionSecret),
      ]
    },

    async signOut(request, mountPath) {
      await endSessions(request)
      return endedSessionCookie(request, cookiePath ?? mountPath)
    },
  }
}

/** What a cookie has before the mark of the password. */
function idOf(cookie: string): string {
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
      // The value is not quoted: it may well be a password.
      if (hash === undefined) {
        throw new InvalidSettingError(
          `Option "accounts" has no password hash for ${JSON.stringify(account)}: make one with "ratelimit hash-password"; it starts with $scrypt$`,
        )
      }
      return [account, hash]
    }),
  )
}

function checkSecret(sessionSecret: string): void {
  if (typeof sessionSecret === 'string' && sessionSecret.length >= MIN_SECRET_LENGTH) return
  throw new InvalidSettingError(
    `Option "sessionSecret" is missing or shorter than ${MIN_SECRET_LENGTH} characters: make one with "openssl rand -base64 32"`,
  )
}

function checkCookiePath(cookiePath: string | undefined): void {
  if (cookiePath === undefined || COOKIE_PATH.test(cookiePath)) return
  throw new InvalidSettingError(
    `Option "cookiePath" is ${JSON.stringify(cookiePath)}: give a path that starts with /, such as /tools/ratelimit`,
  )
}
