import type { Database } from '../../src/db/database.js'

/** Folds what the triggers have gathered into the rollups, as they do by themselves every few thousand events. */
export async function foldRollups(database: Database): Promise<void> {
  await database.execute(database.dialect.foldRollups)
}
