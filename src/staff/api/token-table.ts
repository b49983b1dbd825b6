import type { Database } from '../../database/database.js'
import { errorMessage } from '../../ground/errors.js'
import type { Field } from '../../ground/field.js'
import { asText } from '../../ground/storable.js'
import { latestStartMs, MINUTE_MS } from '../../ground/time/clock.js'
import { DURATION } from '../../rules/field-values.js'
import { TOKEN_ROLES, type TokenRole, toTokenRole } from '../shell/roles.js'
import { createToken, hashToken, isWellFormed } from './token-text.js'

/** An API token, without its text, which is stored nowhere. */
export interface ApiToken {
  readonly name: string
  readonly role: TokenRole
  /** From this moment on the token opens nothing; null for never. */
  readonly expiresAt: number | null
}

/** A row of the table. */
export interface StoredToken {
  readonly name: string
  /** Another text than a role, which raw SQL may have written, gives no access. */
  readonly role: string
  readonly createdAt: number
  readonly expiresAt: number | null
  readonly lastUsedAt: number | null
}

export interface NewToken {
  readonly name: string
  readonly role: string
  /** The end of the token; null where it has none. */
  readonly expiresAtMs: number | null
}

const NAME = /^[\w.@-](?:[\w .@-]{0,98}[\w.@-])?$/
const TABLE = 'rate_limit_token'
/** The last use is written no more often. */
const USE_INTERVAL_MS = MINUTE_MS
const COLUMNS = 'name, role, created_at AS "createdAt", expires_at AS "expiresAt", last_used_at AS "lastUsedAt"'

function parseTokenName(value: unknown): string {
  const name = asText(value)
  if (NAME.test(name)) return name
  throw new Error(
    `${JSON.stringify(name)} is not a valid name of a token: give 1 to 100 letters, digits and . _ @ - with blanks between`,
  )
}

function parseTokenRole(value: unknown): TokenRole {
  const role = toTokenRole(value)
  if (role !== undefined) return role
  throw new Error(`${JSON.stringify(value)} is not a valid role: give ${TOKEN_ROLES.join(', ')}`)
}

const ROLE_LABELS: Readonly<Record<TokenRole, string>> = {
  viewer: 'viewer: may read',
  operator: 'operator: may also write overrides, reset counters, and enable and disable rules',
  admin: 'admin: may do everything',
  checker: 'checker: may ask for decisions about requests, and nothing else',
}

/** The fields of a new token. */
export const TOKEN_FIELDS = {
  name: {
    kind: 'text',
    parse: parseTokenName,
    about: 'The person or program that uses the token. It appears as the actor in the history of changes.',
    panel: { title: 'Name', input: 'text' },
  },
  role: {
    kind: 'text',
    default: 'viewer',
    parse: parseTokenRole,
    about: 'What the token may do.',
    panel: {
      title: 'Role',
      input: 'select',
      options: TOKEN_ROLES.map((role) => ({ value: role, label: ROLE_LABELS[role] })),
    },
  },
  for: {
    ...DURATION,
    about: 'How long the token is valid: 2h or 90d, at most 366d. Empty: until it is revoked.',
    panel: { title: 'Valid for', input: 'code', example: '90d' },
  },
} as const satisfies Readonly<Record<string, Field>>

/** Returns what is wrong with a name and a role; undefined where nothing is. */
export function findTokenProblem(name: string, role: string): string | undefined {
  try {
    parseTokenName(name)
    parseTokenRole(role)
    return undefined
  } catch (error) {
    return errorMessage(error)
  }
}

/**
 * Creates a token.
 *
 * @param token with a name and a role in which `findTokenProblem` finds no problem
 * @returns its text, which is stored nowhere; undefined when there is a token of this name already
 */
export async function addToken(
  database: Database,
  { name, role, expiresAtMs }: NewToken,
  nowMs: number,
): Promise<string | undefined> {
  const { dialect } = database
  const token = createToken()
  const count = await database.execute(
    `INSERT INTO ${dialect.table(TABLE)} (name, token_hash, role, created_at, expires_at)
     VALUES ($1, $2, $3, ${dialect.fromMs('$4')}, ${dialect.fromMs('$5')}) ON CONFLICT (name) DO NOTHING`,
    [name, hashToken(token), role, nowMs, expiresAtMs],
  )
  return count === 0 ? undefined : token
}

/** Lists all tokens, expired ones too, by name. */
export function listTokens({ dialect, query }: Database): Promise<StoredToken[]> {
  return query(`SELECT ${COLUMNS} FROM ${dialect.table(TABLE)} ORDER BY ${dialect.bytewise('name')}`)
}

/** Deletes a token, which opens nothing from the next request on. Returns false when there is none of this name. */
export async function revokeToken(database: Database, name: string): Promise<boolean> {
  return (await database.execute(`DELETE FROM ${database.dialect.table(TABLE)} WHERE name = $1`, [name])) > 0
}

/** The tokens of an app. */
export class Tokens {
  readonly #database: Database
  readonly #writes = new Set<Promise<unknown>>()

  constructor(database: Database) {
    this.#database = database
  }

  /**
   * Returns the token of a text; undefined where it is unknown or malformed, or has expired. Every request asks the
   * table, so that a revoked token opens nothing.
   */
  async find(text: string, nowMs: number): Promise<ApiToken | undefined> {
    if (!isWellFormed(text)) return undefined
    const { dialect, query } = this.#database
    const [row] = await query<StoredToken>(`SELECT ${COLUMNS} FROM ${dialect.table(TABLE)} WHERE token_hash = $1`, [
      hashToken(text),
    ])
    const role = toTokenRole(row?.role)
    if (row === undefined || role === undefined) return undefined
    // Other programs can write anything into SQLite: what is no time has passed.
    if (row.expiresAt !== null && !(row.expiresAt > nowMs)) return undefined
    const { lastUsedAt } = row
    const isKnown = lastUsedAt !== null && lastUsedAt > nowMs - USE_INTERVAL_MS && lastUsedAt <= latestStartMs(nowMs)
    if (!isKnown) this.#noteUse(row.name, nowMs)
    return { name: row.name, role, expiresAt: row.expiresAt }
  }

  /** Resolves when the last uses are written. */
  async close(): Promise<void> {
    await Promise.all(this.#writes)
  }

  /** Writes the last use, for which no request waits, and whose failure none notices. */
  #noteUse(name: string, nowMs: number): void {
    const { dialect } = this.#database
    const write = this.#database
      .execute(
        // The update is written by one of several processes.
        `UPDATE ${dialect.table(TABLE)} SET last_used_at = ${dialect.fromMs('$1')}
         WHERE name = $2 AND (last_used_at IS NULL OR last_used_at <= ${dialect.fromMs('$3')} OR last_used_at > ${dialect.fromMs('$4')})`,
        [nowMs, name, nowMs - USE_INTERVAL_MS, latestStartMs(nowMs)],
      )
      .catch(() => undefined)
      .finally(() => this.#writes.delete(write))
    this.#writes.add(write)
  }
}
