import type { StoredToken } from '../../../src/api/token-table.js'

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
