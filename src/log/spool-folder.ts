/**
 * The folder of spools. Each writer has its own files: `<writer>-<number of the first>.events` with its events, and
 * `<writer>.lock`, locked while the writer's process lives.
 */
import { randomUUID } from 'node:crypto'
import {
  closeSync,
  existsSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  rmSync,
  type Stats,
  statSync,
} from 'node:fs'
import { join } from 'node:path'
import { openSqliteFile, sqliteErrorCode } from '../database/sqlite-driver.js'
import { errorCode, errorMessage, InvalidSettingError } from '../ground/errors.js'
import type { RowKind } from './batch-table.js'
import { readRows, type SpoolFile, UNREADABLE } from './spool-file.js'

const FILE = /^(?<writer>[0-9a-f-]{36})(?:-(?<first>\d{16})\.events|\.lock)$/
const OTHERS_WRITE = 0o022

/** The lock of a writer's files, which the operating system ends with the process. */
type SpoolLock = ReturnType<typeof openSqliteFile>

export interface SpoolFolder {
  /** The id of this process's files. */
  readonly writer: string
  /** The files of processes that are gone. */
  readonly abandoned: readonly SpoolFile[]
  /** Returns the path of this process's file that begins with an event. */
  filePath(first: number): string
  /** Leaves the files to the next process that starts. */
  close(): void
}

/**
 * Opens a folder, and takes over what processes left there that are gone.
 *
 * @throws InvalidSettingError when the folder cannot be used
 */
export function openSpoolFolder(folder: string): SpoolFolder {
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    requireOwnership(folder)
    const [writer, writerLock] = lockNewWriter(folder)
    const locks = new Map([[writer, writerLock]])
    for (const other of new Set(listNames(folder).map((name) => name.writer))) {
      const lock = other === writer ? undefined : tryLock(folder, other)
      if (lock === undefined) continue
      if (listFiles(folder, other).length === 0) unlock(folder, other, lock)
      else locks.set(other, lock)
    }
    return {
      writer,
      abandoned: [...locks.keys()].flatMap((each) => listFiles(folder, each)),
      filePath: (first) => join(folder, `${writer}-${String(first).padStart(16, '0')}.events`),
      close() {
        for (const [each, lock] of locks) unlock(folder, each, lock)
      },
    }
  } catch (error) {
    if (error instanceof InvalidSettingError) throw error
    throw new InvalidSettingError(
      `Setting "eventSpool" is ${JSON.stringify(folder)}, which cannot be used (${errorMessage(error)}): give a local folder in which this process can create files`,
      { cause: error },
    )
  }
}

/** The events and files in the folder, of all processes. */
export interface SpooledTraces {
  readonly events: number
  /** The number of files with what could not be read. */
  readonly unreadable: number
}

export async function findSpooled(
  folder: string,
  isOfClient: (row: readonly unknown[]) => boolean,
  kind: RowKind,
): Promise<SpooledTraces> {
  if (!existsSync(folder)) return { events: 0, unreadable: 0 }
  let events = 0
  for (const file of listFiles(folder)) {
    const rows = (await readRows(file, kind)).runs.flatMap((run) => run.rows)
    for (const row of rows) if (isOfClient(JSON.parse(row))) events += kind.countIn(row)
  }
  return { events, unreadable: readdirSync(folder).filter((name) => name.endsWith(UNREADABLE)).length }
}

/**
 * Makes sure that nobody else decides what is in the folder, since its files are obeyed: they are written to the log.
 *
 * @throws InvalidSettingError naming what others may write to, and the remedy
 */
function requireOwnership(folder: string): void {
  // Windows has no such modes.
  if (process.geteuid === undefined) return
  const refusal = (what: string) =>
    new InvalidSettingError(`Setting "eventSpool" is ${JSON.stringify(folder)}, ${what}`)
  if (!isOwned(statSync(folder))) {
    throw refusal('which other users may write to: give a folder below it, which is then created, or run chmod 700')
  }
  for (const { name } of listNames(folder)) {
    const found = lstatSync(join(folder, name), { throwIfNoEntry: false })
    // Another process may have deleted it meanwhile.
    if (found === undefined || (found.isFile() && found.nlink <= 1 && isOwned(found))) continue
    throw refusal(`where ${name} is not a file that belongs to this user alone: find out who made it, then delete it`)
  }
}

function isOwned({ uid, mode }: Stats): boolean {
  return (mode & OTHERS_WRITE) === 0 && (uid === process.geteuid?.() || uid === 0)
}

function listNames(folder: string) {
  return readdirSync(folder)
    .sort()
    .flatMap((name) => {
      const { writer, first } = FILE.exec(name)?.groups ?? {}
      return writer === undefined ? [] : [{ name, writer, first }]
    })
}

/** Lists the files with events, of all writers or of one. */
function listFiles(folder: string, only?: string): SpoolFile[] {
  return listNames(folder).flatMap(({ name, writer, first }) => {
    if (first === undefined || writer !== (only ?? writer)) return []
    const path = join(folder, name)
    // A server may have deleted its file meanwhile.
    const bytes = statSync(path, { throwIfNoEntry: false })?.size
    return bytes === undefined ? [] : [{ writer, path, first: Number(first), count: 0, events: 0, bytes }]
  })
}

/** Locks a new id. A process that starts at the same moment may take that over before it is locked. */
function lockNewWriter(folder: string): readonly [writer: string, lock: SpoolLock] {
  for (;;) {
    const writer = randomUUID()
    const lock = tryLock(folder, writer)
    if (lock !== undefined && existsSync(lockPath(folder, writer))) return [writer, lock]
    lock?.close()
  }
}

/**
 * Locks a writer's file as SQLite does: the operating system ends the lock with the process, however that ends, and no
 * other process that has its id by chance holds it. Returns undefined where the file is locked.
 */
function tryLock(folder: string, writer: string): SpoolLock | undefined {
  const path = lockPath(folder, writer)
  try {
    // An existing file is not opened here: closing it would end this process's own lock on it.
    closeSync(openSync(path, 'wx', 0o600))
  } catch (error) {
    if (errorCode(error) !== 'EEXIST') throw error
  }
  const lock = openSqliteFile(path, { timeout: 0 })
  try {
    // The lock has no journal beside it: nothing is ever written to the file.
    lock.pragma('journal_mode = MEMORY')
    lock.exec('BEGIN EXCLUSIVE')
    return lock
  } catch (error) {
    lock.close()
    if (sqliteErrorCode(error) === 'SQLITE_BUSY') return undefined
    throw error
  }
}

function unlock(folder: string, writer: string, lock: SpoolLock): void {
  try {
    // The file is deleted before it is unlocked: afterwards another process may have taken it over.
    if (listFiles(folder, writer).length === 0) rmSync(lockPath(folder, writer), { force: true })
  } catch {
    // An empty file stays, or the folder is gone.
  }
  lock.close()
}

function lockPath(folder: string, writer: string): string {
  return join(folder, `${writer}.lock`)
}
