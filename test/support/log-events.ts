import type { Database } from '../../src/database/database.js'
import { eventValues, insertEventsSql, type RateLimitEvent } from '../../src/log/event.js'
import { EVENT } from './events.js'

/** Puts events into the log, each as `EVENT` but for what is given. */
export async function logRows(database: Database, events: readonly Partial<RateLimitEvent>[]): Promise<void> {
  const rows = events.map((event) => eventValues({ ...EVENT, ...event }))
  for (let from = 0; from < rows.length; from += 5_000) {
    const batch = JSON.stringify(rows.slice(from, from + 5_000))
    await database.log.execute(insertEventsSql(database.log.dialect), [batch])
  }
}
