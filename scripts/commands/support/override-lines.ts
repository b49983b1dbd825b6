import { messageOf } from '../../../src/errors.js'
import { parseOverride } from '../../../src/rules/override.js'

export interface OverrideRow {
  readonly id: number
  readonly client: string
  readonly effect: string
  readonly algorithm: string
  readonly pathPattern: string
  /** An invalid Date where raw SQL wrote something else. */
  readonly expiresAt: Date | null
  readonly note: string
  readonly createdAt: Date
  readonly updatedAt: Date
}

/** Whether an override holds, and if not, why. */
function overrideState(row: OverrideRow, nowMs: number): 'active' | 'expired' | 'not valid' {
  if (invalidity(row) !== undefined) return 'not valid'
  return row.expiresAt !== null && row.expiresAt.getTime() <= nowMs ? 'expired' : 'active'
}

export function overrideJson(row: OverrideRow, nowMs: number): object {
  const { id, client, effect, algorithm, pathPattern, expiresAt, note, createdAt, updatedAt } = row
  return {
    id,
    client,
    effect,
    algorithm,
    path_pattern: pathPattern,
    expires_at: expiresAt,
    note,
    created_at: createdAt,
    updated_at: updatedAt,
    state: overrideState(row, nowMs),
  }
}

export function overrideLine(row: OverrideRow, nowMs: number): string {
  const { client, effect, algorithm, pathPattern, expiresAt, note } = row
  const state = overrideState(row, nowMs)
  return [
    client,
    effect,
    ...(algorithm === 'fixed_window' || effect === 'deny' || effect === 'allow' ? [] : [algorithm]),
    ...(pathPattern === '' ? [] : [`path ${pathPattern}`]),
    ...(expiresAt === null || Number.isNaN(expiresAt.getTime()) ? [] : [`until ${expiresAt.toISOString()}`]),
    ...(note === '' ? [] : [JSON.stringify(note)]),
    ...(state === 'active' ? [] : [`(${invalidity(row) ?? state})`]),
  ].join('  ')
}

/** What is wrong with a row that raw SQL wrote. */
function invalidity(row: OverrideRow): string | undefined {
  if (Number.isNaN(row.expiresAt?.getTime())) return 'Invalid override: expiresAt: is no moment'
  try {
    parseOverride({ ...row, expiresAt: row.expiresAt?.getTime() ?? null })
    return undefined
  } catch (error) {
    return messageOf(error)
  }
}
