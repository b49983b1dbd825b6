/** Reverts changes of rules and overrides, and that incidents are ignored: all of one action together. */
import type { Database } from '../../database/database.js'
import type { SqlWork } from '../../database/dialect.js'
import { RevertError } from '../../ground/errors.js'
import type { Description, FieldTable } from '../description.js'
import type { IdentifiedEntry } from '../read-entries.js'
import { changeLocked, LockedTable } from '../table.js'
import { type ChangedFields, DESCRIPTIONS, isMoment, type RowChange, readAction } from './history.js'
import { MARKS, revertMark } from './incident-changes.js'

/** Larger actions are reverted by an import of an earlier export, which works in steps. */
export const MAX_REVERTED = 20_000
const ENTITIES = ['rule', 'override'] as const

type ChangedTable = LockedTable<FieldTable, string>
type Row = IdentifiedEntry<FieldTable>

/** A change of a row of a table. */
export interface EntryChange extends RowChange {
  readonly entity: Description['entity']
}

/** What an action made of a row: the states before and after all of its changes. */
export interface NetChange extends Pick<EntryChange, 'id' | 'entity' | 'name' | 'rowId'> {
  readonly before: ChangedFields | null
  readonly after: ChangedFields | null
}

/**
 * Undoes a change, and all others of the same action, in one transaction: restores the fields that they changed, deletes the
 * rows that they created, and creates the rows that they deleted. Later changes of other fields stay. The history records the
 * revert like any other action.
 *
 * @throws RevertError when the change does not exist, or the values that the action wrote are gone
 * @throws RuleValidationError when an earlier state would not be valid today
 */
export async function revertChange(database: Database, nowMs: number, changeId: number): Promise<void> {
  const changes = await readAction(database, changeId, MAX_REVERTED + 1)
  if (changes.length === 0) throw new RevertError(`There is no change ${changeId}`)
  if (changes.length > MAX_REVERTED) {
    throw new RevertError(
      `Change ${changeId} cannot be reverted: its action made more than ${MAX_REVERTED} changes. Import an earlier export instead`,
    )
  }
  const net = netChanges(changes.filter(isOfEntry))
  const marks = changes.filter((change) => !isOfEntry(change))
  const descriptions = ENTITIES.filter((entity) => net.some((change) => change.entity === entity)).map(
    (entity) => DESCRIPTIONS[entity],
  )
  const locked = marks.length === 0 ? descriptions : [...descriptions, MARKS]
  await changeLocked(database, locked, function* () {
    for (const description of descriptions) {
      const table = new LockedTable(description, database, nowMs)
      yield* undo(
        table,
        net.filter(({ entity }) => entity === description.entity),
      )
    }
    for (const mark of marks) yield* revertMark(database.dialect, mark, nowMs)
  })
}

export function isOfEntry(change: RowChange): change is EntryChange {
  return change.entity !== 'incident'
}

/** Returns one change for every row of an action, which may have changed it several times. */
export function netChanges(changes: readonly EntryChange[]): NetChange[] {
  const byRow = new Map<string, NetChange>()
  for (const { id, entity, name, rowId, before, after } of changes) {
    const key = `${entity} ${rowId}`
    const first = byRow.get(key)
    byRow.set(key, {
      ...(first ?? { id, entity, name, rowId, before: before && stored(entity, before) }),
      after: after && stored(entity, after),
    })
  }
  return [...byRow.values()].filter(({ before, after }) => before !== null || after !== null)
}

function* undo(table: ChangedTable, changes: readonly NetChange[]): SqlWork<void> {
  const rows = yield* findStanding(table, changes)
  const created = changes.filter(({ before }) => before === null)
  yield* deleteRows(
    table,
    created.flatMap((change) => rows.get(change)?.id ?? []),
  )
  yield* restoreFields(table, rows)
  const deleted = changes.filter(({ after }) => after === null)
  const states = deleted.map(({ before }) => before ?? {})
  const taken = deleted.length === 0 ? [] : yield* table.findAllSame(states)
  const conflict = deleted.find((change) => taken.some(({ entry }) => hasIdentity(change, entry)))
  if (conflict !== undefined) throw takenError(conflict)
  yield* table.restore(states, 'new')
}

/**
 * Finds the rows that an action created or updated.
 *
 * @throws RevertError where one has no longer what the action wrote
 */
function* findStanding(table: ChangedTable, changes: readonly NetChange[]): SqlWork<Map<NetChange, Row>> {
  const written = changes.filter(({ after }) => after !== null)
  const found = new Map<NetChange, Row>()
  if (written.length === 0) return found
  const ids = JSON.stringify(written.map(({ rowId }) => rowId))
  const byId = new Map(
    (yield* table.find(table.dialect.isOneOf('id', '$1', 'bigint'), [ids])).map((row) => [row.id, row]),
  )
  for (const change of written) {
    const { id, entity, name, after, rowId } = change
    // It may have been deleted and created again.
    const row = byId.get(rowId) ?? (yield* table.findSame(after ?? {}))
    if (row === undefined || !hasWritten(change, row.entry)) {
      throw new RevertError(
        `Change ${id} of ${entity} ${JSON.stringify(name)} cannot be reverted: it was changed again since, or deleted. Revert the later changes first`,
      )
    }
    found.set(change, row)
  }
  return found
}

/** Returns whether a row has what an action wrote. */
export function hasWritten({ before, after }: NetChange, entry: Row['entry']): boolean {
  const fields = Object.entries(before === null ? (after ?? {}) : changedFields(after, before))
  return fields.every(([field, value]) => entry[field] === value)
}

function* deleteRows(table: ChangedTable, ids: readonly number[]): SqlWork<void> {
  if (ids.length > 0) yield* table.delete(table.dialect.isOneOf('id', '$1', 'bigint'), [JSON.stringify(ids)])
}

/** Restores the fields that an action changed: by one statement, but for rows that have their earlier names again. */
function* restoreFields(table: ChangedTable, rows: ReadonlyMap<NetChange, Row>): SqlWork<void> {
  const kept: ChangedFields[] = []
  for (const [change, row] of rows) {
    const { before, after, entity } = change
    if (before === null) continue
    const fields = changedFields(before, after)
    if (DESCRIPTIONS[entity].identity.every((name) => !(name in fields))) kept.push({ ...row.entry, ...fields })
    else if (!(yield* table.update(row, fields))) throw takenError(change)
  }
  yield* table.restore(kept, 'stored')
}

function hasIdentity({ entity, before }: NetChange, entry: Row['entry']): boolean {
  return isSame(entity, before, entry)
}

/** Returns whether a state and a row are of the same rule, or of the same client and path pattern. */
export function isSame(entity: Description['entity'], state: ChangedFields | null, entry: Row['entry']): boolean {
  return DESCRIPTIONS[entity].identity.every((name) => state?.[name] === entry[name])
}

function takenError({ id, entity, name, before }: NetChange): Error {
  const identity = before?.[DESCRIPTIONS[entity].identity[0] ?? ''] ?? name
  return new RevertError(
    `Change ${id} cannot be reverted: there is ${entity === 'rule' ? 'a rule' : 'an override'} ${JSON.stringify(identity)} again`,
  )
}

/** Returns the fields of a state that differ in the other one. */
function changedFields(state: ChangedFields | null, other: ChangedFields | null): ChangedFields {
  return Object.fromEntries(Object.entries(state ?? {}).filter(([field, value]) => value !== other?.[field]))
}

/** Returns the fields as documents have them. */
function stored(entity: Description['entity'], changed: ChangedFields): ChangedFields {
  return Object.fromEntries(
    Object.entries(changed).map(([name, value]) => {
      return [name, isMoment(entity, name) && typeof value === 'number' ? new Date(value).toISOString() : value]
    }),
  )
}
