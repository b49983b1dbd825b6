import type { Database } from '../../database/database.js'
import type { SqlValue, SqlWork } from '../../database/dialect.js'
import { RevertError } from '../../ground/errors.js'
import type { Description, FieldTable } from '../description.js'
import { OVERRIDES } from '../overrides/override.js'
import { RULES } from '../rule.js'
import { changeRows, type LockedTable } from '../table.js'
import { CHANGE_SOURCES, type ChangeSource } from './actor.js'

/** A change of a rule or an override. */
export interface Change {
  readonly id: number
  readonly changedAt: Date
  /** The actor given with `asActor`; empty without one. */
  readonly actor: string
  /**
   * The source of the change: this package's client, its panel or dashboard, its API, a ban or an import; or raw SQL.
   */
  readonly source: ChangeSource
  readonly entity: 'rule' | 'override'
  /** The rule's name, or the override's client. */
  readonly name: string
  readonly action: 'create' | 'update' | 'delete'
  /** The row's fields before and after; null where there was none. Timestamps are milliseconds since the epoch. */
  readonly before: ChangedFields | null
  readonly after: ChangedFields | null
}

export type ChangedFields = Readonly<Record<string, string | number | boolean | null>>

export interface HistoryOptions {
  /** The most changes to return, the newest first; 100 unless given. */
  readonly limit?: number | undefined
  /** Selects changes through this door. */
  readonly source?: ChangeSource | undefined
  /** Selects changes of this actor, by the whole name. */
  readonly actor?: string | undefined
  readonly entity?: Change['entity'] | undefined
  /** Selects changes from this moment on. */
  readonly since?: Date | undefined
  /** Selects changes before this moment. */
  readonly until?: Date | undefined
  /** Selects changes older than the one of this id. */
  readonly beforeId?: number | undefined
}

interface ChangeRow {
  readonly id: number
  readonly changedAt: number
  readonly actor: string
  readonly source: string
  readonly entity: string
  readonly rowId: number
  readonly name: string
  readonly action: string
  readonly before: string | null
  readonly after: string | null
}

type ChangeTable = Pick<Database, 'query' | 'dialect'>

const DEFAULT_LIMIT = 100
const MAX_LIMIT = 10_000
const DESCRIPTIONS: Readonly<Record<Change['entity'], Description>> = { rule: RULES, override: OVERRIDES }

/**
 * Lists the changes, the newest first.
 *
 * @param name of a rule, or the client of an override in its spellings, now or at any time before; all changes unless
 * given
 */
export async function listChanges(
  database: Database,
  name: string | readonly string[] | undefined,
  { limit = DEFAULT_LIMIT, source, actor, entity, since, until, beforeId }: HistoryOptions = {},
): Promise<Change[]> {
  if (!Number.isInteger(limit) || limit < 1 || limit > MAX_LIMIT) {
    throw new RangeError(`limit is ${limit}: give an integer from 1 to ${MAX_LIMIT}`)
  }
  // A name has no NUL, and PostgreSQL refuses such a parameter.
  if (`${name}${actor}`.includes('\0')) return []
  const { dialect } = database
  const table = dialect.table('rate_limit_change')
  const parameters: SqlValue[] = [limit]
  const conditions: string[] = []
  function filter(value: SqlValue | undefined, toCondition: (placeholder: string) => string): void {
    if (value !== undefined) conditions.push(toCondition(`$${parameters.push(value)}`))
  }
  filter(
    name === undefined ? name : JSON.stringify([name].flat()),
    // A rule that was renamed keeps its history.
    (placeholder) => `(entity, row_id) IN (SELECT named.entity, named.row_id FROM ${table} AS named
      WHERE named.entity IN ('rule', 'override') AND ${dialect.isOneOf('named.name', placeholder, 'text')})`,
  )
  filter(source, (placeholder) => `source = ${placeholder}`)
  filter(actor, (placeholder) => `actor = ${placeholder}`)
  filter(entity, (placeholder) => `entity = ${placeholder}`)
  filter(since?.getTime(), (placeholder) => `changed_at >= ${dialect.fromMs(placeholder)}`)
  filter(until?.getTime(), (placeholder) => `changed_at < ${dialect.fromMs(placeholder)}`)
  filter(beforeId, (placeholder) => `id < ${dialect.whole(placeholder)}`)
  const where = conditions.length === 0 ? '' : `WHERE ${conditions.join(' AND ')}`
  return (await readChanges(database, where, parameters)).map(toChange)
}

/** Returns the change of an id; undefined where there is none. */
export async function findChange(database: Database, id: number): Promise<Change | undefined> {
  const [row] = await readChanges(database, 'WHERE recorded.id = $2', [1, id])
  return row && toChange(row)
}

/** Reads the changes of the rules or overrides that have, or had, one of these names: the newest first. */
export async function readChangesFor(
  source: ChangeTable,
  entity: Change['entity'],
  names: readonly string[],
  limit: number,
): Promise<Change[]> {
  const where = `WHERE entity = $2 AND ${source.dialect.isOneOf('name', '$3', 'text')}`
  return (await readChanges(source, where, [limit, entity, JSON.stringify(names)])).map(toChange)
}

/** A change, with the id of the row that was changed. */
export interface RowChange extends Change {
  readonly rowId: number
}

/** Reads all changes of the rules or overrides that have, or had at any time, one of these names: the newest first. */
export async function readRowChanges(
  source: ChangeTable,
  entity: Change['entity'],
  names: readonly string[],
  limit: number,
): Promise<RowChange[]> {
  const { dialect } = source
  const where = `WHERE entity = $2 AND row_id IN (SELECT named.row_id FROM ${dialect.table('rate_limit_change')} AS named
    WHERE named.entity = $2 AND ${dialect.isOneOf('named.name', '$3', 'text')})`
  const rows = await readChanges(source, where, [limit, entity, JSON.stringify(names)])
  return rows.map((row) => ({ ...toChange(row), rowId: row.rowId }))
}

/**
 * Undoes one change: restores the fields that it changed, deletes the row that it created, or creates the row that it
 * deleted. Later changes of other fields stay. The history records the revert like any other change.
 *
 * @throws RevertError when the change does not exist, or the values that it wrote are gone
 * @throws RuleValidationError when the earlier state would not be valid today
 */
export async function revertChange(database: Database, nowMs: number, changeId: number): Promise<void> {
  const [row] = Number.isSafeInteger(changeId)
    ? await readChanges(database, 'WHERE recorded.id = $2', [1, changeId])
    : []
  if (row === undefined) throw new RevertError(`There is no change ${changeId}`)
  const change = toChange(row)
  await changeRows(database, DESCRIPTIONS[change.entity], nowMs, (table) => undo(table, change, row.rowId))
}

type ChangedTable = LockedTable<FieldTable, string>

function* undo(table: ChangedTable, { id, entity, name, ...change }: Change, rowId: number): SqlWork<void> {
  const before = change.before && stored(entity, change.before)
  const after = change.after && stored(entity, change.after)
  if (after === null) {
    if ((yield* table.create(before ?? {})) === undefined) throw taken()
    return
  }
  const [standing] = yield* table.find('id = $1', [rowId])
  // The entry may have been deleted and created again.
  const row = standing ?? (yield* table.findSame(after))
  const written = Object.entries(before === null ? after : changedFields(after, before))
  if (row === undefined || !written.every(([field, value]) => row.entry[field] === value)) {
    throw new RevertError(
      `Change ${id} of ${entity} ${JSON.stringify(name)} cannot be reverted: it was changed again since, or deleted. Revert the later changes first`,
    )
  }
  if (before === null) yield* table.delete('id = $1', [row.id])
  else if (!(yield* table.update(row, changedFields(before, after)))) throw taken()

  function taken(): Error {
    const identity = before?.[DESCRIPTIONS[entity].identity[0] ?? ''] ?? name
    return new RevertError(
      `Change ${id} cannot be reverted: there is ${entity === 'rule' ? 'a rule' : 'an override'} ${JSON.stringify(identity)} again`,
    )
  }
}

/** Returns the fields of a state that differ in the other one. */
function changedFields(state: ChangedFields, other: ChangedFields): ChangedFields {
  return Object.fromEntries(Object.entries(state).filter(([field, value]) => value !== other[field]))
}

/** Returns the fields as documents have them. */
function stored(entity: Change['entity'], changed: ChangedFields): ChangedFields {
  return Object.fromEntries(
    Object.entries(changed).map(([name, value]) => {
      return [name, isMoment(entity, name) && typeof value === 'number' ? new Date(value).toISOString() : value]
    }),
  )
}

/** Returns whether the history stores a field in milliseconds since the epoch. */
export function isMoment(entity: Change['entity'], name: string): boolean {
  return DESCRIPTIONS[entity].fields[name]?.kind === 'moment'
}

function readChanges(
  { query, dialect }: ChangeTable,
  where: string,
  parameters: readonly SqlValue[],
): Promise<ChangeRow[]> {
  return query<ChangeRow>(
    `SELECT id, changed_at AS "changedAt", actor, source, entity, row_id AS "rowId", name, action,
       before, after
     FROM ${dialect.table('rate_limit_change')} AS recorded ${where} ORDER BY id DESC LIMIT $1`,
    parameters,
  )
}

function toChange({ rowId: _, changedAt, source, entity, action, before, after, ...row }: ChangeRow): Change {
  return {
    ...row,
    changedAt: new Date(changedAt),
    source: CHANGE_SOURCES.find((each) => each === source) ?? 'sql',
    entity: entity === 'override' ? entity : 'rule',
    action: action === 'create' || action === 'delete' ? action : 'update',
    before: before === null ? null : JSON.parse(before),
    after: after === null ? null : JSON.parse(after),
  }
}
