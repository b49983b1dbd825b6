import type { Database } from '../../../src/db/database.js'
import { eventValues, insertEventsSql } from '../../../src/events/event.js'
import { createEvents } from './synthetic-log.js'

/** Removes the rollups' triggers from inserts, so that events are written as if there were no rollups. */
export async function dropRollups(database: Database): Promise<void> {
  const { dialect } = database
  const isSqlite = dialect.provider === 'sqlite'
  for (const name of ['insert', isSqlite ? 'replace' : 'lock']) {
    const on = isSqlite ? '' : ` ON ${dialect.table('rate_limit_event')}`
    await database.execute(`DROP TRIGGER rate_limit_event_rollup_${name}${on}`)
  }
}

/**
 * Writes batches, as the event log does, to both databases in turn.
 *
 * @returns the time of a batch with rollups as a multiple of one without: the ratio of the sums
 */
export async function compareInserting(
  withRollups: Database,
  without: Database,
  batches: number,
  nowMs: number,
): Promise<number> {
  const makeEvent = createEvents(batches, 'skewed')
  const sql = insertEventsSql(withRollups.dialect)
  const tookMs = new Map([withRollups, without].map((database) => [database, 0]))
  for (let batch = 0; batch < batches; batch++) {
    const rows = JSON.stringify(
      Array.from({ length: withRollups.dialect.rowsPerInsert }, (_, place) =>
        eventValues(makeEvent(nowMs + batch * 10 + place)),
      ),
    )
    // The databases take turns in being first.
    const turn = batch % 2 === 0 ? [withRollups, without] : [without, withRollups]
    for (const database of turn) {
      const startedMs = performance.now()
      await database.execute(sql, [rows])
      tookMs.set(database, (tookMs.get(database) ?? 0) + performance.now() - startedMs)
    }
  }
  return (tookMs.get(withRollups) ?? 0) / (tookMs.get(without) ?? 0)
}
