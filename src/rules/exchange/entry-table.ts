/** Reads and writes the entries of a rule document, whole tables at a time. */

import type { Database } from '../../database/database.js'
import {
  type Dialect,
  runStatement,
  type SqlValue,
  type SqlWork,
  selectedColumns,
  toColumn,
} from '../../database/dialect.js'
import { type Description, type Entry, type FieldTable, fieldEntries, type Kind } from '../description.js'
import { changeToken, currentAuthor } from '../history/actor.js'

/** Rows per statement: some milliseconds of work. */
const PAGE_SIZE = 500

/** Reads all entries, a page at a time. */
export function* readEntries<Table extends FieldTable, Identity extends keyof Table & string>(
  { table, fields }: Description<Table, Identity>,
  dialect: Dialect,
): SqlWork<Entry<Table>[]> {
  const described = fieldEntries(fields)
  const entries: Entry<Table>[] = []
  for (let lastId = Number.MIN_SAFE_INTEGER; ; ) {
    const rows = yield* runStatement<Record<string, SqlValue | boolean> & { readonly id: number }>(
      `SELECT id, ${selectedColumns(Object.keys(fields))} FROM ${dialect.table(table)}
       WHERE id > $1 ORDER BY id LIMIT ${PAGE_SIZE}`,
      [lastId],
    )
    for (const row of rows) {
      const entry = Object.fromEntries(described.map(([name, { kind }]) => [name, documentValue(kind, row[name])]))
      // A row that raw SQL filled with other types is returned unchanged.
      entries.push(entry as Entry<Table>)
      lastId = row.id
    }
    if (rows.length < PAGE_SIZE) return entries
  }
}

/** An entry with the id of its row. */
export interface IdentifiedEntry<Table extends FieldTable> {
  readonly id: number
  readonly entry: Entry<Table>
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
    for (const [index, [name, { kind }]] of described.entries()) entry[name] = documentValue(kind, values[index])
    // As above.
    return { id, entry: entry as Entry<Table> }
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

/** Creates or replaces entries by one statement. The triggers of the tables record the history. */
export function* writeEntries<Table extends FieldTable, Identity extends keyof Table & string>(
  { table, fields, identity }: Description<Table, Identity>,
  dialect: Dialect,
  entries: readonly Entry<Table>[],
  nowMs: number,
): SqlWork<void> {
  if (entries.length === 0) return
  const described = fieldEntries(fields)
  const rows = entries.map((entry) => described.map(([name, { kind }]) => storedValue(kind, entry[name])))
  const values = described.map(([, { kind }], index) => columnValue(dialect, kind, index))
  const columns = described.map(([name]) => toColumn(name))
  const replaced = [...columns, 'updated_at', 'changed_by'].map((column) => `${column} = excluded.${column}`)
  // "WHERE true" is for SQLite, which would parse ON as the condition of a join.
  yield* runStatement(
    `INSERT INTO ${dialect.table(table)} (${columns.join(', ')}, updated_at, changed_by)
     SELECT ${values.join(', ')}, ${dialect.fromMs(dialect.whole('$2'))}, $3 FROM ${dialect.jsonRows()} WHERE true
     ON CONFLICT (${identity.map(toColumn).join(', ')}) DO UPDATE SET ${replaced.join(', ')}`,
    [JSON.stringify(rows), nowMs, changeToken({ ...currentAuthor(), source: 'import' })],
  )
}

/**
 * Deletes entries by one statement, and sets the actor in the changes that the triggers recorded, since a deleted row
 * cannot carry it. The caller must have locked the table.
 */
export function* deleteEntries<Table extends FieldTable, Identity extends keyof Table & string>(
  { table, entity, identity }: Description<Table, Identity>,
  dialect: Dialect,
  entries: readonly Entry<Table>[],
): SqlWork<void> {
  if (entries.length === 0) return
  const changes = dialect.table('rate_limit_change')
  const [newest] = yield* runStatement<{ id: number | null }>(`SELECT MAX(id) AS id FROM ${changes}`)
  const rows = entries.map((entry) => identity.map((name) => entry[name]))
  yield* runStatement(
    `DELETE FROM ${dialect.table(table)} WHERE (${identity.map(toColumn).join(', ')}) IN
     (SELECT ${identity.map((_, index) => dialect.jsonField(index, 'text')).join(', ')} FROM ${dialect.jsonRows()})`,
    [JSON.stringify(rows)],
  )
  yield* runStatement(
    `UPDATE ${changes} SET source = 'import', actor = $1
     WHERE id > ${dialect.whole('$2')} AND entity = $3 AND action = 'delete'`,
    [currentAuthor().actor, newest?.id ?? 0, entity],
  )
}

function columnValue(dialect: Dialect, kind: Kind, index: number): string {
  if (kind === 'moment') return dialect.fromMs(dialect.jsonField(index, 'bigint'))
  return dialect.jsonField(index, kind === 'integer' ? 'bigint' : kind)
}

function storedValue(kind: Kind, value: unknown): unknown {
  return kind === 'moment' && typeof value === 'string' ? Date.parse(value) : value
}

/** @param value of a moment in milliseconds */
function documentValue(kind: Kind, value: unknown): unknown {
  if (kind === 'boolean') return Boolean(value)
  if (kind !== 'moment') return value
  const moment = new Date(typeof value === 'number' ? value : Number.NaN)
  return Number.isNaN(moment.getTime()) ? value : moment.toISOString()
}
