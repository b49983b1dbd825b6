import type { Database } from '../../src/database/database.js'
import { foldAll } from '../../src/log/rollups/catch-up.js'

/** Folds all events into the rollups, as servers do by themselves, and counts again what has a mark. */
export async function foldRollups(database: Database, nowMs = Date.now()): Promise<void> {
  await foldAll(database.log, nowMs)
}
