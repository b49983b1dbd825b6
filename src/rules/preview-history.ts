import { setImmediate as yieldToEventLoop } from 'node:timers/promises'
import type { Dialect, Query } from '../db/dialect.js'

/** A recorded change, the fields before and after it as JSON; null where there was no row. */
export interface RecordedChange {
  readonly id: number
  readonly changedMs: number
  readonly before: string | null
  readonly after: string | null
}

/** For so long after a change, processes may still have obeyed what was before. */
export const SPREAD_MS = 2_000
/** So few that SQLite, which reads in the server's own thread, holds nobody up. */
const IDS_AT_ONCE = 2_000

/** Reads what may have been in force from one moment on until it was changed, in the order of the time, among other work. */
export async function readChanges(
  query: Query,
  dialect: Dialect,
  entity: 'rule' | 'override',
  fromMs: number,
  untilMs: number,
): Promise<readonly RecordedChange[]> {
  const table = dialect.table('rate_limit_change')
  const [ids] = await query<{ first: number | null; last: number | null }>(
    `SELECT MIN(id) AS first, MAX(id) AS last FROM ${table}`,
  )
  const changes: RecordedChange[] = []
  // Nothing is indexed by the time: all of the history is passed over, in steps that are as long whatever they find.
  // With "= TRUE" SQLite does not take the index on the entity, and read half of the table for every step.
  for (let id = ids?.first ?? 1; id <= (ids?.last ?? 0); id += IDS_AT_ONCE) {
    const found = await query<RecordedChange>(
      `SELECT id, changed_at AS "changedMs", before, after FROM ${table}
       WHERE id >= ${dialect.whole('$1')} AND id < ${dialect.whole('$1')} + ${IDS_AT_ONCE} AND (entity = $2) = TRUE
         AND changed_at >= ${dialect.fromMs('$3')} AND changed_at <= ${dialect.fromMs('$4')}`,
      [id, entity, fromMs - SPREAD_MS, untilMs],
    )
    changes.push(...found)
    await yieldToEventLoop()
  }
  return changes.sort((a, b) => a.changedMs - b.changedMs || a.id - b.id)
}
