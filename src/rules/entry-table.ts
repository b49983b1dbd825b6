/** Reads and writes the entries of a rule document, whole tables at a time. */
import { ask, type Dialect, type SqlValue, type Steps } from '../db/dialect.js'
import { changeToken, currentActor } from './actor.js'
import type { Section } from './sections.js'

export function* readEntries<Entry, Identity extends keyof Entry>(
  section: Section<Entry, Identity>,
  dialect: Dialect,
): Steps<Entry[]> {
  const columns = section.columns.map(([field, column]) => `${column} AS "${field}"`).join(', ')
  const rows = yield* ask<{ [Field in keyof Entry]: SqlValue | boolean }>(
    `SELECT ${columns} FROM ${dialect.table(section.table)}`,
  )
  return rows.map((row) => {
    const entry: Record<string, unknown> = { ...row }
    for (const [field, , kind] of section.columns) {
      if (kind === 'boolean') entry[field] = Boolean(row[field])
      if (kind === 'moment') entry[field] = momentText(row[field])
    }
    // A row that raw SQL filled with something else is told as it is.
    return entry as Entry
  })
}

/** Creates or replaces entries by one statement. The triggers of the tables keep their history. */
export function* writeEntries<Entry, Identity extends keyof Entry>(
  { table, columns, identity }: Section<Entry, Identity>,
  dialect: Dialect,
  entries: readonly Entry[],
  nowMs: number,
): Steps<void> {
  if (entries.length === 0) return
  const rows = entries.map((entry) => columns.map(([field, , kind]) => storedValue(entry[field], kind)))
  const values = columns.map(([, , kind], place) =>
    kind === 'moment' ? dialect.fromMs(dialect.jsonField(place, 'bigint')) : dialect.jsonField(place, kind),
  )
  const names = columns.map(([, column]) => column)
  const keys = columns.flatMap(([field, column]) => (identity.includes(field) ? [column] : []))
  const replaced = [...names, 'updated_at', 'changed_by'].map((name) => `${name} = excluded.${name}`)
  // "WHERE true" is for SQLite, which would take ON for the condition of a join.
  yield* ask(
    `INSERT INTO ${dialect.table(table)} (${names.join(', ')}, updated_at, changed_by)
     SELECT ${values.join(', ')}, ${dialect.fromMs(dialect.whole('$2'))}, $3 FROM ${dialect.jsonRows()} WHERE true
     ON CONFLICT (${keys.join(', ')}) DO UPDATE SET ${replaced.join(', ')}`,
    [JSON.stringify(rows), nowMs, changeToken()],
  )
}

/**
 * Deletes entries by one statement, and says who did it: a deleted row cannot carry that, so it goes into the changes
 * that the triggers recorded. Nobody else may write to the table meanwhile.
 */
export function* deleteEntries<Entry, Identity extends keyof Entry>(
  { table, entity, columns, identity }: Section<Entry, Identity>,
  dialect: Dialect,
  entries: readonly Entry[],
): Steps<void> {
  if (entries.length === 0) return
  const changes = dialect.table('rate_limit_change')
  const [newest] = yield* ask<{ id: number | null }>(`SELECT MAX(id) AS id FROM ${changes}`)
  const keys = columns.filter(([field]) => identity.includes(field))
  const rows = entries.map((entry) => keys.map(([field]) => entry[field]))
  yield* ask(
    `DELETE FROM ${dialect.table(table)} WHERE (${keys.map(([, column]) => column).join(', ')}) IN
     (SELECT ${keys.map((_, place) => dialect.jsonField(place, 'text')).join(', ')} FROM ${dialect.jsonRows()})`,
    [JSON.stringify(rows)],
  )
  yield* ask(
    `UPDATE ${changes} SET source = 'client', actor = $1
     WHERE id > ${dialect.whole('$2')} AND entity = $3 AND action = 'delete'`,
    [currentActor(), newest?.id ?? 0, entity],
  )
}

function storedValue(value: unknown, kind: string): unknown {
  return kind === 'moment' && typeof value === 'string' ? Date.parse(value) : value
}

/** @param value milliseconds */
function momentText(value: unknown): unknown {
  const moment = new Date(typeof value === 'number' ? value : Number.NaN)
  return Number.isNaN(moment.getTime()) ? value : moment.toISOString()
}
