import { countOf } from '../../src/ground/number-text.js'
import {
  addToken,
  findTokenProblem,
  listTokens,
  revokeToken,
  type StoredToken,
} from '../../src/staff/api/token-table.js'
import { type CommandContext, type CommandResult, UsageError } from './support/command.js'
import {
  commandSettings,
  type DatabaseOptions,
  withDatabaseToRead,
  withExistingDatabase,
} from './support/open-database.js'
import { parseLength } from './support/option-values.js'

interface TokenCreateOptions extends DatabaseOptions {
  readonly name: string
  readonly role: string
  readonly for?: string | undefined
}

export async function create(options: TokenCreateOptions, context: CommandContext): Promise<CommandResult> {
  const { name, role } = options
  const settings = commandSettings(options, context)
  const nowMs = settings.clock.now()
  const expiresAtMs = options.for === undefined ? null : nowMs + parseLength('--for', options.for)
  const invalid = findTokenProblem(name, role)
  if (invalid !== undefined) throw new UsageError(invalid)
  return withExistingDatabase(settings, context, async ({ database }) => {
    const token = await addToken(database, { name, role, expiresAtMs }, nowMs)
    if (token === undefined) {
      return { lines: [], failures: [`there is a token ${JSON.stringify(name)} already: revoke it first`] }
    }
    const expires_at = expiresAtMs === null ? null : new Date(expiresAtMs).toISOString()
    return {
      json: { name, role, expires_at, token },
      // The token alone on stdout, so that a script can keep it.
      lines: [token],
      warnings: [`token ${JSON.stringify(name)}, ${role}, ${untilText(expiresAtMs)}. It is shown only this once`],
    }
  })
}

export async function list(options: DatabaseOptions, context: CommandContext): Promise<CommandResult> {
  const settings = commandSettings(options, context)
  return withDatabaseToRead(
    settings,
    context,
    async ({ database }) => {
      const nowMs = settings.clock.now()
      const tokens = await listTokens(database)
      return {
        json: { tokens: tokens.map((token) => tokenJson(token, nowMs)) },
        lines: [...tokens.map((token) => tokenLine(token, nowMs)), `${countOf(tokens.length, 'token')}.`],
      }
    },
    'rules',
  )
}

export async function revoke(name: string, options: DatabaseOptions, context: CommandContext): Promise<CommandResult> {
  return withExistingDatabase(commandSettings(options, context), context, async ({ database }) => {
    const isRevoked = await revokeToken(database, name)
    const quoted = JSON.stringify(name)
    return isRevoked
      ? { json: { revoked: 1 }, lines: [`Revoked: ${quoted}.`] }
      : { json: { revoked: 0 }, lines: [], failures: [`there is no token ${quoted}: see token list`] }
  })
}

export function tokenJson({ name, role, createdAt, expiresAt, lastUsedAt }: StoredToken, nowMs: number): object {
  return {
    name,
    role,
    created_at: momentText(createdAt),
    expires_at: momentText(expiresAt),
    last_used_at: momentText(lastUsedAt),
    state: isExpired(expiresAt, nowMs) ? 'expired' : 'active',
  }
}

export function tokenLine({ name, role, expiresAt, lastUsedAt }: StoredToken, nowMs: number): string {
  return [
    name,
    role,
    untilText(expiresAt),
    lastUsedAt === null ? 'never used' : `last used ${momentText(lastUsedAt)}`,
    ...(isExpired(expiresAt, nowMs) ? ['(expired)'] : []),
  ].join('  ')
}

/** @param expiresAtMs null for none */
export function untilText(expiresAtMs: number | null): string {
  return expiresAtMs === null ? 'without end' : `until ${momentText(expiresAtMs)}`
}

function isExpired(expiresAtMs: number | null, nowMs: number): boolean {
  return expiresAtMs !== null && expiresAtMs <= nowMs
}

function momentText(ms: number | null): string | null {
  return ms === null ? null : new Date(ms).toISOString()
}
