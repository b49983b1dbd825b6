import { type Dialect, LAST_MINUTE } from './dialect.js'
import { sqliteErrorCode } from './sqlite-driver.js'
import { MATCHING } from './sqlite-file.js'

export const sqliteDialect: Dialect = {
  provider: 'sqlite',
  writeConcurrency: 1,
  writesUnchangedIndexes: true,
  // Checks wait for these, for a few milliseconds; without a thread, so does all else.
  rowsPerInsert: 500,
  table: (name) => `"${name}"`,
  fromMs: (expression) => expression,
  toMs: (expression) => expression,
  // The expression is that of the migration.
  toMinute: (expression) => `CASE WHEN typeof(${expression}) NOT IN ('integer', 'real') THEN ${LAST_MINUTE}
    WHEN ${expression} < 0 THEN -1440 ELSE MIN(${LAST_MINUTE}, CAST(${expression} AS INTEGER) / 60000) END`,
  // Takes ten milliseconds, for which the statements of the limiter wait; several times that with as many new clients.
  eventsPerFold: 2_000,
  // SQLite has one writer at a time, and ids become visible in their order.
  lockRollups: [],
  settleIds: [],
  lastSettledId: '9223372036854775807',
  // A table of the connection, in memory.
  readOnce: ({ name, columns, sql }, statements, parameters) =>
    [
      `CREATE TEMP TABLE IF NOT EXISTS ${name} (${columns.join(', ')})`,
      `INSERT INTO ${name} ${sql}`,
      ...statements,
      `DELETE FROM ${name}`,
    ].map((each) => ({ sql: each, parameters })),
  whole: (expression) => `CAST(${expression} AS INTEGER)`,
  bytewise: (expression) => expression,
  isOneOf: (expression, placeholder) => `${expression} IN (SELECT value FROM json_each(${placeholder}))`,
  // A `json_each` would make a text of each element again.
  jsonRows: (text = '$1') => `jsonb_each(${text}) AS element`,
  jsonField: (index) => `(element.value ->> ${index})`,
  jsonMembers: 'json_each($1) AS element',
  memberNumber: 'element.value',
  // `synchronous = NORMAL` does this for every transaction.
  asynchronousCommit: 'true',
  // A lock is of the whole file.
  asynchronousCommitWithin: () => 'true',
  isLocked: () => false,
  rowsAsJson: (columns) => `json_group_array(json_array(${columns}))`,
  // The cast is for a blob that raw SQL wrote. No escape sequence of JSON has the separator.
  textParts: (text, separator) =>
    `json_each('[' || replace(json_quote(CAST(${text} AS TEXT)), '${separator}', '","') || ']') AS part`,
  contains: (text, part) => `instr(${text}, ${part}) > 0`,
  matching: (text, pattern, replacement) => `${MATCHING}(${text}, '${pattern}', '${replacement}')`,
  list: (expressions) => expressions.join(` || ',' || `),
  listText: (list) => list,
  // The cast reads as far as there is a number.
  listFirst: (list) => `CAST(${list} AS INTEGER)`,
  skipLocked: '',
  lockRows: '',
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
  mixesStatements: () => false,
  refusesRows: (error) => /^SQLITE_(?:CONSTRAINT|MISMATCH|TOOBIG)/.test(sqliteErrorCode(error) ?? ''),
}
