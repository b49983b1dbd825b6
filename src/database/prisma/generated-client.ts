/** Only the first use of a client loads this module, since its imports take long. */

import { sqlitePath } from '../database-url.js'
import { PrismaClient as PostgresqlClient } from '../generated/postgresql/client.js'
import { PrismaBetterSqlite3, useSqliteDriver } from '../generated/prisma/adapter-better-sqlite3.js'
import { PrismaPg, usePostgresqlDriver } from '../generated/prisma/adapter-pg.js'
import { PrismaClient as SqliteClient } from '../generated/sqlite/client.js'
import { patientPool } from '../postgresql-pool.js'
import { loadDriver, sessionOptions } from '../postgresql-session.js'
import { driverTypes } from '../postgresql-types.js'
import { openSqliteFile } from '../sqlite-driver.js'

/** The fields of a row's last writer, which only the triggers read; the history shows it. */
const omit = { rateLimitRule: { changedBy: true }, rateLimitOverride: { changedBy: true } } as const

/** The longest block of the event loop by a host's query that waits for another writer, in milliseconds. */
const SQLITE_BUSY_TIMEOUT_MS = 500

/**
 * Creates the generated client for a database URL, without this package's extensions.
 *
 * Both providers have the same models (a test proves it) except for ids, which are BigInt on PostgreSQL and become
 * numbers through the extension: one type serves both.
 */
export function createGeneratedClient(url: string, schema: string): SqliteClient {
  if (url.startsWith('file:')) {
    useSqliteDriver(openSqliteFile)
    const adapter = new PrismaBetterSqlite3(
      { url: sqlitePath(url), timeout: SQLITE_BUSY_TIMEOUT_MS },
      { timestampFormat: 'unixepoch-ms' },
    )
    return new SqliteClient({ adapter, omit })
  }
  const driver = loadDriver()
  usePostgresqlDriver({ Pool: patientPool() }, driverTypes(driver.types))
  const adapter = new PrismaPg(sessionOptions(url, 'fastify-smart-ratelimit (prisma)'), {
    schema,
    onPoolError: () => undefined,
  })
  return new PostgresqlClient({ adapter, omit }) as unknown as SqliteClient
}

export type GeneratedClient = SqliteClient
