/** The files of a spool, with one row per line. They are opened through no link, which could lead to any file. */

import { isUtf8 } from 'node:buffer'
import { constants } from 'node:fs'
import { open, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { basename, dirname } from 'node:path'
import { errorCode, errorMessage } from '../ground/errors.js'
import { countOf } from '../ground/number-text.js'
import type { BatchRows, RowKind } from './batch-table.js'

/** The ending of files with unreadable events. */
export const UNREADABLE = '.unreadable'
const NEWLINE = 0x0a
/** Unknown to Windows. */
const NO_LINK = constants.O_NOFOLLOW ?? 0
const READ = constants.O_RDONLY | NO_LINK
const CREATE = constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC | NO_LINK
const EXTEND = constants.O_WRONLY | constants.O_APPEND | NO_LINK
/** Errors of a process that has too much open at the moment: the file itself can be read. */
const PASSING = /^(?:EMFILE|ENFILE|ENOMEM)$/

export interface SpoolFile {
  readonly writer: string
  readonly path: string
  /** The number of its first row. */
  readonly first: number
  /** The time of its first row, where this process wrote the file. */
  readonly firstMs?: number
  /** The number of its rows. */
  count: number
  /** The number of events that its rows stand for. */
  events: number
  /** The bytes of complete rows that are safe on the disk. */
  bytes: number
}

export interface SpooledRows {
  /** The rows in their order. Between two runs there is what cannot be read. */
  readonly runs: readonly BatchRows[]
  /** The number of events that cannot be read, and why. */
  readonly unreadable: number
  readonly problem: Error
  /** Deletes the file, but for what cannot be read. */
  remove(): Promise<void>
}

/**
 * Appends rows, and resolves when they are safe on the disk.
 *
 * @throws the error of the disk, after which the rows are not in the file
 */
export async function appendRows(file: SpoolFile, rows: readonly string[]): Promise<void> {
  const text = Buffer.from(`${rows.join('\n')}\n`)
  const handle = await open(file.path, file.count === 0 ? CREATE : EXTEND, 0o600)
  try {
    await handle.appendFile(text)
    await handle.datasync()
    if (file.count === 0) await syncFolder(dirname(file.path))
  } catch (error) {
    await (file.count === 0 ? rm(file.path, { force: true }) : handle.truncate(file.bytes)).catch(() => undefined)
    throw error
  } finally {
    await handle.close()
  }
  file.bytes += text.length
  file.count += rows.length
}

/** @throws where the process can read no file at the moment */
export async function readRows(file: SpoolFile, kind: RowKind): Promise<SpooledRows> {
  const { path, writer, first, count, events, bytes } = file
  const kept = `${path}${UNREADABLE}`
  const text = await readFile(path, { flag: READ }).catch((error: unknown) => {
    if (PASSING.test(errorCode(error) ?? '')) throw error
    return error
  })
  const lines = Buffer.isBuffer(text) ? splitLines(text.subarray(0, bytes)) : []
  const runs: { readonly writer: string; readonly first: number; readonly rows: string[] }[] = []
  const broken: Buffer[] = []
  for (const [index, line] of lines.entries()) {
    const row = parseLine(line, kind)
    const run = runs.at(-1)
    if (row === undefined) broken.push(line, Buffer.of(NEWLINE))
    else if (run !== undefined && run.first + run.rows.length === first + index) run.rows.push(row)
    else runs.push({ writer, first: first + index, rows: [row] })
  }
  const unreadableRows = Math.max(count - lines.length, 0) + broken.length / 2
  const readEvents = runs.flatMap(({ rows }) => rows).reduce((sum, row) => sum + kind.countIn(row), 0)
  const unreadable = unreadableRows === 0 ? 0 : Math.max(events - readEvents, unreadableRows)
  const why = Buffer.isBuffer(text) ? 'is not a row' : errorMessage(text)
  return {
    runs,
    unreadable,
    problem: new Error(`${countOf(unreadable, 'event')} of ${path} cannot be read (${why}): see ${basename(kept)}`),
    async remove() {
      if (!Buffer.isBuffer(text)) return rename(path, kept)
      if (broken.length > 0) await writeFile(kept, broken, { mode: 0o600, flag: CREATE })
      await rm(path, { force: true })
    },
  }
}

/** Counts the rows of a file and their events: of one that cannot be read, at least one. */
export async function countRows(file: SpoolFile, kind: RowKind): Promise<void> {
  const lines = await readFile(file.path, { flag: READ }).then(splitLines, () => undefined)
  file.count = lines?.length ?? 1
  file.events = lines?.reduce((sum, line) => sum + kind.countIn(line.toString('latin1')), 0) ?? 1
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

/** Returns the row that a line has, as this package writes it; undefined for any other line. */
function parseLine(line: Buffer, { toRow }: RowKind): string | undefined {
  try {
    // Decoded, wrong bytes would become another client's name.
    const row = isUtf8(line) ? toRow(JSON.parse(line.toString())) : undefined
    return row && JSON.stringify(row)
  } catch {
    return undefined
  }
}

/** Makes the name of a new file safe on the disk. Windows needs no such thing, and refuses it. */
async function syncFolder(folder: string): Promise<void> {
  if (process.platform === 'win32') return
  const handle = await open(folder, 'r')
  await handle.sync().finally(() => handle.close())
}
