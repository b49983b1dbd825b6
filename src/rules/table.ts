/** The only writer of rules and overrides: it validates, names the actor, writes, and has this process obey. */
import type { ConditionSources } from '../clients/condition-sources.js'
import type { Database } from '../database/database.js'
import { type Dialect, runStatement, type SqlValue, type SqlWork, toColumn } from '../database/dialect.js'
import { RuleValidationError } from '../ground/errors.js'
import type { Kind } from '../ground/field.js'
import { createEntry, fieldErrors } from './create-entry.js'
import {
  type Description,
  type Entry,
  type Extent,
  expandShorthand,
  type FieldTable,
  fieldEntries,
  givenFields,
  storedFields,
  type Values,
} from './description.js'
import { changeToken, currentAuthor, inOneAction } from './history/actor.js'
import { entriesAsJson, type IdentifiedEntry, parseEntries } from './read-entries.js'

/**
 * Runs `work` in one transaction, during which no others write the table, and resolves when this process obeys.
 *
 * @param nowMs the time of the change, by which a new row may have expired
 */
export function changeRows<Table extends FieldTable, Identity extends keyof Table & string, T>(
  database: Database,
  description: Description<Table, Identity>,
  nowMs: number,
  work: (table: LockedTable<Table, Identity>) => SqlWork<T>,
): Promise<T> {
  return changeLocked(database, [description], () => work(new LockedTable(description, database, nowMs)))
}

/**
 * Does the same with several tables. The changes are one action in the history.
 *
 * @throws RuleValidationError where the rules would have too many groups
 */
export async function changeLocked<T>(
  database: Database,
  descriptions: readonly Pick<Description, 'table' | 'watch'>[],
  work: () => SqlWork<T>,
): Promise<T> {
  const tables = descriptions.map(({ table }) => table)
  function* watched(): SqlWork<T> {
    const checks: (() => SqlWork<void>)[] = []
    for (const { watch } of descriptions) if (watch !== undefined) checks.push(yield* watch(database.dialect))
    const result = yield* work()
    for (const check of checks) yield* check()
    return result
  }
  const result = await inOneAction(() => database.locked(tables, watched))
  await database.rulesChanged()
  return result
}

/** A table that nobody else writes meanwhile. The triggers of the table record the history. */
export class LockedTable<Table extends FieldTable, Identity extends keyof Table & string> {
  readonly #description: Description<Table, Identity>
  readonly dialect: Dialect
  readonly #sources: ConditionSources | undefined
  readonly #nowMs: number

  constructor(
    description: Description<Table, Identity>,
    { dialect, sources }: Pick<Database, 'dialect' | 'sources'>,
    nowMs: number,
  ) {
    this.#description = description
    this.dialect = dialect
    this.#sources = sources
    this.#nowMs = nowMs
  }

  /** Returns the rows of a condition. */
  *find(where: string, parameters: readonly SqlValue[]): SqlWork<IdentifiedEntry<Table>[]> {
    const entries = entriesAsJson(this.#description, this.dialect, `WHERE ${where}`)
    const [row] = yield* runStatement<{ entries: string | null }>(`SELECT ${entries} AS entries`, parameters)
    return parseEntries(this.#description, row?.entries)
  }

  /** Returns the row that has the same identity; undefined where there is none. */
  *findSame(entry: Values): SqlWork<IdentifiedEntry<Table> | undefined> {
    const { identity } = this.#description
    const where = identity.map((name, index) => `${toColumn(name)} = $${index + 1}`).join(' AND ')
    const [row] = yield* this.find(
      where,
      identity.map((name) => String(entry[name])),
    )
    return row
  }

  /**
   * Creates a row.
   *
   * @returns its id; undefined where another row has its identity
   * @throws RuleValidationError with a message for every wrong field
   */
  *create(values: Values): SqlWork<number | undefined> {
    const entry = this.#toEntry(values, 'new')
    if ((yield* this.findSame(entry)) !== undefined) return undefined
    yield* this.write([entry])
    return (yield* this.findSame(entry))?.id
  }

  /**
   * Changes fields of a row that `find` returned.
   *
   * @returns false where another row has the identity that it would have
   * @throws RuleValidationError with a message for every field that would be wrong
   */
  *update({ id, entry }: IdentifiedEntry<Table>, given: Values): SqlWork<boolean> {
    const { table, fields } = this.#description
    const values = this.#expand(given)
    // A condition that is not changed was refused or accepted before.
    // Validated as given: no wrong value has a spelling.
    this.#validate({ ...entry, ...givenFields(fields, values) }, 'stored', values)
    const changes = storedFields(fields, values)
    const changed = { ...entry, ...changes }
    const same = yield* this.findSame(changed)
    if (same !== undefined && same.id !== id) return false
    const names = fieldEntries(fields).filter(([name]) => name in changes)
    const columns = this.#columns(names)
    yield* runStatement(
      `UPDATE ${this.dialect.table(table)} AS stored
       SET ${columns.map(({ column, value }) => `${column} = ${value}`).join(', ')} FROM ${this.dialect.jsonRows()}
       WHERE stored.id = ${this.dialect.whole('$4')}`,
      [JSON.stringify([storedValues(names, changed)]), this.#nowMs, changeToken(), id],
    )
    return true
  }

  /**
   * Sets fields of rows by one statement. The fields are valid whatever the others of their rows are.
   *
   * @param ids of at most some ten thousand rows
   * @throws RuleValidationError with a message for every wrong field
   */
  *setFields(ids: readonly number[], values: Values): SqlWork<void> {
    if (ids.length === 0) return
    const { table, fields } = this.#description
    this.#validate(values, 'part')
    const names = fieldEntries(fields).filter(([name]) => name in values)
    const columns = this.#columns(names)
    yield* runStatement(
      `UPDATE ${this.dialect.table(table)} AS stored
       SET ${columns.map(({ column, value }) => `${column} = ${value}`).join(', ')} FROM ${this.dialect.jsonRows()}
       WHERE ${this.dialect.isOneOf('stored.id', '$4', 'bigint')}`,
      [
        JSON.stringify([storedValues(names, storedFields(fields, values))]),
        this.#nowMs,
        changeToken(),
        JSON.stringify(ids),
      ],
    )
  }

  /**
   * Creates or replaces rows by one statement, where they are valid.
   *
   * @throws RuleValidationError with a message for every wrong field of the first row that has some
   */
  *restore(rows: readonly Values[], extent: 'new' | 'stored'): SqlWork<void> {
    yield* this.write(rows.map((values) => this.#toEntry(values, extent)))
  }

  /** Creates or replaces valid rows by one statement. */
  *write(entries: readonly Entry<Table>[]): SqlWork<void> {
    if (entries.length === 0) return
    const { table, fields, identity } = this.#description
    const names = fieldEntries(fields)
    const columns = this.#columns(names)
    // "WHERE true" is for SQLite, which would parse ON as the condition of a join.
    yield* runStatement(
      `INSERT INTO ${this.dialect.table(table)} (${columns.map(({ column }) => column).join(', ')})
       SELECT ${columns.map(({ value }) => value).join(', ')} FROM ${this.dialect.jsonRows()} WHERE true
       ON CONFLICT (${identity.map(toColumn).join(', ')})
       DO UPDATE SET ${columns.map(({ column }) => `${column} = excluded.${column}`).join(', ')}`,
      [JSON.stringify(entries.map((entry) => storedValues(names, entry))), this.#nowMs, changeToken()],
    )
  }

  /**
   * Deletes the rows of a condition, and names the actor in the changes that the triggers recorded, since a deleted row
   * cannot carry it.
   *
   * @returns the number of rows
   */
  *delete(where: string, parameters: readonly SqlValue[]): SqlWork<number> {
    const { table, entity } = this.#description
    const { source, actor, actionId } = currentAuthor()
    const deleted = yield* runStatement<{ id: number }>(
      `DELETE FROM ${this.dialect.table(table)} WHERE ${where} RETURNING id`,
      parameters,
    )
    if (deleted.length === 0) return 0
    yield* runStatement(
      `UPDATE ${this.dialect.table('rate_limit_change')} SET source = $1, actor = $2, action_id = $3
       WHERE entity = $4 AND action = 'delete' AND source = 'sql' AND ${this.dialect.isOneOf('row_id', '$5', 'bigint')}`,
      [source, actor, actionId, entity, JSON.stringify(deleted.map(({ id }) => id))],
    )
    return deleted.length
  }

  /** Deletes entries by their identities. */
  *deleteEntries(entries: readonly Entry<Table>[]): SqlWork<void> {
    if (entries.length > 0) yield* this.delete(...this.#haveIdentities(entries))
  }

  /** Returns the rows that have the identities of some values. */
  findAllSame(values: readonly Values[]): SqlWork<IdentifiedEntry<Table>[]> {
    return this.find(...this.#haveIdentities(values))
  }

  #haveIdentities(rows: readonly Values[]): [where: string, parameters: SqlValue[]] {
    const { identity } = this.#description
    const values = identity.map((_, index) => this.dialect.jsonField(index, 'text')).join(', ')
    return [
      `(${identity.map(toColumn).join(', ')}) IN (SELECT ${values} FROM ${this.dialect.jsonRows()})`,
      [JSON.stringify(rows.map((row) => identity.map((name) => row[name])))],
    ]
  }

  #toEntry(given: Values, extent: 'new' | 'stored'): Entry<Table> {
    const created = createEntry(this.#description, given, extent, { nowMs: this.#nowMs, sources: this.#sources })
    if ('entry' in created) return created.entry
    throw new RuleValidationError(created.errors, [], this.#description.entity)
  }

  #expand(given: Values): Values {
    const { values, errors } = expandShorthand(this.#description, given, this.#nowMs)
    if (Object.keys(errors).length > 0) throw new RuleValidationError(errors, [], this.#description.entity)
    return values
  }

  #validate(values: Values, extent: Extent, given = values): void {
    const context = { nowMs: this.#nowMs, sources: this.#sources }
    const errors = fieldErrors(this.#description, given, values, extent, context)
    if (Object.keys(errors).length > 0) throw new RuleValidationError(errors, [], this.#description.entity)
  }

  /** Returns the columns that a statement writes, with the values of a JSON row in `$1`, the time `$2` and the token `$3`. */
  #columns(names: readonly (readonly [string, { readonly kind: Kind }])[]) {
    const dialect = this.dialect
    return [
      ...names.map(([name, { kind }], index) => ({
        column: toColumn(name),
        value:
          kind === 'moment'
            ? dialect.fromMs(dialect.jsonField(index, 'bigint'))
            : dialect.jsonField(index, kind === 'integer' ? 'bigint' : kind),
      })),
      { column: 'updated_at', value: dialect.fromMs(dialect.whole('$2')) },
      { column: 'changed_by', value: '$3' },
    ]
  }
}

function storedValues(names: readonly (readonly [string, { readonly kind: Kind }])[], entry: Values): unknown[] {
  return names.map(([name, { kind }]) => {
    const value = entry[name]
    return kind === 'moment' && typeof value === 'string' ? Date.parse(value) : value
  })
}
