import { fileURLToPath } from 'node:url'
import { type Dialect, LAST_MINUTE, type SqlConnection, type Steps } from './dialect.js'
import { whileBusy } from './sqlite-busy.js'
import { type SqliteDatabase, sqliteCodeOf } from './sqlite-driver.js'
import { openSqlite } from './sqlite-file.js'
import { createSqliteReports } from './sqlite-reports.js'
import { createSqliteStatements } from './sqlite-statements.js'
import { inTransaction, runOnce } from './sqlite-transaction.js'

export const sqliteDialect: Dialect = {
  provider: 'sqlite',
  writeConcurrency: 1,
  // The driver is synchronous: where no thread may be started, these hold up the event loop for a few milliseconds.
  rowsPerInsert: 200,
  table: (name) => `"${name}"`,
  fromMs: (expression) => expression,
  toMs: (expression) => expression,
  // As the migration has it.
  minuteOf: (expression) => `CASE WHEN typeof(${expression}) NOT IN ('integer', 'real') THEN ${LAST_MINUTE}
    WHEN ${expression} < 0 THEN -1440 ELSE MIN(${LAST_MINUTE}, CAST(${expression} AS INTEGER) / 60000) END`,
  // Some ten milliseconds, for which the statements of the limiter wait.
  eventsPerFold: 1_000,
  // There is one writer at a time, and ids become visible in their order.
  lockRollups: [],
  settleIds: [],
  lastSettledId: '9223372036854775807',
  whole: (expression) => `CAST(${expression} AS INTEGER)`,
  bytewise: (expression) => expression,
  oneOf: (expression, placeholder) => `${expression} IN (SELECT value FROM json_each(${placeholder}))`,
  jsonRows: () => 'json_each($1) AS element',
  jsonField: (index) => `json_extract(element.value, '$[${index}]')`,
  // What `synchronous = NORMAL` says of every transaction.
  lazily: 'true',
  rowsAsJson: (columns) => `json_group_array(json_array(${columns}))`,
  skipLocked: '',
  createLedger: `CREATE TABLE IF NOT EXISTS "_prisma_migrations" (
    "id"                    TEXT PRIMARY KEY NOT NULL,
    "checksum"              TEXT NOT NULL,
    "finished_at"           DATETIME,
    "migration_name"        TEXT NOT NULL,
    "logs"                  TEXT,
    "rolled_back_at"        DATETIME,
    "started_at"            DATETIME NOT NULL DEFAULT current_timestamp,
    "applied_steps_count"   INTEGER UNSIGNED NOT NULL DEFAULT 0
)`,
  isMissingTable: (error) => error instanceof Error && /no such table/.test(error.message),
}

/** The path of a `file:` URL: relative to the working directory (`file:./a.db`), absolute, or `file:///…`. */
export function sqlitePath(url: string): string {
  return url.startsWith('file://') ? fileURLToPath(url) : url.slice('file:'.length)
}

export function createSqliteConnection(path: string): SqlConnection {
  const statements = createSqliteStatements(path)
  const reports = createSqliteReports(path)

  return {
    query: statements.query,
    execute: statements.execute,
    transaction: statements.transaction,

    snapshot: reports.snapshot,

    // There is one writer of the file at a time, so this locks all tables.
    async locked(_tables, work) {
      const database = await whileBusy(() => openSqlite(path))
      try {
        const transaction = database.transaction(() => takeStepsNow(database, work()))
        return await whileBusy(() => transaction.immediate())
      } finally {
        database.close()
      }
    },

    async exclusively(migrate) {
      const database = await whileBusy(() => openSqlite(path))
      try {
        return await inTransaction(database, 'BEGIN IMMEDIATE', (query) =>
          migrate(query, async (sql) => {
            database.exec(sql)
          }),
        )
      } finally {
        database.close()
      }
    },

    async close() {
      await Promise.all([statements.close(), reports.close()])
    },
  }
}

/** Takes the steps at once, so that nothing else of this process runs in between. */
function takeStepsNow<T>(database: SqliteDatabase, steps: Steps<T>): T {
  let next = steps.next()
  while (!next.done) next = steps.next(runOnce(database, next.value.sql, next.value.parameters))
  return next.value
}

/** What to do about a file that cannot be used; undefined for any other error. */
export function unusableFileRemedy(error: unknown): string | undefined {
  // The driver's own check, before SQLite is asked.
  const isMissingFolder = error instanceof TypeError && error.message.includes('directory does not exist')
  const code = sqliteCodeOf(error) ?? ''
  if (/^SQLITE_(?:NOTADB|CORRUPT)/.test(code)) return 'restore the file from a backup, or name another one'
  if (isMissingFolder || /^SQLITE_(?:CANTOPEN|READONLY|IOERR|FULL|PERM|AUTH)/.test(code)) {
    return 'give a file in a folder that exists and can be written to'
  }
  return undefined
}
