/** Reads overrides and bans a page at a time: of a hundred thousand, those of one page. */

import type { AddressPrivacy } from '../../../clients/address-privacy.js'
import { overrideClientsFor, storedSpellings } from '../../../clients/client-networks.js'
import type { Database } from '../../../database/database.js'
import { type Dialect, type SqlValue, selectedColumns } from '../../../database/dialect.js'
import type { List, Order, Parameters, Position } from '../../../database/list.js'
import { MAX_KEY_LENGTH, storable } from '../../../ground/storable.js'
import { bannedAtSql, lastsSql } from '../../../rules/ban.js'
import { OVERRIDES, type OverrideEntry } from '../../../rules/overrides/override.js'
import { toEntry } from '../../../rules/read-entries.js'

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

/** A row as it is read, beside the columns of its fields. */
interface OverrideRow extends Omit<ListedOverride, 'entry' | 'isInForce' | 'position'> {
  readonly isInForce: number
  readonly [field: string]: SqlValue
}

/** Returns the list of overrides and bans. */
export function overrideList(
  { dialect, query }: Pick<Database, 'query' | 'dialect'>,
  privacy: AddressPrivacy | undefined,
  listing: OverrideListing,
  nowMs: number,
): List<ListedOverride> {
  const { text, kind, state, order } = listing
  const positionOf = ({ id, client = '', pathPattern = '', expiresAt = null }: OverrideRow) =>
    order === 'client' ? [client, pathPattern] : order === 'newest' ? [id] : [expiresAt, id]
  const inForceSql = (parameters: Parameters) =>
    `(expires_at IS NULL OR ${lastsSql(dialect, 'entry', parameters.add(Math.floor(nowMs)))})`
  return {
    order: overrideOrder(order),
    position: ({ position }) => position,
    where: (parameters) => [
      ...(kind === undefined ? [] : [KIND_SQL[kind]]),
      ...(state === undefined ? [] : [`${state === 'expired' ? 'NOT ' : ''}${inForceSql(parameters)}`]),
      ...(text === '' ? [] : [containsText(text, privacy, dialect, parameters)]),
    ],
    async select(rest, parameters) {
      const rows = await query<OverrideRow>(
        `SELECT id, ${selectedColumns(Object.keys(OVERRIDES.fields))}, updated_at AS "updatedAt",
           CASE WHEN ${inForceSql(parameters)} THEN 1 ELSE 0 END AS "isInForce",
           COALESCE((SELECT actor FROM ${dialect.table('rate_limit_change')} AS change
             WHERE change.entity = 'override' AND change.row_id = entry.id ORDER BY change.id DESC LIMIT 1), '') AS actor
         FROM ${dialect.table(OVERRIDES.table)} AS entry ${rest}`,
        parameters.values,
      )
      return rows.map((row) => ({
        id: row.id,
        entry: toEntry(OVERRIDES.fields, row),
        isInForce: row.isInForce === 1,
        updatedAt: row.updatedAt,
        position: positionOf(row),
        actor: row.actor,
      }))
    },
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
