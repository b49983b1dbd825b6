/** Reads rules and overrides a page at a time, also rows that raw SQL filled with what Prisma cannot read. */
import Type from 'typebox'
import type { Database } from '../db/database.js'
import type { SqlValue } from '../db/dialect.js'
import { readSomeEntries } from '../exchange/entry-table.js'
import { OVERRIDES } from '../overrides/override.js'
import { RULES, type RuleEntry } from '../rules/rule.js'
import { PlaceNumber, PlaceText, parseCursor, toCursor } from './cursor.js'
import { DEFAULT_LIMIT, type StoredOverride } from './entry-schemas.js'

/** A page of a list. */
export interface Page<Item> {
  readonly items: readonly Item[]
  /** Null at the end. */
  readonly nextCursor: string | null
}

export interface PageOptions {
  readonly limit?: number | undefined
  readonly cursor?: string | undefined
}

/**
 * Makes a page of rows, of which one more than its limit was read.
 *
 * @param placeOf returns the place of a row in the list
 */
export function toPage<Item>(
  list: string,
  rows: readonly Item[],
  limit: number,
  placeOf: (item: Item) => readonly unknown[],
): Page<Item> {
  const items = rows.slice(0, limit)
  const last = items.at(-1)
  const nextCursor = rows.length > limit && last !== undefined ? toCursor(list, placeOf(last)) : null
  return { items, nextCursor }
}

const RulePlace = Type.Tuple([PlaceNumber, PlaceText])

/** Reads rules by priority, the highest first, and name. */
export async function readRules(
  database: Database,
  { limit = DEFAULT_LIMIT, cursor }: PageOptions,
): Promise<Page<RuleEntry>> {
  const { dialect } = database
  const after = cursor === undefined ? undefined : parseCursor('rules', RulePlace, cursor)
  const name = dialect.bytewise('name')
  const where =
    after === undefined
      ? ''
      : `WHERE priority < ${dialect.whole('$2')} OR (priority = ${dialect.whole('$2')} AND ${name} > $3)`
  const rows = await selectRules(database, `${where} ORDER BY ${RULES.order(dialect)} LIMIT $1`, [
    limit + 1,
    ...(after ?? []),
  ])
  return toPage('rules', rows, limit, (rule) => [rule.priority, rule.name])
}

export async function findRule(database: Database, name: string): Promise<RuleEntry | undefined> {
  const [rule] = await selectRules(database, 'WHERE name = $1', [name])
  return rule
}

async function selectRules(database: Database, rest: string, parameters: readonly SqlValue[]): Promise<RuleEntry[]> {
  return (await readSomeEntries(database, RULES, rest, parameters)).map(({ entry }) => entry)
}

const IdPlace = Type.Tuple([PlaceNumber])

/** Reads overrides in the order of their ids. */
export async function readOverrides(
  database: Database,
  { limit = DEFAULT_LIMIT, cursor, clients }: PageOptions & { readonly clients?: readonly string[] | undefined },
): Promise<Page<StoredOverride>> {
  const { dialect } = database
  const list = `overrides ${clients?.join() ?? ''}`
  const [afterId] = cursor === undefined ? [-1] : parseCursor(list, IdPlace, cursor)
  const isTheirs = clients === undefined ? '' : `AND ${dialect.isOneOf('client', '$3', 'text')}`
  const rows = await selectOverrides(database, `WHERE id > ${dialect.whole('$2')} ${isTheirs} ORDER BY id LIMIT $1`, [
    limit + 1,
    afterId,
    ...(clients === undefined ? [] : [JSON.stringify(clients)]),
  ])
  return toPage(list, rows, limit, ({ id }) => [id])
}

export async function findOverride(database: Database, id: number): Promise<StoredOverride | undefined> {
  const [override] = await selectOverrides(database, `WHERE id = ${database.dialect.whole('$1')}`, [id])
  return override
}

async function selectOverrides(database: Database, rest: string, parameters: readonly SqlValue[]) {
  const found = await readSomeEntries(database, OVERRIDES, rest, parameters)
  return found.map(({ id, entry }): StoredOverride => ({ id, ...entry }))
}
