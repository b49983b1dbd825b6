import type { BatchWriter } from './batch-writer.js'
import type { Spool } from './spool.js'

export interface SpoolReplayOptions {
  /** The spools of processes that are gone. */
  readonly spools: readonly Spool[]
  /** Creates the writer of their events, which calls `settle` with the number of events that are written or refused. */
  readonly createWriter: (settle: (count: number) => void) => BatchWriter
  /** Called with the number of events that cannot be read. */
  readonly lose: (count: number, error: unknown) => void
  readonly report: (message: string, error: unknown) => void
}

const UNSPOOLED = 'Rate limit events cannot be spooled'

/** Writes what processes left that are gone, one spool after the other, beside this process's own events. */
export class SpoolReplay {
  readonly #options: SpoolReplayOptions
  readonly #writer: BatchWriter
  /** Resolves when all spools are written, or after `stop`. */
  readonly end: Promise<void>
  #left = 0
  #isStopped = false

  constructor(options: SpoolReplayOptions) {
    this.#options = options
    this.#writer = options.createWriter((count) => {
      this.#left -= count
    })
    this.end = this.#run()
  }

  /** The number of events that are not in the table. */
  get left(): number {
    return this.#left
  }

  /** The space that the spools take. */
  get bytes(): number {
    return this.#options.spools.reduce((sum, { bytes }) => sum + bytes, 0)
  }

  /** Leaves the rest to a process that starts later. */
  stop(): void {
    this.#isStopped = true
    this.#writer.stop()
  }

  async #run(): Promise<void> {
    const { spools } = this.#options
    const counts = await Promise.all(spools.map((spool) => spool.count()))
    this.#left += counts.reduce((sum, count) => sum + count, 0)
    for (const spool of spools) await this.#write(spool)
  }

  async #write(spool: Spool): Promise<void> {
    try {
      for (let file = await spool.read(0); file !== undefined && !this.#isStopped; file = await spool.read(0)) {
        for (const run of file.runs) await this.#writer.write(run)
        if (this.#isStopped) break
        if (file.unreadable > 0) {
          this.#left -= file.unreadable
          this.#options.lose(file.unreadable, file.problem)
        }
        await file.remove().catch((error: unknown) => this.#options.report(UNSPOOLED, error))
      }
    } catch (error) {
      this.#options.report('Rate limit events of an earlier process cannot be read', error)
    }
    await spool.close().catch((error: unknown) => this.#options.report(UNSPOOLED, error))
  }
}
