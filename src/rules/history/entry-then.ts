/** Rebuilds rules and overrides as they were at a moment, from the history of their changes. */
import type { Dialect, Query } from '../../database/dialect.js'
import type { Description } from '../description.js'
import { type Change, type ChangedFields, type RowChange, readRowChanges } from './history.js'

/** A rule or an override as it was at a moment. */
export interface EntryThen {
  readonly rowId: number
  readonly entity: Description['entity']
  readonly fields: ChangedFields
  /** The fields now; null where the entry is deleted. */
  readonly now: ChangedFields | null
  /** The changes since that moment, the oldest first. */
  readonly since: readonly Change[]
}

export interface EntriesThen {
  readonly entries: readonly EntryThen[]
  /** Whether the history has any change of these names. */
  readonly hasHistory: boolean
}

/** The most changes of one name that are read: beyond them the history cannot tell what was before. */
const MAX_CHANGES = 2_000

/** Finds the rules or overrides that had one of these names, or have, as they were at a moment in milliseconds. */
export async function findEntriesThen(
  source: { readonly query: Query; readonly dialect: Dialect },
  entity: Description['entity'],
  names: readonly string[],
  atMs: number,
): Promise<EntriesThen> {
  const changes = (await readRowChanges(source, entity, names, MAX_CHANGES + 1)).toReversed()
  const [oldest] = changes
  const isCut = changes.length > MAX_CHANGES && oldest !== undefined && oldest.changedAt.getTime() > atMs
  const byRow = new Map<number, RowChange[]>()
  for (const change of isCut ? [] : changes) byRow.set(change.rowId, [...(byRow.get(change.rowId) ?? []), change])
  const entries = [...byRow].flatMap(([rowId, rowChanges]): EntryThen[] => {
    const since = rowChanges.filter(({ changedAt }) => changedAt.getTime() > atMs)
    const last = rowChanges[rowChanges.length - since.length - 1]
    const fields = last === undefined ? since[0]?.before : last.after
    if (fields === null || fields === undefined) return []
    const now = since.at(-1)?.after
    return [{ rowId, entity, fields, now: since.length === 0 ? fields : (now ?? null), since }]
  })
  return { entries, hasHistory: changes.length > 0 }
}
