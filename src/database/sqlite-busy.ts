import { setTimeout as delay } from 'node:timers/promises'
import { type SqliteDatabase, sqliteErrorCode } from './sqlite-driver.js'

/** SQLite's own wait for another writer, in milliseconds; short, since it blocks the event loop. */
export const BUSY_TIMEOUT_MS = 5
/** The time for which a statement is then retried without blocking, before it fails, in milliseconds. */
const BUSY_RETRY_MS = 5_000

/**
 * Retries, between other work of the event loop, while another writer holds the file.
 *
 * @param deadlineMs by `performance.now()`, which no clock that is set changes
 */
export async function whileBusy<T>(run: () => T, deadlineMs = performance.now() + BUSY_RETRY_MS): Promise<T> {
  for (;;) {
    try {
      return run()
    } catch (error) {
      if (!isBusy(error) || performance.now() >= deadlineMs) throw error
      await delay(2 + Math.random() * 8)
    }
  }
}

/**
 * Queues the statements of one connection while another writer holds the file: the first one is retried, and the others
 * start after it. If each were retried on its own, every attempt blocking for `BUSY_TIMEOUT_MS`, a few would block the
 * event loop for as long as the file is held.
 */
export class BusyLine {
  #last: Promise<unknown> | undefined

  /** Resolves when no statement is retried. */
  async idle(): Promise<void> {
    while (this.#last !== undefined) await this.#last
  }

  run<T>(database: SqliteDatabase, statement: () => T): Promise<T> | T {
    const ahead = this.#last
    if (ahead === undefined) {
      try {
        return statement()
      } catch (error) {
        if (!isBusy(error)) throw error
      }
    }
    const turn = inTurn(ahead, database, statement)
    const last = turn
      .catch(() => undefined)
      .then(() => {
        if (this.#last === last) this.#last = undefined
      })
    this.#last = last
    return turn
  }
}

async function inTurn<T>(ahead: Promise<unknown> | undefined, database: SqliteDatabase, statement: () => T) {
  const deadlineMs = performance.now() + BUSY_RETRY_MS
  await ahead
  return whileBusy(() => {
    database.pragma('busy_timeout = 0')
    try {
      return statement()
    } finally {
      database.pragma(`busy_timeout = ${BUSY_TIMEOUT_MS}`)
    }
  }, deadlineMs)
}

function isBusy(error: unknown): boolean {
  return /^SQLITE_(?:BUSY|LOCKED)/.test(sqliteErrorCode(error) ?? '')
}
