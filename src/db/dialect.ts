/** What the two databases have in common. `sqlite.ts` and `postgresql.ts` have the same shape. */
import { LAST_MOMENT_MS, MINUTE_MS } from '../time/clock.js'

export type SqlValue = string | number | null

/** One statement, `$1`, `$2`, … standing for the parameters. Timestamps come back as milliseconds. */
export type Query = <Row>(sql: string, parameters?: readonly SqlValue[]) => Promise<Row[]>

export interface Step {
  readonly sql: string
  readonly parameters: readonly SqlValue[]
}

/**
 * Work that yields one statement after the other, and is given the rows of each. SQLite's driver is synchronous, and
 * Prisma's connection blocks the process while it waits for a lock: whoever holds that lock must not wait meanwhile,
 * not even for a promise.
 */
export type Steps<T> = Generator<Step, T, unknown[]>

/** Yields one statement: `const rows = yield* ask<Row>('SELECT …')`. */
export function* ask<Row>(sql: string, parameters: readonly SqlValue[] = []): Steps<Row[]> {
  // Nobody can know what a statement's rows look like but the caller, who wrote the statement.
  return (yield { sql, parameters }) as Row[]
}

/** Takes the steps where waiting does no harm. */
export async function takeSteps<T>(query: Query, steps: Steps<T>): Promise<T> {
  let next = steps.next()
  while (!next.done) next = steps.next(await query(next.value.sql, next.value.parameters))
  return next.value
}

/**
 * The package's own connection, beside Prisma's: single statements only, so that a host's transaction can neither
 * take them along when it rolls back nor make them wait for it.
 */
export interface SqlConnection {
  readonly query: Query
  /** Runs a write and answers how many rows it changed. */
  execute(sql: string, parameters?: readonly SqlValue[]): Promise<number>
  /** Runs statements one after the other, all or none, nothing else in between. */
  transaction(steps: readonly Step[]): Promise<void>
  /** Runs queries that all see the database as it was at one moment. Not to be called while another one runs. */
  snapshot<T>(read: (query: Query) => Promise<T>): Promise<T>
  /**
   * Runs `work` in one transaction, on a connection that no other statement joins. Until its end nobody else writes to
   * `tables`: what `work` reads of them stays as it is.
   */
  locked<T>(tables: readonly string[], work: () => Steps<T>): Promise<T>
  /**
   * Runs `migrate` alone, whatever other processes do, in one transaction.
   *
   * @param migrate is given the means to query, and to run a script of several statements
   */
  exclusively<T>(migrate: (query: Query, script: (sql: string) => Promise<void>) => Promise<T>): Promise<T>
  close(): Promise<void>
}

/** What is later than the year 9999 is of one minute, hour and day: PostgreSQL knows infinity, and SQLite any text. */
export const LAST_MINUTE = (LAST_MOMENT_MS + 1) / MINUTE_MS

/** What has to be spelled differently. */
export interface Dialect {
  readonly provider: 'sqlite' | 'postgresql'
  /** How many writes may usefully be under way at once. */
  readonly writeConcurrency: number
  /** How many rows of the event log one statement writes at most. */
  readonly rowsPerInsert: number
  /** A table of this package, qualified. */
  table(name: string): string
  /** A timestamp from an expression that is milliseconds since the epoch. */
  fromMs(expression: string): string
  /** A timestamp as milliseconds since the epoch, where it is not read as a column of its own. */
  toMs(expression: string): string
  /** The minutes since the epoch of a timestamp; negative before it, and `LAST_MINUTE` where it is later or no time. */
  minuteOf(expression: string): string
  /** How many events are folded into the rollups at once. */
  readonly eventsPerFold: number
  /** What a transaction that changes the rollups begins with, so that no other one does. */
  readonly lockRollups: readonly string[]
  /** A transaction that finds out up to which id no event can come any more, and that id. */
  readonly settleIds: readonly string[]
  readonly lastSettledId: string
  /** An expression, a parameter above all, taken for a whole number. */
  whole(expression: string): string
  /** A text that sorts by its bytes, as every list of a report does. */
  bytewise(expression: string): string
  /** Whether an expression is one of the values of a JSON array, given as a parameter; an index is asked for each. */
  oneOf(expression: string, placeholder: string, type: 'text' | 'bigint'): string
  /** Reads field `index` of every element of the JSON array in parameter `$1`, one row per element, alias `row`. */
  jsonRows(): string
  jsonField(index: number, type: 'text' | 'bigint' | 'boolean'): string
  /**
   * A condition that is true, and lets the transaction that its statement is in end before it is safe on the disk: for
   * counters and events, of which a database that crashes may lose the last moment.
   */
  readonly lazily: string
  /**
   * All rows as one text: a JSON array of arrays, in the order of the rows; null where there are none. Long lists are
   * read in less than half the time that way.
   */
  rowsAsJson(columns: string): string
  /** Ends a sub-select of rows to delete: it passes over those that somebody else is just changing. */
  readonly skipLocked: string
  /** Creates Prisma's migration ledger where there is none. */
  readonly createLedger: string
  isMissingTable(error: unknown): boolean
}
