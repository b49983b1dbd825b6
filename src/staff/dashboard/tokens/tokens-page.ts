import type { StoredToken } from '../../api/token-table.js'
import { toTokenRole } from '../../shell/roles.js'
import { formatTime, toMoment, visible } from '../format.js'

/** A token that was just created. */
export interface CreatedToken {
  readonly name: string
  readonly text: string
}

/** Returns the context of `tokens.hbs`. */
export function tokensContext(tokens: readonly StoredToken[], nowMs: number) {
  return {
    title: 'Tokens',
    subtitle: 'Rate limits',
    tokens: tokens.map((token) => tokenRow(token, nowMs)),
    now: toMoment(nowMs),
  }
}

function tokenRow({ name, role, createdAt, expiresAt, lastUsedAt }: StoredToken, nowMs: number) {
  // The guard of the API decides the same: what is no time has passed, and another text than a role opens nothing.
  const isExpired = expiresAt !== null && !(expiresAt > nowMs)
  const isRole = toTokenRole(role) !== undefined
  return {
    name: visible(name),
    /** The name as the form sends it. */
    value: name,
    role: visible(role),
    is_role: isRole,
    created: momentWords(createdAt),
    expires: expiresAt === null ? 'Never' : `${isExpired ? 'Expired ' : ''}${momentWords(expiresAt)}`,
    is_expired: isExpired,
    last_used: lastUsedAt === null ? 'Never' : momentWords(lastUsedAt),
  }
}

/** Raw SQL may have written a moment that is no time. */
function momentWords(ms: number): string {
  return Number.isNaN(new Date(ms).getTime()) ? 'not a valid time' : `${formatTime(ms)} UTC`
}
