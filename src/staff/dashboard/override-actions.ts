/** The actions of staff about a client on its page: each writes one override for all its paths, or ends one. */

import type { Database } from '../../database/database.js'
import type { SqlWork } from '../../database/dialect.js'
import { RuleValidationError } from '../../ground/errors.js'
import { readDuration } from '../../limiter/rate-words.js'
import type { Values } from '../../rules/description.js'
import { OVERRIDES } from '../../rules/overrides/override.js'
import { changeRows, type LockedTable } from '../../rules/table.js'

/** An override as the page showed it: an action does nothing where another one was quicker. */
interface SeenOverride {
  readonly id: number
  readonly updatedAt: Date
}

/** The overrides that the page showed for all paths of a client. */
export interface SeenOverrides {
  /** The override with an empty path pattern; undefined where there was none. */
  readonly primary: SeenOverride | undefined
  /** The block beside it. */
  readonly beside: SeenOverride | undefined
}

interface OverrideWish {
  /** The client as overrides spell it. */
  readonly client: string
  /** `deny`, `allow`, or a rate. */
  readonly effect: string
  /** The algorithm of a rate. */
  readonly algorithm: string
  readonly expiresAt: Date | null
  readonly note: string
  readonly seen: SeenOverrides
}

type Overrides = LockedTable<typeof OVERRIDES.fields, 'client' | 'pathPattern'>

/**
 * The path pattern of a block beside a rate or a pass of the same client: that one is in force again when the block is
 * over. A row is for one client and pattern, every path matches this one, and a refusal decides first.
 */
export const EVERY_PATH = '^'

/** The length of an override without an end. */
export const FOR_EVER = 'ever'
/** The seen override of a page that shows none. */
const NONE = ''
const SEEN = /^(\d{1,10}):(\d{1,16})$/

/**
 * Writes an override in place of the one that the page showed, or of one that is over. A block stands beside a rate or a
 * pass; a rate or a pass ends a block.
 *
 * @returns false where another action changed, ended or wrote one since: nothing was written
 * @throws RuleValidationError for an invalid client, rate or note
 */
export function writeOverride(database: Database, wish: OverrideWish, nowMs: number): Promise<boolean> {
  return changeRows(database, OVERRIDES, nowMs, (overrides) => write(overrides, wish, nowMs))
}

function* write(overrides: Overrides, { seen, client, ...fields }: OverrideWish, nowMs: number): SqlWork<boolean> {
  const primary = yield* findSeen(overrides, seen.primary)
  const lets = primary !== undefined && primary.entry.effect !== 'deny'
  const isBeside = fields.effect === 'deny' && (seen.beside !== undefined || lets)
  const isWritten = isBeside
    ? yield* writeRow(overrides, { client, pathPattern: EVERY_PATH, ...fields }, seen.beside, nowMs)
    : yield* writeRow(overrides, { client, pathPattern: '', ...fields }, seen.primary, nowMs)
  if (isWritten && fields.effect !== 'deny') yield* end(overrides, seen.beside)
  return isWritten
}

/** Writes a row where it is as the page showed it, so that of two operators one is refused. */
function* writeRow(
  overrides: Overrides,
  values: Values,
  seen: SeenOverride | undefined,
  nowMs: number,
): SqlWork<boolean> {
  const row = yield* overrides.findSame(values)
  if (seen === undefined && row === undefined) return (yield* overrides.create(values)) !== undefined
  const isAsShown =
    row !== undefined &&
    (seen === undefined ? OVERRIDES.hasExpired(row.entry, nowMs) : row.id === (yield* findSeen(overrides, seen))?.id)
  return isAsShown && (yield* overrides.update(row, values))
}

function* findSeen(overrides: Overrides, seen: SeenOverride | undefined) {
  if (seen === undefined) return undefined
  const { toMs, whole } = overrides.dialect
  const where = `id = $1 AND ${toMs('updated_at')} = ${whole('$2')}`
  const [row] = yield* overrides.find(where, [seen.id, seen.updatedAt.getTime()])
  return row
}

/** Ends an override or a ban; returns false where another action changed or ended it since it was seen. */
export function endOverride(database: Database, seen: SeenOverride, nowMs: number): Promise<boolean> {
  return changeRows(database, OVERRIDES, nowMs, (overrides) => end(overrides, seen))
}

function* end(overrides: Overrides, seen: SeenOverride | undefined): SqlWork<boolean> {
  const row = yield* findSeen(overrides, seen)
  return row !== undefined && (yield* overrides.delete('id = $1', [row.id])) > 0
}

/** Spells an override as a form carries it. */
export function spellSeen(override: { readonly id: number; readonly updated_at: string } | undefined): string {
  return override === undefined ? NONE : `${override.id}:${Date.parse(override.updated_at)}`
}

/** Parses what `spellSeen` spelled; null for another text. */
export function parseSeen(text: string): SeenOverride | undefined | null {
  if (text === NONE) return undefined
  const [, id, updatedMs] = SEEN.exec(text) ?? []
  const updatedAt = new Date(Number(updatedMs))
  return id === undefined || Number(id) > MAX_ID || Number.isNaN(updatedAt.getTime())
    ? null
    : { id: Number(id), updatedAt }
}

/** The largest id of the table. */
const MAX_ID = 2_147_483_647

/** Parses the length of an override, such as `2h`: its end, or null for none; undefined for another text. */
export function parseEnd(text: string, nowMs: number): Date | null | undefined {
  if (text === FOR_EVER) return null
  const lengthMs = readDuration(text)
  return lengthMs === undefined ? undefined : new Date(nowMs + lengthMs)
}

/** Returns why an override was not written, as sentences; undefined for a failure of the database. */
export function whyInvalid(error: unknown): string | undefined {
  if (!(error instanceof RuleValidationError)) return undefined
  return Object.entries(error.errors)
    .map(([field, message]) => `${NAMES[field] ?? field}: ${message}.`)
    .join(' ')
}

const NAMES: Readonly<Record<string, string>> = { effect: 'The rate', client: 'The client', note: 'The reason' }
