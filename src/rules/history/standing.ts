/** Finds which changes still stand: what they wrote is there, so that they can be reverted. */
import type { Database } from '../../database/database.js'
import { groupBy } from '../../ground/group-by.js'
import type { Description, FieldTable } from '../description.js'
import { type IdentifiedEntry, readSomeEntries } from '../read-entries.js'
import { type Change, DESCRIPTIONS, readChangesOf } from './history.js'
import { hasWritten, isOfEntry, isSame, netChanges } from './revert.js'

/** What became of a change. */
export interface Standing {
  /** `stands`: what it wrote is there; `changed`: another change came after it; `gone`: the row was deleted since. */
  readonly state: 'stands' | 'changed' | 'gone'
  /** The row that it wrote, with its fields of now. */
  readonly entry?: Readonly<Record<string, unknown>> | undefined
}

type Row = IdentifiedEntry<FieldTable>

/** Returns what became of changes, by their ids. */
export async function readStandings(
  database: Database,
  changes: readonly Change[],
): Promise<ReadonlyMap<number, Standing>> {
  const recorded = await readChangesOf(
    database,
    changes.map(({ id }) => id),
  )
  const standings = new Map<number, Standing>()
  for (const entity of ['rule', 'override'] as const) {
    const its = recorded.filter(isOfEntry).filter((change) => change.entity === entity)
    const rows = await readRows(
      database,
      entity,
      its.map(({ rowId }) => rowId),
      its.map(({ name }) => name),
    )
    // What one action made of a row is one change; that of raw SQL stands alone.
    const byAction = groupBy(its, ({ id, actionId, rowId }) => `${actionId || id} ${rowId}`)
    for (const ofRow of byAction.values()) {
      const [net] = netChanges(ofRow.toSorted((one, other) => one.id - other.id))
      const state = net === undefined ? 'gone' : standingOf(net, rows)
      for (const { id } of ofRow) standings.set(id, typeof state === 'string' ? { state } : state)
    }
  }
  const latest = await readLatestMarks(
    database,
    recorded.flatMap((change) => (isOfEntry(change) ? [] : [change.name])),
  )
  for (const { id, entity } of recorded) {
    if (entity === 'incident') standings.set(id, { state: latest.has(id) ? 'stands' : 'changed' })
  }
  return standings
}

function standingOf(net: ReturnType<typeof netChanges>[number], rows: readonly Row[]): Standing {
  const { entity, before, after, rowId } = net
  if (after === null) return { state: rows.some(({ entry }) => isSame(entity, before, entry)) ? 'changed' : 'stands' }
  const row = rows.find(({ id }) => id === rowId) ?? rows.find(({ entry }) => isSame(entity, after, entry))
  if (row === undefined) return { state: 'gone' }
  return { state: hasWritten(net, row.entry) ? 'stands' : 'changed', entry: row.entry }
}

/** Reads the rows of some ids, and those of some names: a row may have been deleted and created again. */
function readRows(
  database: Database,
  entity: Description['entity'],
  ids: readonly number[],
  names: readonly string[],
): Promise<Row[]> {
  const { isOneOf } = database.dialect
  const column = entity === 'rule' ? 'name' : 'client'
  const where = `WHERE ${isOneOf('id', '$1', 'bigint')} OR ${isOneOf(column, '$2', 'text')}`
  return readSomeEntries(database, DESCRIPTIONS[entity], where, [JSON.stringify(ids), JSON.stringify(names)])
}

/** Returns the ids of the last changes of incidents, by the names of these. */
async function readLatestMarks({ query, dialect }: Database, names: readonly string[]): Promise<ReadonlySet<number>> {
  const rows = await query<{ id: number }>(
    `SELECT MAX(id) AS id FROM ${dialect.table('rate_limit_change')}
     WHERE entity = 'incident' AND ${dialect.isOneOf('name', '$1', 'text')} GROUP BY name`,
    [JSON.stringify(names)],
  )
  return new Set(rows.map(({ id }) => Number(id)))
}
