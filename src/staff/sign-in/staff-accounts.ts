import { createHmac } from 'node:crypto'
import type { FastifyRequest } from 'fastify'
import { InvalidSettingError } from '../../ground/errors.js'
import type { AnyRequest } from '../../http/request-reply.js'
import { pluginParts } from '../../plugin/parts.js'
import { STAFF_ROLES, type StaffRole, toRole } from '../shell/roles.js'
import type { StaffMember } from '../shell/staff-member.js'
import { findKnownBrowser, knownBrowserCookie } from './known-browser.js'
import { createDecoys, type PasswordHash, parsePasswordHash, verifyPassword } from './passwords.js'
import {
  endedSessionCookie,
  endSession,
  findSession,
  readSessionCookies,
  sessionCookie,
  startSession,
} from './sessions.js'

/** An account with a role. */
export interface StaffAccount {
  readonly passwordHash: string
  readonly role: StaffRole
}

export interface StaffAccountsOptions {
  /**
   * Password hashes by account name, as `ratelimit hash-password` or `hashPassword()` makes them; with a role as
   * `{ passwordHash, role }`, without one as an admin. Another hash ends the sessions of its account.
   */
  readonly accounts: Readonly<Record<string, string | StaffAccount>>
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
  accountFor(request: AnyRequest): Promise<string | undefined>
  /** Returns the signed-in account with its role, undefined for strangers. Rejects when the database fails. */
  memberFor(request: AnyRequest): Promise<StaffMember | undefined>
  /** Returns whether a request comes from a signed-in account. Rejects when the database fails. */
  isStaff(request: AnyRequest): Promise<boolean>
  /** Returns whether the name and the password are right. */
  verify(credentials: StaffCredentials): Promise<boolean>
  /** Returns an id of the browser that sent a request, if the account signed in from it before. */
  knownBrowser(request: AnyRequest, account: string): string | undefined
  /**
   * Starts a session in place of those that the request carries.
   *
   * @param mountPath where the pages are mounted
   * @returns the `Set-Cookie` headers
   */
  startSession(request: AnyRequest, account: string, mountPath: string): Promise<string[]>
  /** Ends the sessions that the request carries and returns the `Set-Cookie` header. */
  signOut(request: AnyRequest, mountPath: string): Promise<string>
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
  const parsed = parseAccounts(accounts)
  validateSecret(sessionSecret)
  validateCookiePath(cookiePath)
  if (parsed.size === 0) throw new InvalidSettingError('Option "accounts" is empty: name one account or more')
  const decoyFor = createDecoys(
    [...parsed.values()].map(({ hash }) => hash),
    sessionSecret,
  )

  async function accountFor(request: FastifyRequest): Promise<string | undefined> {
    for (const cookie of readSessionCookies(request, sessionSecret)) {
      const { database, clock } = pluginParts(request.server)
      const account = await findSession(database, sessionIdFor(cookie), clock.now())
      if (account !== undefined && cookie.endsWith(`.${markFor(account)}`)) return account
    }
    return undefined
  }

  /** Returns a mark of the account's password: another password ends its sessions. */
  function markFor(account: string): string {
    const key = parsed.get(account)?.hash.key ?? ''
    return createHmac('sha256', sessionSecret).update(key).digest('base64url').slice(0, MARK_LENGTH)
  }

  async function endSessions(request: FastifyRequest): Promise<void> {
    const { database } = pluginParts(request.server)
    for (const cookie of readSessionCookies(request, sessionSecret)) await endSession(database, sessionIdFor(cookie))
  }

  return {
    accountFor,

    async memberFor(request: FastifyRequest) {
      const actor = await accountFor(request)
      const role = parsed.get(actor ?? '')?.role
      return actor === undefined || role === undefined ? undefined : { actor, role }
    },

    async isStaff(request: FastifyRequest) {
      return (await accountFor(request)) !== undefined
    },

    async verify({ account, password }) {
      // An unknown name takes as long as a wrong password, so that the time does not reveal which names exist.
      const hash = parsed.get(account)?.hash ?? decoyFor(account)
      return hash !== undefined && verifyPassword(password, hash)
    },

    knownBrowser(request: FastifyRequest, account) {
      return findKnownBrowser(request, account, sessionSecret)
    },

    async startSession(request: FastifyRequest, account, mountPath) {
      const { database, clock } = pluginParts(request.server)
      await endSessions(request)
      const id = await startSession(database, account, clock.now())
      const path = cookiePath ?? mountPath
      return [
        sessionCookie(request, path, `${id}.${markFor(account)}`, sessionSecret),
        knownBrowserCookie(request, path, account, sessionSecret),
      ]
    },

    async signOut(request: FastifyRequest, mountPath) {
      await endSessions(request)
      return endedSessionCookie(request, cookiePath ?? mountPath)
    },
  }
}

/** Returns the part of a cookie before the mark of the password. */
function sessionIdFor(cookie: string): string {
  return cookie.split('.', 1)[0] ?? ''
}

interface ParsedAccount {
  readonly hash: PasswordHash
  readonly role: StaffRole
}

function parseAccounts(accounts: StaffAccountsOptions['accounts']): Map<string, ParsedAccount> {
  return new Map(
    Object.entries(accounts ?? {}).map(([account, value]) => {
      const { passwordHash, role }: { passwordHash?: unknown; role?: unknown } =
        typeof value === 'string' ? { passwordHash: value, role: 'admin' } : Object(value)
      if (account === '' || account.length > MAX_ACCOUNT_LENGTH) {
        throw new InvalidSettingError(
          `Option "accounts" has the name ${JSON.stringify(account)}: give a name of 1 to ${MAX_ACCOUNT_LENGTH} characters`,
        )
      }
      const hash = typeof passwordHash === 'string' ? parsePasswordHash(passwordHash) : undefined
      // The value is not quoted, since it may be a password.
      if (hash === undefined) {
        throw new InvalidSettingError(
          `Option "accounts" has no password hash for ${JSON.stringify(account)}: make one with "ratelimit hash-password"; it starts with $scrypt$`,
        )
      }
      const parsedRole = toRole(role)
      if (parsedRole === undefined) {
        throw new InvalidSettingError(
          `Option "accounts" has no role for ${JSON.stringify(account)}: give ${STAFF_ROLES.join(', ')}`,
        )
      }
      return [account, { hash, role: parsedRole }]
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
