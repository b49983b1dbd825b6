import { setTimeout as delay } from 'node:timers/promises'
import type { Database } from '../../../src/db/database.js'
import { eventValues, insertEventsSql } from '../../../src/events/event.js'
import { createEvents, type Distribution } from './synthetic-log.js'

/** Removes the rollups' triggers from inserts, so that events are written as if there were no rollups. */
export async function dropRollups(database: Database): Promise<void> {
  const { dialect } = database
  const isSqlite = dialect.provider === 'sqlite'
  const on = isSqlite ? '' : ` ON ${dialect.table('rate_limit_event')}`
  for (const name of isSqlite ? ['insert'] : ['insert', 'lock']) {
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

const WRITES_PER_SECOND = 10
const EVENTS_PER_WRITE = 100

/** Does some work while 1,000 events are written per second. */
export async function whileWriting<Result>(
  database: Database,
  distribution: Distribution,
  work: () => Promise<Result>,
): Promise<Result> {
  const makeEvent = createEvents(1, distribution)
  const sql = insertEventsSql(database.dialect)
  const done = new AbortController()
  async function write(): Promise<void> {
    const startedMs = performance.now()
    for (let writes = 1; !done.signal.aborted; writes++) {
      const rows = Array.from({ length: EVENTS_PER_WRITE }, () => eventValues(makeEvent(Date.now())))
      await database.execute(sql, [JSON.stringify(rows)])
      const restMs = startedMs + (writes * 1_000) / WRITES_PER_SECOND - performance.now()
      await delay(Math.max(0, restMs))
    }
  }
  const writing = write()
  try {
    return await work()
  } finally {
    done.abort()
    await writing
  }
}
