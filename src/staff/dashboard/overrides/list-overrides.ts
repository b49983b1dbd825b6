/** Reads overrides and bans a page at a time: of a hundred thousand, those of one page. */

import type { AddressPrivacy } from '../../../clients/address-privacy.js'
import { overrideClientsFor, storedSpellings } from '../../../clients/client-networks.js'
import type { Database } from '../../../database/database.js'
import type { Dialect, SqlValue } from '../../../database/dialect.js'
import { MAX_KEY_LENGTH, storable } from '../../../ground/storable.js'
import { bannedAtSql, lastsSql } from '../../../rules/ban.js'
import { OVERRIDES, type OverrideEntry } from '../../../rules/overrides/override.js'
import { readSomeEntries } from '../../../rules/read-entries.js'

export const KINDS = ['blocks', 'exemptions', 'rates', 'bans'] as const
export const STATES = ['in-force', 'expired'] as const
export const ORDERS = ['newest', 'client', 'end'] as const

/** The filter of the list, and its order. */
export interface OverrideListing {
  /** A client in any spelling, or a part of a client, a path pattern or a note; empty for all. */
  readonly text: string
  /** The kind; undefined for all. */
  readonly kind: (typeof KINDS)[number] | undefined
  /** The state; undefined for all. */
  readonly state: (typeof STATES)[number] | undefined
  readonly order: (typeof ORDERS)[number]
}

/** The beginning of a page: after or before the row with these values of the order. */
export interface Position {
  readonly side: 'after' | 'before'
  readonly values: readonly SqlValue[]
}

/** The earliest moment that PostgreSQL has. */
const LEAST_MS = -210_000_000_000_000
const isId = (value: unknown): boolean => Number.isSafeInteger(value)
const isText = (value: unknown): boolean => typeof value === 'string' && !value.includes('\0')
const isEnd = (value: unknown): boolean => value === null || (isId(value) && Number(value) >= LEAST_MS)
const VALUES: Readonly<Record<OverrideListing['order'], readonly ((value: unknown) => boolean)[]>> = {
  newest: [isId],
  client: [isText, isText],
  end: [isEnd, isId],
}

/** Returns whether values, which anybody may have made up, are a position of an order. */
export function isPosition(order: OverrideListing['order'], values: unknown): values is SqlValue[] {
  const tests = VALUES[order]
  return Array.isArray(values) && values.length === tests.length && tests.every((test, index) => test(values[index]))
}

/** A row of the list. */
export interface ListedOverride {
  readonly id: number
  readonly entry: OverrideEntry
  readonly isInForce: boolean
  /** The time of the last change, in milliseconds since the epoch. */
  readonly updatedAt: number
  /** The values of the order, by which a page after or before it begins. */
  readonly position: readonly SqlValue[]
  /** The one who changed it last, by the history; empty where that is not known. */
  readonly actor: string
}

export interface OverridePage {
  readonly overrides: readonly ListedOverride[]
  readonly hasBefore: boolean
  readonly hasAfter: boolean
}

interface FoundRow {
  readonly id: number
  readonly client: string
  readonly pathPattern: string
  readonly expiresAt: number | null
  readonly updatedAt: number
  readonly isInForce: number
}

/** A part of a list, in the order of an index. */
interface Segment {
  readonly where: string
  /** The expressions of the order; the last one is unique among rows that are alike in the first one. */
  readonly by: readonly string[]
  readonly isDescending: boolean
  /** Returns the values of the order as parameters, from those of a position; undefined where it is in another part. */
  readonly valuesOf: (position: readonly SqlValue[]) => readonly SqlValue[] | undefined
  /** Returns the placeholder of the first value as the first expression has it. */
  readonly first: (placeholder: string) => string
}

/**
 * Reads a page.
 *
 * @param size the most rows
 * @param position undefined for the first page
 */
export async function listOverrides(
  database: Database,
  privacy: AddressPrivacy | undefined,
  listing: OverrideListing,
  position: Position | undefined,
  size: number,
  nowMs: number,
): Promise<OverridePage> {
  const found = await findRows(database, privacy, listing, position, size + 1, nowMs)
  const isBackward = position?.side === 'before'
  const rows = found.slice(0, size)
  const ordered = isBackward ? rows.toReversed() : rows
  const hasMore = found.length > size
  return {
    overrides: await completeRows(database, listing, ordered),
    hasBefore: isBackward ? hasMore : position !== undefined,
    hasAfter: isBackward || hasMore,
  }
}

/** Reads the rows of a page, without what `completeRows` adds. */
export async function findRows(
  { dialect, query }: Database,
  privacy: AddressPrivacy | undefined,
  listing: OverrideListing,
  position: Position | undefined,
  limit: number,
  nowMs: number,
): Promise<FoundRow[]> {
  const isBackward = position?.side === 'before'
  const segments = segmentsOf(listing.order, dialect)
  const rows: FoundRow[] = []
  let isBegun = position === undefined
  for (const segment of isBackward ? segments.toReversed() : segments) {
    const values = position && !isBegun ? segment.valuesOf(position.values) : undefined
    if (!isBegun && values === undefined) continue
    isBegun = true
    const parameters: SqlValue[] = [Math.floor(nowMs), limit - rows.length]
    const add = (value: SqlValue) => `$${parameters.push(value)}`
    const isDescending = segment.isDescending !== isBackward
    const conditions = [
      segment.where,
      ...filters(listing, privacy, dialect, add),
      ...(values === undefined ? [] : [beyond(segment, values, isDescending, add)]),
    ]
    const direction = isDescending ? 'DESC' : 'ASC'
    const found = await query<FoundRow>(
      `SELECT id, client, path_pattern AS "pathPattern", expires_at AS "expiresAt", updated_at AS "updatedAt",
         CASE WHEN ${inForceSql(dialect)} THEN 1 ELSE 0 END AS "isInForce"
       FROM ${dialect.table(OVERRIDES.table)} AS entry
       WHERE ${conditions.join(' AND ')}
       ORDER BY ${segment.by.map((each) => `${each} ${direction}`).join(', ')} LIMIT $2`,
      parameters,
    )
    rows.push(...found)
    if (rows.length >= limit) break
  }
  return rows
}

function segmentsOf(order: OverrideListing['order'], dialect: Dialect): Segment[] {
  const { whole, fromMs } = dialect
  const all = 'true'
  if (order === 'client') {
    const by = ['client', 'path_pattern']
    const valuesOf = ([client, pattern]: readonly SqlValue[]) => [String(client), String(pattern)]
    return [{ where: all, by, isDescending: false, valuesOf, first: (placeholder) => placeholder }]
  }
  const idOf = (value: SqlValue | undefined) => [Number(value)]
  if (order === 'newest') {
    return [{ where: all, by: ['id'], isDescending: true, valuesOf: ([id]) => idOf(id), first: whole }]
  }
  // Overrides that never end are last.
  return [
    {
      where: 'expires_at IS NOT NULL',
      by: ['expires_at', 'id'],
      isDescending: false,
      valuesOf: ([endMs, id]) => (endMs === null ? undefined : [Number(endMs), ...idOf(id)]),
      first: (placeholder) => fromMs(whole(placeholder)),
    },
    {
      where: 'expires_at IS NULL',
      by: ['id'],
      isDescending: false,
      valuesOf: ([endMs, id]) => (endMs === null ? idOf(id) : undefined),
      first: whole,
    },
  ]
}

/** Returns the condition that a row is beyond a position; the first comparison is one that an index has. */
function beyond(
  { by: [first = '', second], first: toFirst }: Segment,
  [value = null, other = null]: readonly SqlValue[],
  isDescending: boolean,
  add: (value: SqlValue) => string,
): string {
  const sign = isDescending ? '<' : '>'
  const placeholder = toFirst(add(value))
  if (second === undefined) return `${first} ${sign} ${placeholder}`
  return `${first} ${sign}= ${placeholder} AND (${first} ${sign} ${placeholder} OR ${second} ${sign} ${add(other)})`
}

function inForceSql(dialect: Dialect): string {
  return `(expires_at IS NULL OR ${lastsSql(dialect, 'entry', '$1')})`
}

function filters(
  { text, kind, state }: OverrideListing,
  privacy: AddressPrivacy | undefined,
  dialect: Dialect,
  add: (value: SqlValue) => string,
): string[] {
  const isBan = `${bannedAtSql('entry')} IS NOT NULL`
  const kinds = {
    blocks: `effect = 'deny' AND NOT (${isBan})`,
    exemptions: "effect = 'allow'",
    rates: "effect NOT IN ('deny', 'allow')",
    bans: `(${isBan})`,
  }
  const states = { 'in-force': inForceSql(dialect), expired: `NOT ${inForceSql(dialect)}` }
  return [
    ...(kind === undefined ? [] : [kinds[kind]]),
    ...(state === undefined ? [] : [states[state]]),
    ...(text === '' ? [] : [containsText(text, privacy, dialect, add)]),
  ]
}

/** Returns the condition that a row is for a client, or for a network that contains it, or contains a text. */
function containsText(
  text: string,
  privacy: AddressPrivacy | undefined,
  dialect: Dialect,
  add: (value: SqlValue) => string,
): string {
  const typed = storable(text, MAX_KEY_LENGTH)
  const spellings = storedSpellings(typed, privacy)
  const clients = [...new Set([...spellings, ...spellings.flatMap(overrideClientsFor)])]
  const part = (searched: string) => add(`%${searched.replace(/[!%_]/g, '!$&')}%`)
  // SQLite knows the case of ASCII letters only.
  const [asTyped, lowered] = [part(typed), part(typed.toLowerCase())]
  const contains = ['client', 'path_pattern', 'note'].map(
    (column) => `${column} LIKE ${asTyped} ESCAPE '!' OR lower(${column}) LIKE ${lowered} ESCAPE '!'`,
  )
  const isTheirs = dialect.isOneOf('client', add(JSON.stringify(clients)), 'text')
  return `(${isTheirs} OR ${contains.join(' OR ')})`
}

/** Adds the fields, and who wrote them, to some rows. */
export async function completeRows(
  database: Database,
  { order }: Pick<OverrideListing, 'order'>,
  rows: readonly FoundRow[],
): Promise<ListedOverride[]> {
  if (rows.length === 0) return []
  const { dialect } = database
  const ids = JSON.stringify(rows.map(({ id }) => id))
  const [entries, actors] = await Promise.all([
    readSomeEntries(database, OVERRIDES, `WHERE ${dialect.isOneOf('id', '$1', 'bigint')}`, [ids]),
    readActors(database, ids),
  ])
  const entryById = new Map(entries.map(({ id, entry }) => [id, entry]))
  return rows.flatMap(({ id, client, pathPattern, expiresAt, updatedAt, isInForce }) => {
    const entry = entryById.get(id)
    // The override has ended just now.
    if (entry === undefined) return []
    const position = order === 'client' ? [client, pathPattern] : order === 'newest' ? [id] : [expiresAt, id]
    return [{ id, entry, updatedAt, isInForce: isInForce === 1, position, actor: actors.get(id) ?? '' }]
  })
}

/** Reads who changed rows last. */
async function readActors({ dialect, query }: Database, ids: string): Promise<ReadonlyMap<number, string>> {
  const table = dialect.table('rate_limit_change')
  const rows = await query<{ rowId: number; actor: string }>(
    `SELECT row_id AS "rowId", actor FROM ${table} WHERE id IN (
       SELECT MAX(id) FROM ${table} WHERE entity = 'override' AND ${dialect.isOneOf('row_id', '$1', 'bigint')}
       GROUP BY row_id)`,
    [ids],
  )
  return new Map(rows.map(({ rowId, actor }) => [rowId, actor]))
}
