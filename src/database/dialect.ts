/** The interface of the two databases. Each has its dialect and its connection, in files of the same shape. */
import { LAST_MOMENT_MS, MINUTE_MS } from '../ground/time/clock.js'
import { CooperativeYield } from '../ground/time/cooperative-yield.js'
import type { FileWatch } from './file-watch.js'

export type SqlValue = string | number | null

/** Runs one statement with its parameters as `$1`, `$2`, …. Timestamps are returned as milliseconds. */
export type Query = <Row>(sql: string, parameters?: readonly SqlValue[]) => Promise<Row[]>

export interface SqlStatement {
  readonly sql: string
  readonly parameters: readonly SqlValue[]
  /** Whether a transaction is undone where the statement changes no row. */
  readonly mustChange?: boolean
  /**
   * Whether connections plan the statement once, since it is run every second, and planning it takes a part of its
   * time.
   */
  readonly plannedOnce?: boolean
}

/**
 * Work that yields one statement after the other, and receives the rows of each. SQLite's driver is synchronous, and
 * Prisma's connection blocks the process while it waits for a lock: the holder of that lock must not wait then, not
 * even for a promise. It yields undefined between steps, where other work may run if waiting does no harm.
 */
export type SqlWork<T> = Generator<SqlStatement | undefined, T, unknown[]>

/** Yields one statement: `const rows = yield* runStatement<Row>('SELECT …')`. */
export function* runStatement<Row>(sql: string, parameters: readonly SqlValue[] = []): SqlWork<Row[]> {
  // The caller, who wrote the statement, alone knows the type of its rows.
  return (yield { sql, parameters }) as Row[]
}

/** Runs the statements asynchronously, where waiting does no harm. */
export async function runWork<T>(query: Query, work: SqlWork<T>): Promise<T> {
  const slices = new CooperativeYield()
  let next = work.next()
  while (!next.done) {
    if (slices.over()) await slices.pause()
    next = work.next(next.value === undefined ? [] : await query(next.value.sql, next.value.parameters))
  }
  return next.value
}

/** Runs single statements. */
export interface Statements {
  readonly query: Query
  /** Runs a write and returns the number of changed rows. */
  execute(sql: string, parameters?: readonly SqlValue[]): Promise<number>
}

/**
 * The package's own connection, beside Prisma's: a transaction of the host can neither roll back its statements nor
 * make them wait.
 */
export interface SqlConnection extends Statements {
  /** Runs statements that take less time than handing them to a thread, such as those of the limiter. */
  readonly short: Statements
  /**
   * Runs statements one after the other, all or none, without others in between.
   *
   * @returns the number of changed rows; null where they were undone, since a statement that must change a row changed
   * none
   */
  transaction(statements: readonly SqlStatement[]): Promise<number | null>
  /** Runs queries that all see the database as of one moment. Must not be called while another snapshot is read. */
  snapshot<T>(read: (query: Query) => Promise<T>): Promise<T>
  /**
   * Runs `work` in one transaction, on a connection of its own. Until its end no other connection writes to `tables`:
   * the rows that `work` reads stay unchanged.
   */
  locked<T>(tables: readonly string[], work: () => SqlWork<T>): Promise<T>
  /**
   * Runs `migrate` in one transaction, and in one process at a time.
   *
   * @param migrate receives functions that run a query, and a script of several statements
   */
  exclusively<T>(migrate: (query: Query, script: (sql: string) => Promise<void>) => Promise<T>): Promise<T>
  /** Watches the file of an embedded database. */
  readonly watch?: FileWatch
  /** Makes the next statement open the file of an embedded database again. */
  reopen?(): void
  close(): Promise<void>
}

/** The minute of all moments after the year 9999: PostgreSQL allows infinity, and SQLite any text. */
export const LAST_MINUTE = (LAST_MOMENT_MS + 1) / MINUTE_MS

/** A query whose rows several statements read. */
export interface SharedQuery {
  /** The name by which the statements read its rows. */
  readonly name: string
  readonly columns: readonly string[]
  readonly sql: string
}

/** The SQL that differs between the databases. */
export interface Dialect {
  readonly provider: 'sqlite' | 'postgresql'
  /** The useful number of concurrent writes. */
  readonly writeConcurrency: number
  /** Whether an update writes the index of each column that it sets, also of those that stay as they are. */
  readonly writesUnchangedIndexes: boolean
  /** The most rows of the event log that one statement writes. */
  readonly rowsPerInsert: number
  /** Returns the qualified name of a table of this package. */
  table(name: string): string
  /** Converts an expression of milliseconds since the epoch to a timestamp. */
  fromMs(expression: string): string
  /** Converts a timestamp to milliseconds since the epoch, where it is not a column of the result. */
  toMs(expression: string): string
  /** Converts a timestamp to minutes since the epoch: negative before it, `LAST_MINUTE` for later or invalid ones. */
  toMinute(expression: string): string
  /** The most events that are folded into the rollups at once: as many ids, some of which may be of no event. */
  readonly eventsPerFold: number
  /** The statements that lock the rollups, at the start of a transaction that changes them. */
  readonly lockRollups: readonly string[]
  /** A transaction that finds the id up to which no new event can appear, and an expression for that id. */
  readonly settleIds: readonly string[]
  readonly lastSettledId: string
  /**
   * Returns the statements of a transaction that runs a query once, for several statements that read its rows as a table of
   * its name. PostgreSQL runs them as one, which sees the database as it was before; SQLite one after the other.
   *
   * @param parameters of the query and of the statements
   */
  readOnce(query: SharedQuery, statements: readonly string[], parameters: readonly SqlValue[]): SqlStatement[]
  /** Casts an expression, mostly a parameter, to a whole number. */
  whole(expression: string): string
  /** Makes a text sort by its bytes, as every list of a report does. */
  bytewise(expression: string): string
  /** Tests whether an expression is one of the values of a JSON array parameter, with an index lookup for each. */
  isOneOf(expression: string, placeholder: string, type: 'text' | 'bigint'): string
  /**
   * Reads the JSON array in a text, in parameter `$1` unless given, one row per element; `jsonField` reads field `index`
   * of an element. A list of whole numbers is a text there, with commas between.
   */
  jsonRows(text?: string): string
  jsonField(index: number, type: 'text' | 'bigint' | 'boolean' | 'bigint[]'): string
  /**
   * Reads the JSON object in parameter `$1`, one row per member, in their order: `element.key` is its name, and
   * `memberNumber` its value, a whole number. This takes less time than a field of `jsonRows` each.
   */
  readonly jsonMembers: string
  readonly memberNumber: string
  /**
   * A condition that is true, and lets its transaction commit before it is safe on the disk: for counters and events,
   * of which a database that crashes may lose the last moment.
   */
  readonly asynchronousCommit: string
  /**
   * The work with `asynchronousCommit`, for a statement that fails where another transaction keeps a row locked for
   * longer, in milliseconds.
   */
  readonly asynchronousCommitWithin: (lockTimeoutMs: number) => string
  /** Returns whether an error is of a row that stayed locked. */
  readonly isLocked: (error: unknown) => boolean
  /**
   * Returns all rows as one text: a JSON array of arrays, in the order of the rows; null where there are none. This
   * halves the time to read long lists, or better.
   */
  rowsAsJson(columns: string): string
  /** Reads a text, one row for each of its parts between separators: `part.value`. */
  textParts(text: string, separator: ':'): string
  /** Tests whether a text contains another one, whose letters are compared as they are. */
  contains(text: string, part: string): string
  /** Returns a text that matches a regular expression; the replacement for any other. Both are without quotes. */
  matching(text: string, pattern: string, replacement: string): string
  /** Makes a list of whole numbers, as a column has it: an array on PostgreSQL, and a text on SQLite, which has none. */
  list(expressions: readonly string[]): string
  /** Returns such a list as a text, and its first number. */
  listText(list: string): string
  listFirst(list: string): string
  /** The end of a sub-select of rows to delete: it skips rows that another transaction is changing. */
  readonly skipLocked: string
  /** The end of a sub-select of rows, in an order that all writers share, that the statement updates. */
  readonly lockRows: string
  /** The statement that creates Prisma's migration ledger where there is none. */
  readonly createLedger: string
  isMissingTable(error: unknown): boolean
  /** Returns whether prepared statements of others are found on a connection, or own ones are not, as behind a pooler. */
  mixesStatements(error: unknown): boolean
  /** Returns whether the database answered that it never takes these rows: trying them again would change nothing. */
  refusesRows(error: unknown): boolean
}

/** Functions that statements may call in SQLite. */
export interface SqliteFunctions {
  /** The module that exports them as `SQLITE_FUNCTIONS`, for `modulePath`: no function can be sent to a thread. */
  readonly module: string
  register(database: FunctionTarget): void
}

/** A connection that functions are registered in. The types of the driver are not installed with this package. */
interface FunctionTarget {
  function(name: string, run: (...values: never[]) => unknown): unknown
}

/** Returns the column of a field: its name in snake_case. */
export function toColumn(field: string): string {
  // GROUP is a word of SQL.
  if (field === 'group') return 'group_name'
  return field.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
}

/**
 * Returns the columns for a SELECT, each under the name of its field.
 *
 * @param row the alias of the row, where the statement reads more than one
 */
export function selectedColumns(fields: readonly string[], row?: string): string {
  const prefix = row === undefined ? '' : `${row}.`
  return fields.map((field) => `${prefix}${toColumn(field)} AS "${field}"`).join(', ')
}
