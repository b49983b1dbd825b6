import type { BatchRows, BatchTable, RowKind } from './batch-table.js'
import { BatchWriter, pauseMs } from './batch-writer.js'
import { EVENT_ROWS } from './event.js'
import type { EventLogState } from './event-log-state.js'
import { appendRows, countRows, readRows, type SpoolFile } from './spool-file.js'
import type { SpoolFolder } from './spool-folder.js'

export interface SpooledTableOptions {
  readonly table: BatchTable
  readonly folder: SpoolFolder
  /** The most events that one statement writes. */
  readonly batchSize: number
  readonly maxSpoolBytes?: number
  /** The rows that the files have; events unless given. */
  readonly rows?: RowKind
  readonly state: EventLogState
}

/** The most that one process keeps in the folder: about a million events. */
const MAX_SPOOL_BYTES = 256 * 2 ** 20
/** A file is deleted when all of its events are in the table, and read as a whole. */
const MAX_FILE_BYTES = 4 * 2 ** 20
/** The pause after a file could not be read. */
const READ_RETRY_MS = 1_000
/** The time for which closing waits for the running statement: one that hangs is given up by the database. */
const CLOSE_MS = 200

/**
 * A table that keeps on the disk what the database does not take, or not in time, and writes it in the background: first
 * the events of this process, in their order, then those of processes that are gone.
 */
export class SpooledTable implements BatchTable {
  readonly #options: SpooledTableOptions
  readonly #writer: BatchWriter
  /** The files of this process, in their order, and those of processes that are gone. */
  readonly #files: SpoolFile[] = []
  readonly #abandoned: SpoolFile[]
  readonly #counted: Promise<void>
  /** The file to which rows are appended. */
  #open: SpoolFile | undefined
  #appending: Promise<unknown> | undefined
  /** The last write past the spool. */
  #direct: Promise<unknown> | undefined
  /** The writing of the file that was read last. */
  #writing: Promise<void> | undefined
  #replaying: Promise<void> | undefined
  readonly #flushes: (() => void)[] = []
  #isClosed = false
  /** Resolves when the events of processes that are gone are in the table, or after `close`. */
  readonly replayed: Promise<void>

  constructor(options: SpooledTableOptions) {
    this.#options = options
    const { table, folder, batchSize, state } = options
    this.#abandoned = [...folder.abandoned]
    this.#writer = new BatchWriter({
      table: state.counting(table),
      batchSize,
      state,
      settled: (rows) => {
        state.spooled -= state.countIn(rows)
      },
      failed: () => this.#endFlushes(),
    })
    this.#counted = this.#countAbandoned()
    this.#replaying = this.#replay()
    this.replayed = this.#replaying
  }

  get oldestMs(): number | undefined {
    return this.#files[0]?.firstMs
  }

  refusesRows(error: unknown): boolean {
    return this.#options.table.refusesRows(error)
  }

  /** Resolves when the rows are in the table, or safe on the disk. */
  async write(batch: BatchRows, urgent = new Promise<void>(() => undefined)): Promise<number> {
    const { table, state } = this.#options
    // Rows go past the spool as soon as it is empty: they wait for the last file, if that is being written.
    if (this.#files.length === 1 && !state.isFailing) await Promise.race([this.#writing, urgent])
    if (this.#files.length > 0) {
      const error = await this.#append(batch)
      if (error === undefined) return batch.rows.length
      await this.flush()
      if (this.#files.length > 0) throw error
    }
    const direct = table.write(batch)
    this.#direct = direct.catch((error: unknown) => {
      if (table.refusesRows(error)) return
      state.fail(error)
      this.#endFlushes()
    })
    const isAnswered = await Promise.race([direct, urgent]).then(
      (count) => count !== undefined,
      (error: unknown) => table.refusesRows(error),
    )
    if (!isAnswered && (await this.#append(batch)) === undefined) return batch.rows.length
    const count = await direct
    state.wrote(batch.rows.slice(0, count))
    return count
  }

  flush(): Promise<void> {
    if (this.#files.length === 0 || this.#isClosed) return Promise.resolve()
    this.#writer.retryNow()
    return new Promise((resolve) => this.#flushes.push(resolve))
  }

  /** Leaves what is on the disk to a process that starts later. */
  async close(): Promise<void> {
    this.#isClosed = true
    this.#writer.stop()
    this.#endFlushes()
    await Promise.race([this.#replaying, pauseMs(CLOSE_MS)])
    this.#options.folder.close()
  }

  /** Resolves with the error where the disk does not take the rows. */
  async #append({ first, rows }: BatchRows): Promise<unknown> {
    const { state, maxSpoolBytes = MAX_SPOOL_BYTES } = this.#options
    const file = this.#fileFor(first, rows)
    const bytes = [...this.#files, ...this.#abandoned].reduce((sum, each) => sum + each.bytes, 0)
    try {
      if (bytes >= maxSpoolBytes) throw new Error(`the spool of ${maxSpoolBytes} bytes is full`)
      const appending = appendRows(file, rows)
      this.#appending = appending.catch(() => undefined)
      await appending
    } catch (error) {
      this.#open = undefined
      state.report('cannot be spooled', error)
      return error
    }
    if (!this.#files.includes(file)) this.#files.push(file)
    file.events += state.countIn(rows)
    state.spooled += state.countIn(rows)
    this.#replaying ??= this.#replay()
    return undefined
  }

  #fileFor(first: number, [row = '']: readonly string[]): SpoolFile {
    const open = this.#open
    if (open !== undefined && open.bytes < MAX_FILE_BYTES && open.first + open.count === first) return open
    const { writer, filePath } = this.#options.folder
    // A row begins with its time.
    const firstMs = Number.parseInt(row.slice(1), 10)
    this.#open = { writer, path: filePath(first), first, firstMs, count: 0, events: 0, bytes: 0 }
    return this.#open
  }

  async #countAbandoned(): Promise<void> {
    for (const file of this.#abandoned) {
      await countRows(file, this.#options.rows ?? EVENT_ROWS)
      this.#options.state.spooled += file.events
    }
  }

  async #replay(): Promise<void> {
    const { state } = this.#options
    await this.#counted
    while (!this.#isClosed) {
      const files = this.#files.length > 0 ? this.#files : this.#abandoned
      const [file] = files
      if (file === undefined) break
      // A statement that hangs may yet write rows of the file.
      await this.#direct
      // Further rows go to another file.
      if (this.#open === file) this.#open = undefined
      await this.#appending
      this.#writing = this.#writeFile(file, files).catch((error: unknown) => {
        state.report('in the spool cannot be read', error)
        return pauseMs(READ_RETRY_MS)
      })
      await this.#writing
      if (this.#files.length === 0) this.#endFlushes()
    }
    this.#replaying = undefined
  }

  async #writeFile(file: SpoolFile, files: SpoolFile[]): Promise<void> {
    const { state, rows: kind = EVENT_ROWS } = this.#options
    const { runs, unreadable, problem, remove } = await readRows(file, kind)
    for (const run of runs) await this.#writer.write(run)
    if (this.#isClosed) return
    if (unreadable > 0) {
      state.spooled -= unreadable
      state.lose(unreadable, problem)
    }
    await remove().catch((error: unknown) => state.report('cannot be spooled', error))
    files.shift()
  }

  #endFlushes(): void {
    for (const resolve of this.#flushes.splice(0)) resolve()
  }
}
