import type { Database } from '../db/database.js'
import { type Clock, DAY_MS } from '../time/clock.js'
import { insertEventsSql } from './event.js'

/** Rows of the event log. Each writer numbers its events from 1, without gaps, and writes them in that order. */
export interface EventRows {
  /** A random id: of a process, or rather of one event log in it. */
  readonly writer: string
  /** The number of the first row. */
  readonly first: number
  /** Each row as the JSON of its `eventValues`. */
  readonly rows: readonly string[]
}

/** The table of events, to which a batch can be written again when it is unknown whether it was written. */
export interface EventTable {
  /**
   * Writes all rows, or none.
   *
   * @returns whether the rows were written; false where the table has the first one already
   */
  write(batch: EventRows): Promise<boolean>
  /** Returns the number of the writer's last event that is in the table; 0 where none is. */
  lastWritten(writer: string): Promise<number>
  /** Returns whether an error of `write` is the database's answer that it never takes these rows. */
  refusesRows(error: unknown): boolean
}

/** Writers that wrote nothing for so long are forgotten, by the next one that begins. */
const FORGOTTEN_AFTER_MS = 30 * DAY_MS

/**
 * Creates the table. The position of a writer is kept in the same transaction as the rows, so that both are there or
 * none. SQLite, whose answers no network loses, needs positions only where a spool outlives the process.
 */
export function createEventTable(database: Database, clock: Clock, hasSpool: boolean): EventTable {
  const { dialect } = database
  const positions = dialect.table('rate_limit_event_batch')
  const insert = insertEventsSql(dialect)
  // A row of another transaction under way is waited for.
  const claim = (parameters: readonly [writer: string, first: string, last: string, nowMs: string]) => {
    const [writer, first, last, nowMs] = parameters
    return `INSERT INTO ${positions} AS known (writer, last_event, written_at)
      VALUES (${writer}, ${dialect.whole(last)}, ${dialect.fromMs(nowMs)})
      ON CONFLICT (writer) DO UPDATE SET last_event = excluded.last_event, written_at = excluded.written_at
      WHERE known.last_event < ${dialect.whole(first)}`
  }
  const claimRows = claim(['$1', '$2', '$3', '$4'])
  const writeAtOnce = `WITH claimed AS (${claim(['$2', '$3', '$4', '$5'])} RETURNING 1)
    ${insert} AND EXISTS (SELECT FROM claimed)`
  const keepsPositions = hasSpool || dialect.provider === 'postgresql'
  let hasForgotten = !keepsPositions

  /** SQLite has no statement that writes to two tables, PostgreSQL a round trip for each statement. */
  async function writeRows({ writer, first, rows }: EventRows): Promise<boolean> {
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

  return {
    async write(batch) {
      const isWritten = await writeRows(batch)
      if (!hasForgotten) {
        hasForgotten = true
        const isOld = `written_at < ${dialect.fromMs('$1')}`
        // Left to the next writer where it fails.
        database
          .execute(`DELETE FROM ${positions} WHERE ${isOld}`, [clock.now() - FORGOTTEN_AFTER_MS])
          .catch(() => undefined)
      }
      return isWritten
    },

    async lastWritten(writer) {
      const sql = `SELECT last_event AS last FROM ${positions} WHERE writer = $1`
      const [known] = await database.query<{ last: number }>(sql, [writer])
      return known?.last ?? 0
    },

    refusesRows: (error) => dialect.refusesRows(error),
  }
}
