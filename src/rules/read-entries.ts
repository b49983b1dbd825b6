/** Reads rules and overrides as documents have them, also rows that raw SQL filled with values of other types. */

import type { Database } from '../database/database.js'
import {
  type Dialect,
  runStatement,
  type SqlValue,
  type SqlWork,
  selectedColumns,
  toColumn,
} from '../database/dialect.js'
import type { Kind } from '../ground/field.js'
import { type Description, type Entry, type FieldTable, fieldEntries } from './description.js'

/** Rows per statement: some milliseconds of work. */
const PAGE_SIZE = 500

/** Reads all entries, a page at a time. */
export function* readEntries<Table extends FieldTable, Identity extends keyof Table & string>(
  { table, fields }: Description<Table, Identity>,
  dialect: Dialect,
): SqlWork<Entry<Table>[]> {
  const entries: Entry<Table>[] = []
  for (let lastId = Number.MIN_SAFE_INTEGER; ; ) {
    const rows = yield* runStatement<Record<string, SqlValue | boolean> & { readonly id: number }>(
      `SELECT id, ${selectedColumns(Object.keys(fields))} FROM ${dialect.table(table)}
       WHERE id > $1 ORDER BY id LIMIT ${PAGE_SIZE}`,
      [lastId],
    )
    for (const row of rows) {
      entries.push(toEntry(fields, row))
      lastId = row.id
    }
    if (rows.length < PAGE_SIZE) return entries
  }
}

/** Returns the entry of a row, as `selectedColumns` selects it. */
export function toEntry<Table extends FieldTable>(fields: Table, row: Readonly<Record<string, unknown>>): Entry<Table> {
  const values = fieldEntries(fields).map(([name, { kind }]) => [name, documentValue(kind, row[name])])
  // A row that raw SQL filled with other types is returned unchanged.
  return Object.fromEntries(values) as Entry<Table>
}

/** An entry with the id of its row. */
export interface IdentifiedEntry<Table extends FieldTable> {
  readonly id: number
  readonly entry: Entry<Table>
  /** The fields that raw SQL filled with values of other types. */
  readonly unreadable: readonly string[]
}

/**
 * Reads some entries as one text, which takes half the time of reading rows.
 *
 * @param rest the statement from its WHERE on, with an order
 */
export async function readSomeEntries<Table extends FieldTable>(
  { query, dialect }: Pick<Database, 'query' | 'dialect'>,
  description: Pick<Description<Table>, 'table' | 'fields'>,
  rest: string,
  parameters: readonly SqlValue[],
): Promise<IdentifiedEntry<Table>[]> {
  const [row] = await query<{ entries: string | null }>(
    `SELECT ${entriesAsJson(description, dialect, rest)} AS entries`,
    parameters,
  )
  return parseEntries(description, row?.entries)
}

/** Returns an expression for some entries as one text, which `parseEntries` reads. */
export function entriesAsJson(
  { table, fields }: Pick<Description, 'table' | 'fields'>,
  dialect: Dialect,
  rest: string,
): string {
  const columns = fieldEntries(fields).map(([name, { kind }]) => {
    const column = toColumn(name)
    return kind === 'moment' ? `CASE WHEN ${column} IS NOT NULL THEN ${dialect.toMs(column)} END` : column
  })
  return `(SELECT ${dialect.rowsAsJson(['id', ...columns].join(', '))}
     FROM (SELECT * FROM ${dialect.table(table)} ${rest}) AS found)`
}

/** @param text null where there are no entries */
export function parseEntries<Table extends FieldTable>(
  { fields }: Pick<Description<Table>, 'fields'>,
  text: string | null | undefined,
): IdentifiedEntry<Table>[] {
  const described = fieldEntries(fields)
  const rows: [number, ...unknown[]][] = JSON.parse(text ?? '[]')
  return rows.map(([id, ...values]) => {
    const entry: Record<string, unknown> = {}
    const unreadable: string[] = []
    for (const [index, [name, { kind }]] of described.entries()) {
      entry[name] = documentValue(kind, values[index])
      if (!isOfKind(kind, values[index])) unreadable.push(name)
    }
    // A row that raw SQL filled with other types names them as unreadable.
    return { id, entry: entry as Entry<Table>, unreadable }
  })
}

/**
 * Yields all entries in the order of documents, slice by slice: one at least, which may be empty. Of all others it holds
 * the ids, since values that raw SQL wrote may be in no order.
 */
export async function* readEntrySlices<Table extends FieldTable, Identity extends keyof Table & string>(
  { query, dialect }: Pick<Database, 'query' | 'dialect'>,
  description: Description<Table, Identity>,
): AsyncGenerator<Entry<Table>[]> {
  const order = description.order(dialect)
  const [row] = await query<{ ids: string | null }>(
    `SELECT ${dialect.rowsAsJson('id')} AS ids
     FROM (SELECT id FROM ${dialect.table(description.table)} ORDER BY ${order}) AS ordered`,
  )
  const ids: readonly [number][] = JSON.parse(row?.ids ?? '[]')
  for (let start = 0; start === 0 || start < ids.length; start += PAGE_SIZE) {
    const slice = JSON.stringify(ids.slice(start, start + PAGE_SIZE).flat())
    const rest = `WHERE ${dialect.isOneOf('id', '$1', 'bigint')} ORDER BY ${order}`
    yield (await readSomeEntries({ query, dialect }, description, rest, [slice])).map(({ entry }) => entry)
  }
}

/** Returns whether a column has a value that its type has. SQLite stores a value of any type in every column. */
function isOfKind(kind: Kind, value: unknown): boolean {
  if (kind === 'boolean') return typeof value === 'boolean' || value === 0 || value === 1
  if (kind === 'moment') return value === null || typeof value === 'number'
  return typeof value === (kind === 'text' ? 'string' : 'number')
}

/** @param value of a moment in milliseconds */
function documentValue(kind: Kind, value: unknown): unknown {
  if (kind === 'boolean') return Boolean(value)
  if (kind !== 'moment') return value
  const moment = new Date(typeof value === 'number' ? value : Number.NaN)
  return Number.isNaN(moment.getTime()) ? value : moment.toISOString()
}
