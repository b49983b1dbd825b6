/** What a limiter needs for counters in a database. */
import { Database, databaseFor } from '../../database/database.js'
import { SQLITE_FUNCTIONS } from '../stores/sql/sqlite-functions.js'

export { createDatabaseStart } from '../../database/database-start.js'
export { StateSweep, stateDeletions } from '../stores/sql/state-cleanup.js'

/** @throws InvalidSettingError for an object that is no client of `createRateLimitClient` */
export function openDatabase(database: string | object | undefined, schema: string): Database {
  return typeof database === 'object'
    ? databaseFor(database)
    : new Database(database, schema, { functions: SQLITE_FUNCTIONS })
}
