import type { Database } from '../../database/database.js'
import type { SqlValue } from '../../database/dialect.js'
import { type List, readPage } from '../../database/list.js'
import type { Description } from '../description.js'
import { OVERRIDES } from '../overrides/override.js'
import { RULES } from '../rule.js'
import { CHANGE_SOURCES, type ChangeSource } from './actor.js'

/** What changes are of. */
export const CHANGE_ENTITIES = ['rule', 'override', 'incident'] as const

/** A change of a rule or an override, or that an incident is ignored or watched again. */
export interface Change {
  readonly id: number
  readonly changedAt: Date
  /** The actor given with `asActor`; empty without one. */
  readonly actor: string
  /**
   * The source of the change: this package's client, its panel or dashboard, its API, a ban or an import; or raw SQL.
   */
  readonly source: ChangeSource
  readonly entity: (typeof CHANGE_ENTITIES)[number]
  /** The rule's name, or the client of the override or the incident; a policy's incident is `policy:` and its name. */
  readonly name: string
  readonly action: 'create' | 'update' | 'delete'
  /** The same for all changes of one action, such as a bulk or an import; empty for raw SQL. */
  readonly actionId: string
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
  readonly actionId: string
  readonly before: string | null
  readonly after: string | null
}

type ChangeTable = Pick<Database, 'query' | 'dialect'>

const DEFAULT_LIMIT = 100
const MAX_LIMIT = 10_000
export const DESCRIPTIONS: Readonly<Record<Description['entity'], Description>> = { rule: RULES, override: OVERRIDES }

/**
 * Lists the changes, the newest first.
 *
 * @param name of a rule, or the client of an override in its spellings, now or at any time before; all changes unless
 * given
 */
export async function listChanges(
  database: Database,
  name: string | readonly string[] | undefined,
  { limit = DEFAULT_LIMIT, beforeId, ...filter }: HistoryOptions = {},
): Promise<Change[]> {
  if (!Number.isInteger(limit) || limit < 1 || limit > MAX_LIMIT) {
    throw new RangeError(`limit is ${limit}: give an integer from 1 to ${MAX_LIMIT}`)
  }
  const from = beforeId === undefined ? undefined : ({ side: 'after', position: [beforeId] } as const)
  const { rows } = await readPage(database.dialect, changeList(database, name, filter), { from, limit })
  return rows
}

/** Returns the list of changes, the newest first; `name` is as of `listChanges`. */
export function changeList(
  database: ChangeTable,
  name: string | readonly string[] | undefined,
  { source, actor, entity, since, until }: Omit<HistoryOptions, 'limit' | 'beforeId'> = {},
): List<Change> {
  const { dialect } = database
  const table = dialect.table('rate_limit_change')
  return {
    order: [{ sql: 'id', kind: 'whole', isDescending: true }],
    position: ({ id }) => [id],
    where(parameters) {
      // A name has no NUL, and PostgreSQL refuses such a parameter.
      if (`${name}${actor}`.includes('\0')) return ['false']
      const filter = (value: SqlValue | undefined, toCondition: (placeholder: string) => string) =>
        value === undefined ? [] : [toCondition(parameters.add(value))]
      return [
        ...filter(
          name === undefined ? name : JSON.stringify([name].flat()),
          // A rule that was renamed keeps its history; an incident has no row.
          (placeholder) => `((entity, row_id) IN (SELECT named.entity, named.row_id FROM ${table} AS named
              WHERE named.entity IN ('rule', 'override') AND ${dialect.isOneOf('named.name', placeholder, 'text')})
            OR entity = 'incident' AND ${dialect.isOneOf('name', placeholder, 'text')})`,
        ),
        ...filter(source, (placeholder) => `source = ${placeholder}`),
        ...filter(actor, (placeholder) => `actor = ${placeholder}`),
        ...filter(entity, (placeholder) => `entity = ${placeholder}`),
        ...filter(since?.getTime(), (placeholder) => `changed_at >= ${dialect.fromMs(placeholder)}`),
        ...filter(until?.getTime(), (placeholder) => `changed_at < ${dialect.fromMs(placeholder)}`),
      ]
    },
    select: async (rest, { values }) => (await selectChanges(database, rest, values)).map(toChange),
  }
}

/** Returns the change of an id; undefined where there is none. */
export async function findChange(database: Database, id: number): Promise<Change | undefined> {
  const [row] = await readChanges(database, 'WHERE recorded.id = $2', [1, id])
  return row && toChange(row)
}

/** Reads the changes of the rules or overrides that have, or had, one of these names: the newest first. */
export async function readChangesFor(
  source: ChangeTable,
  entity: Description['entity'],
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
  entity: Description['entity'],
  names: readonly string[],
  limit: number,
): Promise<RowChange[]> {
  const { dialect } = source
  const where = `WHERE entity = $2 AND row_id IN (SELECT named.row_id FROM ${dialect.table('rate_limit_change')} AS named
    WHERE named.entity = $2 AND ${dialect.isOneOf('named.name', '$3', 'text')})`
  const rows = await readChanges(source, where, [limit, entity, JSON.stringify(names)])
  return rows.map(toRowChange)
}

/**
 * Reads the changes of the action that a change belongs to, the oldest first; a change of raw SQL belongs to none, and stands
 * alone.
 *
 * @returns at most `limit` changes; none where the change does not exist
 */
export async function readAction(database: ChangeTable, changeId: number, limit: number): Promise<RowChange[]> {
  const [row] = Number.isSafeInteger(changeId)
    ? await readChanges(database, 'WHERE recorded.id = $2', [1, changeId])
    : []
  if (row === undefined) return []
  const rows = row.actionId === '' ? [row] : await readChanges(database, 'WHERE action_id = $2', [limit, row.actionId])
  return rows.toReversed().map(toRowChange)
}

/** Reads changes by their ids, with the ids of their rows. */
export async function readChangesOf(source: ChangeTable, ids: readonly number[]): Promise<RowChange[]> {
  const where = `WHERE ${source.dialect.isOneOf('recorded.id', '$2', 'bigint')}`
  const rows = ids.length === 0 ? [] : await readChanges(source, where, [ids.length, JSON.stringify(ids)])
  return rows.map(toRowChange)
}

/** Returns how many changes the actions of some changes made. */
export async function countOfActions(
  { query, dialect }: ChangeTable,
  changes: readonly Change[],
): Promise<ReadonlyMap<string, number>> {
  const ids = [...new Set(changes.map(({ actionId }) => actionId))].filter((id) => id !== '')
  const counts = await query<{ id: string; count: number }>(
    `SELECT action_id AS id, COUNT(*) AS count FROM ${dialect.table('rate_limit_change')}
     WHERE ${dialect.isOneOf('action_id', '$1', 'text')} GROUP BY action_id`,
    [JSON.stringify(ids)],
  )
  return new Map(counts.map(({ id, count }) => [id, Number(count)]))
}

/** Returns the newest change of an action; undefined where it changed nothing. */
export async function findChangeOf(database: ChangeTable, actionId: string): Promise<Change | undefined> {
  const [row] = await readChanges(database, 'WHERE action_id = $2', [1, actionId])
  return row && toChange(row)
}

/** Returns whether the history stores a field in milliseconds since the epoch. */
export function isMoment(entity: Description['entity'], name: string): boolean {
  return DESCRIPTIONS[entity].fields[name]?.kind === 'moment'
}

/** Reads the newest changes: `$1` is how many. */
function readChanges(table: ChangeTable, where: string, parameters: readonly SqlValue[]): Promise<ChangeRow[]> {
  return selectChanges(table, `${where} ORDER BY id DESC LIMIT $1`, parameters)
}

function selectChanges(
  { query, dialect }: ChangeTable,
  rest: string,
  parameters: readonly SqlValue[],
): Promise<ChangeRow[]> {
  return query<ChangeRow>(
    `SELECT id, changed_at AS "changedAt", actor, source, entity, row_id AS "rowId", name, action,
       action_id AS "actionId", before, after
     FROM ${dialect.table('rate_limit_change')} AS recorded ${rest}`,
    parameters,
  )
}

function toRowChange(row: ChangeRow): RowChange {
  return { ...toChange(row), rowId: row.rowId }
}

function toChange({ rowId: _, changedAt, source, entity, action, before, after, ...row }: ChangeRow): Change {
  return {
    ...row,
    changedAt: new Date(changedAt),
    source: CHANGE_SOURCES.find((each) => each === source) ?? 'sql',
    entity: CHANGE_ENTITIES.find((each) => each === entity) ?? 'rule',
    action: action === 'create' || action === 'delete' ? action : 'update',
    before: before === null ? null : JSON.parse(before),
    after: after === null ? null : JSON.parse(after),
  }
}
