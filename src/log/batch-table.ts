import type { Database } from '../database/database.js'
import type { Dialect } from '../database/dialect.js'
import { type Clock, DAY_MS } from '../ground/time/clock.js'

/** Rows of a log. Each writer numbers its rows from 1, without gaps, and writes them in that order. */
export interface BatchRows {
  /** A random id: of a process, or rather of one log in it. */
  readonly writer: string
  /** The number of the first row. */
  readonly first: number
  /** The rows, each as the JSON of its values, such as `eventValues`. */
  readonly rows: readonly string[]
}

/** What a log has rows of. */
export interface RowKind {
  /** Their name in messages. */
  readonly what: string
  /** Returns the statement that inserts the rows of `$1`, a JSON array of their values, where a condition holds. */
  insertSql(dialect: Dialect, condition?: string): string
  /** Returns values that were kept elsewhere as a row; undefined for other ones, which the table may refuse. */
  toRow(values: unknown): readonly unknown[] | undefined
  /** Returns how many records a row stands for. */
  countIn(row: string): number
}

/** A table to which a batch can be written again when it is unknown whether it was written. */
export interface BatchTable {
  /**
   * Writes all rows, or none.
   *
   * @param urgent resolves when the rows must not be lost with the process any more, for a table that has more than memory
   * @returns how many of the rows, from the first on, need no more writing: fewer than all where an earlier attempt,
   * whose answer was lost, had written the first ones
   */
  write(batch: BatchRows, urgent?: Promise<void>): Promise<number>
  /** Returns whether an error of `write` is the database's answer that it never takes these rows. */
  refusesRows(error: unknown): boolean
  /** The time of the oldest row that the table took and the database lacks. */
  readonly oldestMs?: number | undefined
  /** Resolves when the database has all that the table took, or lacks it after an attempt. */
  flush?(): Promise<void>
  close?(): Promise<void>
}

/** Writers that wrote nothing for so long are forgotten, by the next one that begins. */
const FORGOTTEN_AFTER_MS = 30 * DAY_MS

/**
 * Creates the table. The position of a writer is kept in the same transaction as the rows, so that both are there or
 * none. SQLite, whose answers no network loses, needs positions only where a spool outlives the process.
 */
export function createBatchTable(
  database: Database,
  clock: Clock,
  hasSpool: boolean,
  { insertSql }: RowKind,
): BatchTable {
  const { dialect } = database
  const positions = dialect.table('rate_limit_event_batch')
  const insert = insertSql(dialect)
  // A row of another transaction under way is waited for.
  const claim = (parameters: readonly [writer: string, first: string, last: string, nowMs: string]) => {
    const [writer, first, last, nowMs] = parameters
    return `INSERT INTO ${positions} AS position (writer, last_event, written_at)
      VALUES (${writer}, ${dialect.whole(last)}, ${dialect.fromMs(nowMs)})
      ON CONFLICT (writer) DO UPDATE SET last_event = excluded.last_event, written_at = excluded.written_at
      WHERE position.last_event < ${dialect.whole(first)}`
  }
  const claimRows = claim(['$1', '$2', '$3', '$4'])
  const writeAtOnce = `WITH claimed AS (${claim(['$2', '$3', '$4', '$5'])} RETURNING 1)
    ${insertSql(dialect, 'EXISTS (SELECT FROM claimed)')}`
  const keepsPositions = hasSpool || dialect.provider === 'postgresql'
  let hasForgotten = !keepsPositions

  /**
   * SQLite has no statement that writes to two tables, PostgreSQL a round trip for each statement.
   *
   * @returns false where the table has the first row already
   */
  async function writeRows({ writer, first, rows }: BatchRows): Promise<boolean> {
    const rowsJson = `[${rows.join(',')}]`
    if (!keepsPositions) {
      await database.execute(insert, [rowsJson])
      return true
    }
    const position = [writer, first, first + rows.length - 1, clock.now()]
    if (dialect.provider === 'postgresql') return (await database.execute(writeAtOnce, [rowsJson, ...position])) > 0
    const changed = await database.transaction([
      { sql: claimRows, parameters: position, mustChange: true },
      { sql: insert, parameters: [rowsJson] },
    ])
    return changed !== null
  }

  /** Counts the rows that an attempt wrote of which the answer was lost. */
  async function countWritten({ writer, first, rows }: BatchRows): Promise<number> {
    const sql = `SELECT last_event AS last FROM ${positions} WHERE writer = $1`
    const [position] = await database.query<{ last: number }>(sql, [writer])
    return Math.max(0, Math.min((position?.last ?? 0) - first + 1, rows.length))
  }

  return {
    async write(batch) {
      const count = (await writeRows(batch)) ? batch.rows.length : await countWritten(batch)
      if (!hasForgotten) {
        hasForgotten = true
        const isOld = `written_at < ${dialect.fromMs('$1')}`
        // Left to the next writer where it fails.
        database
          .execute(`DELETE FROM ${positions} WHERE ${isOld}`, [clock.now() - FORGOTTEN_AFTER_MS])
          .catch(() => undefined)
      }
      return count
    },

    refusesRows: (error) => dialect.refusesRows(error),
  }
}
