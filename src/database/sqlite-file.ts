import { closeSync, openSync, statSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import type { SqlConnection, SqliteFunctions, SqlValue } from './dialect.js'
import { BUSY_TIMEOUT_MS, BusyLine, whileBusy } from './sqlite-busy.js'
import { openSqliteFile, type SqliteDatabase, type SqliteStatement, sqliteErrorCode } from './sqlite-driver.js'

/**
 * The number of pages in the write-ahead log (of 4 KiB each, 32 MiB in all) at which it is copied into the file. Eight
 * times SQLite's default, since the event log rewrites the same pages of its indexes, and each is copied once.
 */
const CHECKPOINT_PAGES = 8_000
/** The pages at which a writer copies the log although `copyLog` should have done it (256 MiB). */
export const BACKSTOP_PAGES = 64_000
/** The time for which closing lets statements be retried while another writer holds the file, in milliseconds. */
const CLOSE_RETRY_MS = 500
/** Undoes a transaction. */
const NOTHING_CHANGED = new Error('a statement that must change a row changed none')

/** A connection to a file. */
export interface SqliteFile extends Pick<SqlConnection, 'query' | 'execute' | 'transaction' | 'close'> {
  /** Copies the write-ahead log into the file. Other connections are locked out for the last part only. */
  copyLog(): Promise<void>
}

interface Checkpoint {
  /** The number of pages in the log, and of those that are copied; -1 where the file has no log. */
  readonly log: number
  readonly checkpointed: number
}

export interface FileOptions {
  readonly path: string
  /** Whether statements only read. */
  readonly onlyReads: boolean
  /** The pages in the write-ahead log at which a write also copies it; `CHECKPOINT_PAGES` by default. */
  readonly checkpointPages?: number
  readonly functions?: SqliteFunctions | undefined
}

/** Opens a file on this thread. It retries, since another process may be switching the file to write-ahead mode. */
export async function openHere({ path, onlyReads, checkpointPages, functions }: FileOptions): Promise<SqliteFile> {
  const database = await whileBusy(() => openSqlite(path, checkpointPages))
  // Inserting events copies the pages of their indexes in a transaction: to a file that would cost a third of the
  // insert. A report's sorting, which may need much, stays in files.
  if (!onlyReads) {
    database.pragma('temp_store = MEMORY')
    database.function(MATCHING, createMatching())
    functions?.register(database)
  }
  const statements = new Map<string, SqliteStatement>()
  const line = new BusyLine()

  function prepare(sql: string): SqliteStatement {
    let statement = statements.get(sql)
    if (statement === undefined) {
      statement = database.prepare(sql)
      statements.set(sql, statement)
    }
    return statement
  }

  return {
    async query<Row>(sql: string, parameters: readonly SqlValue[] = []) {
      const statement = prepare(sql)
      const run = () => rows<Row>(statement.all(named(parameters)))
      // A reader waits for no writer in write-ahead mode, and not for statements that do either.
      return statement.readonly ? whileBusy(run) : line.run(database, run)
    },

    async execute(sql, parameters = []) {
      return line.run(database, () => prepare(sql).run(named(parameters)).changes)
    },

    async transaction(statements) {
      const run = database.transaction(() => {
        let changed = 0
        for (const { sql, parameters, mustChange } of statements) {
          const { changes } = prepare(sql).run(named(parameters))
          if (changes === 0 && mustChange) throw NOTHING_CHANGED
          changed += changes
        }
        return changed
      })
      return line.run(database, () => {
        try {
          return run.immediate()
        } catch (error) {
          if (error === NOTHING_CHANGED) return null
          throw error
        }
      })
    },

    // The log can restart only when all of it is copied, which needs a moment without a writer. So most is copied
    // beside other writers, then what was written during that, and writers are locked out only for the rest.
    async copyLog() {
      const isAllCopied = () =>
        rows<Checkpoint>(prepare('PRAGMA wal_checkpoint(PASSIVE)').all()).every(
          ({ log, checkpointed }) => checkpointed === log,
        )
      // Locking writers out would not help while a reader (a long report) needs what the log replaces.
      if (isAllCopied() && isAllCopied()) prepare('PRAGMA wal_checkpoint(FULL)').all()
    },

    async close() {
      await Promise.race([line.idle(), delay(CLOSE_RETRY_MS, undefined, { ref: false })])
      database.close()
    },
  }
}

/** The function that answers a text which matches a regular expression, and a replacement for any other value. */
export const MATCHING = 'rate_limit_matching'

function createMatching() {
  let pattern = /(?:)/
  return (value: SqlValue, source: string, replacement: string): string => {
    if (source !== pattern.source) pattern = new RegExp(source)
    return typeof value === 'string' && pattern.test(value) ? value : replacement
  }
}

/** The suffixes of a database's files: SQLite's log, its index, and the journal of a file not in write-ahead mode. */
const COMPANIONS = ['', '-wal', '-shm', '-journal']
const OTHERS_READ_OR_WRITE = 0o066
const OTHERS_WRITE = 0o002
const STICKY = 0o1000

/** A file that users other than its owner may read or write. */
export interface ExposedFile {
  readonly path: string
  /** The mode in octal. */
  readonly mode: string
}

/** Returns the exposed files of a database; none on Windows, where modes mean nothing. */
export function exposedFiles(path: string): ExposedFile[] {
  if (process.platform === 'win32') return []
  return COMPANIONS.flatMap((companion) => {
    const { mode = 0 } = statSync(path + companion, { throwIfNoEntry: false }) ?? {}
    return (mode & OTHERS_READ_OR_WRITE) === 0 ? [] : [{ path: path + companion, mode: (mode & 0o777).toString(8) }]
  })
}

/** Returns whether all users may replace the files of a folder: they may write to it, and it is not "sticky" as /tmp is. */
export function isOpenToAll(folder: string): boolean {
  const { mode = 0 } = statSync(folder, { throwIfNoEntry: false }) ?? {}
  return process.platform !== 'win32' && (mode & OTHERS_WRITE) !== 0 && (mode & STICKY) === 0
}

/** Returns the remedy for a file that cannot be used; undefined for any other error. */
export function unusableFileRemedy(error: unknown): string | undefined {
  // The driver itself checks this, before SQLite.
  const isMissingFolder = error instanceof TypeError && error.message.includes('directory does not exist')
  const code = sqliteErrorCode(error) ?? ''
  if (/^SQLITE_(?:NOTADB|CORRUPT)/.test(code)) return 'restore the file from a backup, or name another one'
  if (isMissingFolder || /^SQLITE_(?:CANTOPEN|READONLY|IOERR|FULL|PERM|AUTH)/.test(code)) {
    return 'give a file in a folder that exists and can be written to'
  }
  return undefined
}

/** Creates the file for its owner only; SQLite would let all users read it. The files beside it inherit its mode. */
function createForOwner(path: string): void {
  try {
    // The file has to be new: closing an existing one would release the locks of this process's connections.
    closeSync(openSync(path, 'wx', 0o600))
  } catch {
    // The file exists, or cannot be created: SQLite reports the reason when it opens it.
  }
}

/** Opens the file in write-ahead mode, where readers never wait for a writer. Creates a missing file. */
export function openSqlite(path: string, checkpointPages = CHECKPOINT_PAGES): SqliteDatabase {
  createForOwner(path)
  const database = openSqliteFile(path, { timeout: BUSY_TIMEOUT_MS })
  try {
    if (database.pragma('journal_mode', { simple: true }) !== 'wal') database.pragma('journal_mode = WAL')
    database.pragma('synchronous = NORMAL')
    database.pragma(`wal_autocheckpoint = ${checkpointPages}`)
  } catch (error) {
    database.close()
    throw error
  }
  return database
}

/** Names the parameters: the driver reads `$1` as a parameter named "1". */
export function named(parameters: readonly SqlValue[]): Record<string, SqlValue> {
  return Object.fromEntries(parameters.map((value, index) => [index + 1, value]))
}

// The caller, who wrote the statement, alone knows the type of its rows.
export function rows<Row>(answered: unknown[]): Row[] {
  return answered as Row[]
}
