/** What staff do about a client on its page: each writes one override for all its paths, or ends one. */

import { errorCode, RuleValidationError } from '../../ground/errors.js'
import { parseLength } from '../../limiter/rate.js'
import type { RateLimitClient } from '../../plugin/client/client.js'

/** An override as the page showed it: an action does nothing where another one was quicker. */
interface SeenOverride {
  readonly id: number
  readonly updatedAt: Date
}

/** What the page showed for all paths of a client. */
export interface SeenOverrides {
  /** The override with an empty path pattern; undefined where there was none. */
  readonly own: SeenOverride | undefined
  /** The block beside it. */
  readonly beside: SeenOverride | undefined
}

interface OverrideWish {
  /** As overrides spell it. */
  readonly client: string
  /** `deny`, `allow`, or a rate. */
  readonly effect: string
  /** Of a rate. */
  readonly algorithm: string
  readonly expiresAt: Date | null
  readonly note: string
  readonly seen: SeenOverrides
}

type Overrides = Pick<RateLimitClient['rateLimitOverride'], 'create' | 'updateMany' | 'deleteMany' | 'count'>

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
export async function writeOverride(overrides: Overrides, wish: OverrideWish, nowMs: number): Promise<boolean> {
  const { client, seen, ...fields } = wish
  const { own, beside } = seen
  if (fields.effect === 'deny') {
    const isBeside = beside !== undefined || (await lets(overrides, own))
    return isBeside
      ? writeRow(overrides, { client, pathPattern: EVERY_PATH }, fields, beside, nowMs)
      : writeRow(overrides, { client, pathPattern: '' }, fields, own, nowMs)
  }
  const isWritten = await writeRow(overrides, { client, pathPattern: '' }, fields, own, nowMs)
  if (isWritten && beside !== undefined) await endOverride(overrides, beside)
  return isWritten
}

/** Returns whether an override has a rate or a pass. */
async function lets(overrides: Overrides, seen: SeenOverride | undefined): Promise<boolean> {
  if (seen === undefined) return false
  return (await overrides.count({ where: { ...seen, NOT: { effect: 'deny' } } })) > 0
}

async function writeRow(
  overrides: Overrides,
  its: { readonly client: string; readonly pathPattern: string },
  data: Omit<OverrideWish, 'client' | 'seen'>,
  seen: SeenOverride | undefined,
  nowMs: number,
): Promise<boolean> {
  // One statement finds the row as it was seen and writes it, so that of two operators one is refused.
  const where = seen === undefined ? { ...its, expiresAt: { lte: new Date(nowMs) } } : { ...its, ...seen }
  const { count } = await overrides.updateMany({ where, data })
  if (count > 0 || seen !== undefined) return count > 0
  try {
    await overrides.create({ data: { ...its, ...data } })
    return true
  } catch (error) {
    if (errorCode(error) === 'P2002') return false
    throw error
  }
}

/** Ends an override or a ban; returns false where another action changed or ended it since it was seen. */
export async function endOverride(overrides: Overrides, seen: SeenOverride): Promise<boolean> {
  const { count } = await overrides.deleteMany({ where: { ...seen } })
  return count > 0
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
  const lengthMs = parseLength(text.replace(/\s/g, '').toLowerCase())
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
