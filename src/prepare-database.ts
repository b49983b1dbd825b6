import type { FastifyBaseLogger } from 'fastify'
import type { Database } from './db/database.js'
import { sqlitePath } from './db/sqlite.js'
import { exposedFiles } from './db/sqlite-file.js'
import { MissingTableError, messageOf } from './errors.js'

/**
 * Prepares the database of a server that starts. The embedded one has to open: a wrong path is an error at start. A
 * PostgreSQL server may be away, which is logged.
 */
export async function prepareDatabase(database: Database, log: FastifyBaseLogger): Promise<void> {
  if (database.dialect.provider === 'sqlite') {
    await database.ready()
    warnOfExposure(sqlitePath(database.url), log)
    return
  }
  database.checkMigrations().catch((error: unknown) => {
    const remedy = error instanceof MissingTableError ? '' : ': onStoreError decides until it can be reached'
    log.error({ err: error }, `Rate limit database: ${messageOf(error)}${remedy}`)
  })
}

/** The file holds addresses, ids and sessions. Its mode is the operator's choice, and is not changed here. */
function warnOfExposure(path: string, log: FastifyBaseLogger): void {
  const exposed = exposedFiles(path)
  if (exposed.length === 0) return
  const files = exposed.map((file) => `${file.path} (mode ${file.mode})`).join(', ')
  log.warn(`Rate limit database: other users of this machine may read or change ${files}: run "chmod 600 ${path}*"`)
}
