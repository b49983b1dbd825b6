import { createHash, randomBytes } from 'node:crypto'
import type { FastifyRequest } from 'fastify'
import type { Database } from '../../database/database.js'
import { loadModule } from '../../ground/package-root.js'
import { HOUR_MS, latestStartMs } from '../../ground/time/clock.js'
import { createStaffCookie } from '../shell/staff-cookie.js'

/** The length of a session: a working day. */
export const SESSION_MS = 12 * HOUR_MS

const ID_BYTES = 32

/**
 * Starts a session and deletes the expired ones. The table stores only the id's hash: a copy of it opens no session.
 *
 * @returns the session's id, which is stored nowhere else
 */
export async function startSession(database: Database, account: string, nowMs: number): Promise<string> {
  const { dialect } = database
  const table = dialect.table('rate_limit_staff_session')
  const id = randomBytes(ID_BYTES).toString('base64url')
  await database.execute(`DELETE FROM ${table} WHERE expires_at <= ${dialect.fromMs('$1')}`, [nowMs])
  await database.execute(
    `INSERT INTO ${table} (id_hash, account, expires_at) VALUES ($1, $2, ${dialect.fromMs('$3')})`,
    [hashId(id), account, nowMs + SESSION_MS],
  )
  return id
}

/** Returns the account of a session; undefined when there is none, or it has expired, or a wrong clock has started it. */
export async function findSession(database: Database, id: string, nowMs: number): Promise<string | undefined> {
  const { dialect } = database
  const [session] = await database.query<{ account: string }>(
    `SELECT account FROM ${dialect.table('rate_limit_staff_session')}
     WHERE id_hash = $1 AND expires_at > ${dialect.fromMs('$2')} AND expires_at <= ${dialect.fromMs('$3')}`,
    [hashId(id), nowMs, latestStartMs(nowMs, SESSION_MS) + SESSION_MS],
  )
  return session?.account
}

export async function endSession(database: Database, id: string): Promise<void> {
  await database.execute(`DELETE FROM ${database.dialect.table('rate_limit_staff_session')} WHERE id_hash = $1`, [
    hashId(id),
  ])
}

function hashId(id: string): string {
  return createHash('sha256').update(id).digest('hex')
}

const COOKIE = createStaffCookie({
  name: 'ratelimit_staff',
  // The session's id, the mark of the password, and the signature.
  value: /[\w-]{43}\.[\w-]{16}\.[A-Za-z0-9+/]{43}/,
  lifeMs: SESSION_MS,
})

/** Loads what signs cookies, which servers without a sign-in of this package do not need. */
function loadSigner(): Pick<typeof import('@fastify/cookie'), 'sign' | 'unsign'> {
  return loadModule('@fastify/cookie') as typeof import('@fastify/cookie')
}

/** Returns the values of a request's session cookies with a valid signature. */
export function readSessionCookies(request: FastifyRequest, secret: string): string[] {
  return COOKIE.read(request).flatMap((signed) => {
    const { valid, value } = loadSigner().unsign(signed, secret)
    return valid ? [value] : []
  })
}

/** Returns the `Set-Cookie` header that sets a session. */
export function sessionCookie(request: FastifyRequest, path: string, held: string, secret: string): string {
  return COOKIE.set(request, path, loadSigner().sign(held, secret))
}

/** Returns the `Set-Cookie` header that deletes it. */
export function endedSessionCookie(request: FastifyRequest, path: string): string {
  return COOKIE.end(request, path)
}
