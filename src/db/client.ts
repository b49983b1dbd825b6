import { PrismaClient as PostgresqlClient } from './generated/postgresql/client.js'
import { PrismaBetterSqlite3 } from './generated/prisma/adapter-better-sqlite3.js'
import { PrismaPg } from './generated/prisma/adapter-pg.js'
import { PrismaClient as SqliteClient } from './generated/sqlite/client.js'
import { CONNECT_TIMEOUT_MS } from './postgresql.js'
import { sqlitePath } from './sqlite.js'

/** Who wrote a row last is the triggers' business; the history tells it. */
const omit = { rateLimitRule: { changedBy: true }, rateLimitOverride: { changedBy: true } } as const

/** How long a host's own query may block the event loop for another writer, in milliseconds. */
const SQLITE_BUSY_TIMEOUT_MS = 500

/**
 * The generated client for a database URL, without this package's extensions.
 *
 * Both providers have the same models (a test proves it) but for ids, which are BigInt on PostgreSQL and come out as
 * numbers through the extension: one type serves both.
 */
export function createGeneratedClient(url: string, schema: string): SqliteClient {
  if (url.startsWith('file:')) {
    const adapter = new PrismaBetterSqlite3(
      { url: sqlitePath(url), timeout: SQLITE_BUSY_TIMEOUT_MS },
      { timestampFormat: 'unixepoch-ms' },
    )
    return new SqliteClient({ adapter, omit })
  }
  const adapter = new PrismaPg(
    {
      connectionString: url,
      application_name: 'fastify-smart-ratelimit (prisma)',
      // The driver waits for a server that says nothing for ever, and a command with it.
      connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    },
    { schema, onPoolError: () => undefined },
  )
  return new PostgresqlClient({ adapter, omit }) as unknown as SqliteClient
}

export type GeneratedClient = SqliteClient
