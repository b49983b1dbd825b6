import { toColumn } from '../../../src/db/dialect.js'
import { errorMessage } from '../../../src/errors.js'
import { OVERRIDES, type OverrideEntry, parseOverride } from '../../../src/overrides/override.js'
import { fieldNames } from '../../../src/rules/description.js'

export interface OverrideRow extends Omit<OverrideEntry, 'algorithm' | 'expiresAt'> {
  readonly id: number
  readonly algorithm: string
  /** An invalid Date where raw SQL wrote something else. */
  readonly expiresAt: Date | null
  readonly createdAt: Date
  readonly updatedAt: Date
}

/** The shown fields of a row. */
export const OVERRIDE_ROW = ['id', ...fieldNames(OVERRIDES.fields), 'createdAt', 'updatedAt'] as const

/** Returns whether an override holds, and if not, why. */
function overrideState(row: OverrideRow, nowMs: number): 'active' | 'expired' | 'not valid' {
  if (invalidity(row) !== undefined) return 'not valid'
  return row.expiresAt !== null && row.expiresAt.getTime() <= nowMs ? 'expired' : 'active'
}

export function overrideJson(row: OverrideRow, nowMs: number): object {
  const fields = OVERRIDE_ROW.map((name) => [toColumn(name), row[name]])
  return { ...Object.fromEntries(fields), state: overrideState(row, nowMs) }
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

/** Returns why a row that raw SQL wrote is invalid. */
function invalidity(row: OverrideRow): string | undefined {
  if (Number.isNaN(row.expiresAt?.getTime())) return 'Invalid override: expiresAt: is no moment'
  try {
    parseOverride({ ...row, expiresAt: row.expiresAt?.getTime() ?? null })
    return undefined
  } catch (error) {
    return errorMessage(error)
  }
}
