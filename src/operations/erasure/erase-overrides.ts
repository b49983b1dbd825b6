/** Deletes the overrides and bans of one client, and its name in the history of them and of its incidents. */
import { restAfter } from '../../database/batches.js'
import type { Database } from '../../database/database.js'
import { runStatement, type SqlWork } from '../../database/dialect.js'
import { listById, pages } from '../../database/list.js'
import { OVERRIDES } from '../../rules/overrides/override.js'
import { changeRows, type LockedTable } from '../../rules/table.js'
import type { Batches } from './batches.js'
import type { ErasedClient } from './erased-client.js'

/** Stands in the history for a client that was erased. */
export const ERASED = 'erased'
/** Has SQLite overwrite what a connection deletes. */
export const OVERWRITE_DELETED = 'PRAGMA secure_delete = ON'

export interface ErasedOverrides {
  readonly overrides: number
  /** The changes of the history that named the client, those of its incidents too. */
  readonly changes: number
  /** The overrides of networks that contain it. */
  readonly networks: number
}

interface ChangeRow {
  readonly id: number
  readonly entity: string
  readonly name: string
  readonly before: string | null
  readonly after: string | null
}

export async function eraseOverrides(
  database: Database,
  erased: ErasedClient,
  nowMs: number,
  batches: Batches,
): Promise<ErasedOverrides> {
  const found: number[] = []
  let networks = 0
  const listed = `SELECT id, client FROM ${database.dialect.table(OVERRIDES.table)}`
  for await (const rows of restfulPages<{ id: number; client: string }>(database, listed, 'true', batches)) {
    for (const row of rows) {
      if (erased.hasOverride(row.client)) found.push(row.id)
      else if (erased.isAmong(row.client)) networks++
    }
  }
  if (!batches.dryRun && found.length > 0) {
    await changeRows(database, OVERRIDES, nowMs, (overrides) => deleteOverrides(overrides, found))
  }
  const changes = await eraseNames(database, erased, batches)
  // The deletion is a change of each.
  return { overrides: found.length, changes: changes + (batches.dryRun ? found.length : 0), networks }
}

function* deleteOverrides(
  overrides: LockedTable<typeof OVERRIDES.fields, 'client' | 'pathPattern'>,
  ids: readonly number[],
): SqlWork<void> {
  // The transaction has a connection of its own on SQLite.
  const { dialect } = overrides
  if (dialect.provider === 'sqlite') yield* runStatement(OVERWRITE_DELETED)
  yield* overrides.delete(dialect.isOneOf('id', '$1', 'bigint'), [JSON.stringify(ids)])
}

/** Replaces the client in the history: that something changed, when and by whom stays. */
async function eraseNames(database: Database, erased: ErasedClient, batches: Batches): Promise<number> {
  const { dialect } = database
  const table = dialect.table('rate_limit_change')
  const [id, before, after] = [
    dialect.jsonField(0, 'bigint'),
    dialect.jsonField(1, 'text'),
    dialect.jsonField(2, 'text'),
  ]
  let changed = 0
  const named = `SELECT id, entity, name, before, after FROM ${table}`
  for await (const rows of restfulPages<ChangeRow>(database, named, "entity IN ('override', 'incident')", batches)) {
    const theirs = rows.filter(
      // An incident may be of a client of several kinds.
      (row) =>
        erased.has(row.name, row.entity === 'incident') ||
        [row.before, row.after].some((fields) => names(fields, erased)),
    )
    changed += theirs.length
    if (theirs.length === 0 || batches.dryRun) continue
    const values = theirs.map((row) => [Number(row.id), withoutClient(row.before), withoutClient(row.after)])
    await database.execute(
      `UPDATE ${table} AS recorded SET name = '${ERASED}', before = erased.before, after = erased.after
       FROM (SELECT ${id} AS id, ${before} AS before, ${after} AS after FROM ${dialect.jsonRows()}) AS erased
       WHERE recorded.id = erased.id`,
      [JSON.stringify(values)],
    )
  }
  return changed
}

function names(fields: string | null, erased: ErasedClient): boolean {
  const client: unknown = fields === null ? undefined : JSON.parse(fields).client
  return typeof client === 'string' && erased.hasOverride(client)
}

/** A note may say who the client is; what is known of an incident does not. */
function withoutClient(fields: string | null): string | null {
  const parsed = fields === null ? undefined : JSON.parse(fields)
  return parsed?.client === undefined ? fields : JSON.stringify({ ...parsed, client: ERASED, note: '' })
}

/** Yields the rows of a table in the order of their ids, and leaves time to others between pages. */
async function* restfulPages<Row extends { readonly id: number }>(
  { dialect, query }: Database,
  select: string,
  condition: string,
  { batchSize, signal }: Batches,
): AsyncGenerator<readonly Row[]> {
  let startedMs = performance.now()
  for await (const rows of pages(
    dialect,
    listById<Row>(query, select, () => [condition]),
    batchSize,
  )) {
    if (signal?.aborted) return
    yield rows
    await restAfter(startedMs)
    startedMs = performance.now()
  }
}
