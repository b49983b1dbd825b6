/** Reads overrides and bans a page at a time: of a hundred thousand, those of one page. */

import type { AddressPrivacy } from '../../../clients/address-privacy.js'
import { overrideClientsFor, storedSpellings } from '../../../clients/client-networks.js'
import type { Database } from '../../../database/database.js'
import type { Dialect } from '../../../database/dialect.js'
import {
  type List,
  type Order,
  type Page,
  type PageStart,
  type Parameters,
  type Position,
  readPage,
} from '../../../database/list.js'
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

/** Returns an order as the database has it. Overrides that never end are last. */
export function overrideOrder(order: OverrideListing['order']): Order {
  const id = { sql: 'id', kind: 'whole' } as const
  if (order === 'newest') return [{ ...id, isDescending: true }]
  if (order === 'end') return [{ sql: 'expires_at', kind: 'moment', isNullable: true }, id]
  return [
    { sql: 'client', kind: 'text' },
    { sql: 'path_pattern', kind: 'text' },
  ]
}

/** A row of the list. */
export interface ListedOverride {
  readonly id: number
  readonly entry: OverrideEntry
  readonly isInForce: boolean
  /** The time of the last change, in milliseconds since the epoch. */
  readonly updatedAt: number
  /** The values of the order, by which a page after or before it begins. */
  readonly position: Position
  /** The one who changed it last, by the history; empty where that is not known. */
  readonly actor: string
}

interface FoundRow {
  readonly id: number
  readonly client: string
  readonly pathPattern: string
  readonly expiresAt: number | null
  readonly updatedAt: number
  readonly isInForce: number
}

/** Reads a page. */
export async function listOverrides(
  database: Database,
  privacy: AddressPrivacy | undefined,
  listing: OverrideListing,
  page: { readonly from?: PageStart | undefined; readonly limit: number },
  nowMs: number,
): Promise<Page<ListedOverride>> {
  const list = overrideList(database, privacy, listing, nowMs)
  const found = await readPage(database.dialect, list, page)
  return { ...found, rows: await completeRows(database, list, found.rows) }
}

/** Returns the list of the rows, without what `completeRows` adds. */
export function overrideList(
  { dialect, query }: Database,
  privacy: AddressPrivacy | undefined,
  listing: OverrideListing,
  nowMs: number,
): List<FoundRow> {
  const inForceSql = (parameters: Parameters) =>
    `(expires_at IS NULL OR ${lastsSql(dialect, 'entry', parameters.add(Math.floor(nowMs)))})`
  return {
    order: overrideOrder(listing.order),
    position: ({ id, client, pathPattern, expiresAt }) =>
      listing.order === 'client' ? [client, pathPattern] : listing.order === 'newest' ? [id] : [expiresAt, id],
    where(parameters) {
      const { text, kind, state } = listing
      return [
        ...(kind === undefined ? [] : [KIND_SQL[kind]]),
        ...(state === undefined ? [] : [`${state === 'expired' ? 'NOT ' : ''}${inForceSql(parameters)}`]),
        ...(text === '' ? [] : [containsText(text, privacy, dialect, parameters)]),
      ]
    },
    select: (rest, parameters) =>
      query<FoundRow>(
        `SELECT id, client, path_pattern AS "pathPattern", expires_at AS "expiresAt", updated_at AS "updatedAt",
           CASE WHEN ${inForceSql(parameters)} THEN 1 ELSE 0 END AS "isInForce"
         FROM ${dialect.table(OVERRIDES.table)} AS entry ${rest}`,
        parameters.values,
      ),
  }
}

const IS_BAN = `${bannedAtSql('entry')} IS NOT NULL`
const KIND_SQL: Readonly<Record<(typeof KINDS)[number], string>> = {
  blocks: `effect = 'deny' AND NOT (${IS_BAN})`,
  exemptions: "effect = 'allow'",
  rates: "effect NOT IN ('deny', 'allow')",
  bans: `(${IS_BAN})`,
}

/** Returns the condition that a row is for a client, or for a network that contains it, or contains a text. */
function containsText(
  text: string,
  privacy: AddressPrivacy | undefined,
  dialect: Dialect,
  parameters: Parameters,
): string {
  const typed = storable(text, MAX_KEY_LENGTH)
  const spellings = storedSpellings(typed, privacy)
  const clients = [...new Set([...spellings, ...spellings.flatMap(overrideClientsFor)])]
  const part = (searched: string) => parameters.add(`%${searched.replace(/[!%_]/g, '!$&')}%`)
  // SQLite knows the case of ASCII letters only.
  const [asTyped, lowered] = [part(typed), part(typed.toLowerCase())]
  const contains = ['client', 'path_pattern', 'note'].map(
    (column) => `${column} LIKE ${asTyped} ESCAPE '!' OR lower(${column}) LIKE ${lowered} ESCAPE '!'`,
  )
  const isTheirs = dialect.isOneOf('client', parameters.add(JSON.stringify(clients)), 'text')
  return `(${isTheirs} OR ${contains.join(' OR ')})`
}

/** Adds the fields, and who wrote them, to some rows. */
export async function completeRows(
  database: Database,
  list: List<FoundRow>,
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
  return rows.flatMap((row) => {
    const { id, updatedAt, isInForce } = row
    const entry = entryById.get(id)
    // The override has ended just now.
    if (entry === undefined) return []
    return [
      { id, entry, updatedAt, isInForce: isInForce === 1, position: list.position(row), actor: actors.get(id) ?? '' },
    ]
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
