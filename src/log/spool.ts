/**
 * A folder for events that wait for the database. Each writer has its own files: `<writer>-<number of the first>.events`
 * with one row per line, and `<writer>.lock`, locked while the writer's process lives. A process that starts takes over
 * the files of writers that are gone. What cannot be read stays in `….events.unreadable`, which no process takes.
 */
import { isUtf8 } from 'node:buffer'
import { randomUUID } from 'node:crypto'
import {
  closeSync,
  constants,
  existsSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  type Stats,
  statSync,
} from 'node:fs'
import { type FileHandle, open, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { openSqliteFile, sqliteErrorCode } from '../database/sqlite-driver.js'
import { errorCode, errorMessage, InvalidSettingError } from '../ground/errors.js'
import { type EventRows, isEventRow } from './event.js'

/** The most that one process keeps in the folder: about a million events. */
export const MAX_SPOOL_BYTES = 256 * 2 ** 20
/** A file is deleted when all of its events are in the table, and read as a whole. */
const MAX_FILE_BYTES = 4 * 2 ** 20
/** The end of the name of what could not be read. */
const UNREADABLE = '.unreadable'
const NEWLINE = 0x0a
/** Opens no link, by which another user could have any file of this one read or overwritten; unknown to Windows. */
const NO_LINK = constants.O_NOFOLLOW ?? 0
const READ = constants.O_RDONLY | NO_LINK
const WRITE_ANEW = constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC | NO_LINK
const OTHERS_WRITE = 0o022
/** Errors of a process that has too much open at the moment: the file itself can be read. */
const PASSING = /^(?:EMFILE|ENFILE|ENOMEM)$/

const FILE = /^(?<writer>[0-9a-f-]{36})(?:-(?<first>\d{16})\.events|\.lock)$/

interface SpoolFile {
  readonly path: string
  /** The number of its first event. */
  readonly first: number
  count: number
  /** The bytes of complete rows that are safe on the disk. */
  bytes: number
}

/** The lock of a writer's files, which the operating system ends with the process. */
interface SpoolLock {
  close(): unknown
}

export interface SpooledRows {
  /** The rows in their order. Between two runs there is what cannot be read. */
  readonly runs: readonly EventRows[]
  /** The number of events that cannot be read, and why. */
  readonly unreadable: number
  readonly problem: Error
  /** Deletes the file of the rows, but for what cannot be read. */
  remove(): Promise<void>
}

/** The events of one writer in the folder. */
export class Spool {
  readonly writer: string
  readonly #folder: string
  readonly #lock: SpoolLock
  /** In the order of their events. */
  readonly #files: SpoolFile[] = []
  /** The file that is being written. */
  #open: { readonly file: SpoolFile; readonly handle: FileHandle } | undefined

  constructor(folder: string, writer: string, lock: SpoolLock, files: readonly SpoolFile[] = []) {
    this.#folder = folder
    this.writer = writer
    this.#lock = lock
    this.#files.push(...files)
  }

  get isEmpty(): boolean {
    return this.#files.length === 0
  }

  get bytes(): number {
    return this.#files.reduce((sum, { bytes }) => sum + bytes, 0)
  }

  /**
   * Appends rows, and resolves when they are safe on the disk.
   *
   * @throws the error of the disk, after which the rows are not in the spool
   */
  async append(first: number, rows: readonly string[]): Promise<void> {
    const open = await this.#fileFor(first)
    const { file, handle } = open
    const text = Buffer.from(`${rows.join('\n')}\n`)
    try {
      await handle.appendFile(text)
      await handle.datasync()
      if (file.count === 0) await syncFolder(this.#folder)
    } catch (error) {
      if (this.#open === open) this.#open = undefined
      if (file.count === 0) this.#forget(file)
      await handle.truncate(file.bytes).catch(() => undefined)
      await handle.close().catch(() => undefined)
      if (file.count === 0) await rm(file.path, { force: true }).catch(() => undefined)
      throw error
    }
    file.bytes += text.length
    file.count += rows.length
  }

  /**
   * Reads the rows of the oldest file; undefined where there is none. Must not run while rows are appended.
   *
   * @param settled the number of the last event that needs no more writing
   * @throws where the process can read no file at the moment
   */
  async read(settled: number): Promise<SpooledRows | undefined> {
    const [file] = this.#files
    if (file === undefined) return undefined
    if (this.#open?.file === file) await this.#closeFile()
    const known = Math.min(Math.max(0, settled + 1 - file.first), file.count)
    const kept = `${file.path}${UNREADABLE}`
    const text = await readWhole(file).catch((error: unknown) => {
      if (PASSING.test(errorCode(error) ?? '')) throw error
      return error
    })
    const why = Buffer.isBuffer(text) ? 'is no row' : errorMessage(text)
    const lines = Buffer.isBuffer(text) ? splitLines(text.subarray(0, file.bytes)) : []
    const { runs, broken } = this.#toRuns(lines, file.first, known)
    const readable = runs.reduce((sum, { rows }) => sum + rows.length, 0)
    const unreadable = Math.max(file.count, lines.length) - known - readable
    return {
      runs,
      unreadable,
      problem: new Error(`${unreadable} event(s) of ${file.path} cannot be read (${why}): see ${basename(kept)}`),
      remove: async () => {
        this.#forget(file)
        if (!Buffer.isBuffer(text)) {
          await rename(file.path, kept)
          return
        }
        if (broken.length > 0)
          await writeFile(
            kept,
            broken.flatMap((line) => [line, '\n']),
            { mode: 0o600, flag: WRITE_ANEW },
          )
        await rm(file.path, { force: true })
      },
    }
  }

  /** Counts the events, where the files are those of another process: of a file that cannot be read, at least one. */
  async count(): Promise<number> {
    let count = 0
    for (const file of this.#files) {
      file.count = await readWhole(file).then(
        (text) => splitLines(text).length,
        () => 1,
      )
      count += file.count
    }
    return count
  }

  /** Leaves what is not written to the next process that starts. */
  async close(): Promise<void> {
    await this.#closeFile()
    // Before it is unlocked: afterwards another process may have taken it over.
    if (this.isEmpty) await rm(lockPath(this.#folder, this.writer), { force: true }).catch(() => undefined)
    this.#lock.close()
  }

  async #fileFor(first: number): Promise<{ readonly file: SpoolFile; readonly handle: FileHandle }> {
    const opened = this.#open
    if (opened !== undefined) {
      const { file } = opened
      if (file.bytes < MAX_FILE_BYTES && file.first + file.count === first) return opened
      await this.#closeFile()
    }
    const path = join(this.#folder, `${this.writer}-${String(first).padStart(16, '0')}.events`)
    const file = { path, first, count: 0, bytes: 0 }
    const handle = await open(path, WRITE_ANEW, 0o600)
    this.#files.push(file)
    this.#files.sort((one, other) => one.first - other.first)
    this.#open = { file, handle }
    return this.#open
  }

  /** Returns the rows after the first `known` ones, and the lines among them that are none. */
  #toRuns(lines: readonly Buffer[], first: number, known: number): { runs: EventRows[]; broken: Buffer[] } {
    const runs: EventRows[] = []
    const broken: Buffer[] = []
    let rows: string[] = []
    for (const [index, line] of lines.entries()) {
      const row = index < known ? undefined : toRow(line)
      if (row === undefined) {
        rows = []
        if (index >= known) broken.push(line)
        continue
      }
      if (rows.length === 0) runs.push({ writer: this.writer, first: first + index, rows })
      rows.push(row)
    }
    return { runs, broken }
  }

  async #closeFile(): Promise<void> {
    const opened = this.#open
    this.#open = undefined
    // Its rows are on the disk already.
    await opened?.handle.close().catch(() => undefined)
  }

  #forget(file: SpoolFile): void {
    const place = this.#files.indexOf(file)
    if (place >= 0) this.#files.splice(place, 1)
  }
}

async function readWhole({ path, bytes }: SpoolFile): Promise<Buffer> {
  if (bytes > MAX_SPOOL_BYTES) throw new Error(`it has more than ${MAX_SPOOL_BYTES} bytes`)
  return readFile(path, { flag: READ })
}

/** Returns the lines; the last one too where a crash cut it off before its end. */
function splitLines(text: Buffer): Buffer[] {
  const lines: Buffer[] = []
  for (let start = 0; start < text.length; ) {
    const newline = text.indexOf(NEWLINE, start)
    const end = newline < 0 ? text.length : newline
    lines.push(text.subarray(start, end))
    start = end + 1
  }
  return lines
}

/** Returns the text of a line that is a row, as this package writes it; undefined for any other. */
function toRow(line: Buffer): string | undefined {
  // Decoded, wrong bytes would become another client's name.
  if (!isUtf8(line)) return undefined
  const row = line.toString()
  try {
    return isEventRow(JSON.parse(row)) ? row : undefined
  } catch {
    return undefined
  }
}

export interface OpenSpools {
  /** The spool of this process. */
  readonly own: Spool
  /** Those of processes that are gone. */
  readonly abandoned: readonly Spool[]
}

/**
 * Opens the folder, and takes over what processes left there that are gone.
 *
 * @throws InvalidSettingError when the folder cannot be used
 */
export function openSpools(folder: string): OpenSpools {
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    requireOwn(folder)
    const own = createSpool(folder)
    return { own, abandoned: takeOver(folder, own.writer) }
  } catch (error) {
    if (error instanceof InvalidSettingError) throw error
    throw new InvalidSettingError(
      `Setting "eventSpool" is ${JSON.stringify(folder)}, which cannot be used (${errorMessage(error)}): give a local folder in which this process can create files`,
      { cause: error },
    )
  }
}

/** What was found in the folder, whatever process it is of. */
export interface SpooledTraces {
  readonly events: number
  /** The number of files with what could not be read. */
  readonly unreadable: number
}

export async function findSpooled(
  folder: string,
  isMeant: (row: readonly unknown[]) => boolean,
): Promise<SpooledTraces> {
  let events = 0
  const names = existsSync(folder) ? readdirSync(folder) : []
  for (const name of names) {
    if (FILE.exec(name)?.groups?.first === undefined) continue
    // A server may delete it meanwhile.
    const text = await readFile(join(folder, name), { flag: READ }).catch(() => Buffer.alloc(0))
    const rows = splitLines(text).map(toRow)
    events += rows.filter((row) => row !== undefined && isMeant(JSON.parse(row))).length
  }
  return { events, unreadable: names.filter((name) => name.endsWith(UNREADABLE)).length }
}

/**
 * Makes sure that nobody else decides what is in the folder, since its files are obeyed: they are written to the log.
 *
 * @throws InvalidSettingError naming what others may write to, and the remedy
 */
function requireOwn(folder: string): void {
  // Windows has no such modes.
  if (process.geteuid === undefined) return
  const refusal = (what: string) =>
    new InvalidSettingError(`Setting "eventSpool" is ${JSON.stringify(folder)}, ${what}`)
  if (!isOwn(statSync(folder))) {
    throw refusal('which other users may write to: give a folder below it, which is then created, or run chmod 700')
  }
  for (const name of readdirSync(folder)) {
    if (!FILE.test(name)) continue
    const found = lstatSync(join(folder, name), { throwIfNoEntry: false })
    // Another process may have deleted it meanwhile.
    if (found === undefined || (found.isFile() && found.nlink <= 1 && isOwn(found))) continue
    throw refusal(`where ${name} is no file of this user alone: look who made it, and delete it`)
  }
}

function isOwn({ uid, mode }: Stats): boolean {
  return (mode & OTHERS_WRITE) === 0 && (uid === process.geteuid?.() || uid === 0)
}

/** Creates a spool under a new id. A process that starts at the same moment may take that over before it is locked. */
function createSpool(folder: string): Spool {
  for (;;) {
    const writer = randomUUID()
    const lock = tryLock(folder, writer)
    if (lock === undefined) continue
    if (existsSync(lockPath(folder, writer))) return new Spool(folder, writer, lock)
    lock.close()
  }
}

function takeOver(folder: string, own: string): Spool[] {
  const writers = new Set(readdirSync(folder).flatMap((name) => FILE.exec(name)?.groups?.writer ?? []))
  writers.delete(own)
  return [...writers].flatMap((writer) => {
    const lock = tryLock(folder, writer)
    return lock === undefined ? [] : new Spool(folder, writer, lock, listFiles(folder, writer))
  })
}

function listFiles(folder: string, writer: string): SpoolFile[] {
  return readdirSync(folder)
    .sort()
    .flatMap((name) => {
      const found = FILE.exec(name)?.groups
      if (found?.writer !== writer || found.first === undefined) return []
      const path = join(folder, name)
      return { path, first: Number(found.first), count: 0, bytes: statSync(path).size }
    })
}

function lockPath(folder: string, writer: string): string {
  return join(folder, `${writer}.lock`)
}

/**
 * Locks a writer's file as SQLite does: the operating system ends the lock with the process, however that ends, and no
 * other process that has its id by chance holds it. Returns undefined where the file is locked.
 */
function tryLock(folder: string, writer: string): SpoolLock | undefined {
  const path = lockPath(folder, writer)
  // An existing file is not opened here: closing it would end this process's own lock on it.
  if (!existsSync(path)) createFile(path)
  const lock = openSqliteFile(path, { timeout: 0 })
  try {
    // Without a journal beside it: nothing is ever written to the file.
    lock.pragma('journal_mode = MEMORY')
    lock.exec('BEGIN EXCLUSIVE')
    return lock
  } catch (error) {
    lock.close()
    if (sqliteErrorCode(error) === 'SQLITE_BUSY') return undefined
    throw error
  }
}

/** Creates a file, unless there is one, or a link, of that name. */
function createFile(path: string): void {
  try {
    closeSync(openSync(path, 'wx', 0o600))
  } catch (error) {
    // Another process takes it over at the same moment.
    if (errorCode(error) !== 'EEXIST') throw error
  }
}

/** Makes a new file's name safe on the disk. Windows needs no such thing, and refuses it. */
async function syncFolder(folder: string): Promise<void> {
  if (process.platform === 'win32') return
  const handle = await open(folder, 'r')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}
