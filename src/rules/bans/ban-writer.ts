import type { Database } from '../../database/database.js'
import { MAX_BANS, type NewBan, writeBans } from './ban-table.js'

export interface BanWriterOptions {
  readonly database: Database
  readonly log: {
    error(details: object, message: string): void
    warn(details: object, message: string): void
    info(message: string): void
  }
}

/** A ban that waits to be written. */
interface WaitingBan {
  readonly ban: NewBan
  readonly nowMs: number
  readonly answer: (isDenied: boolean) => void
}

/** The batch takes one transaction of some milliseconds: other writers of overrides wait for it. */
const BATCH_SIZE = 100
/** The number of waiting bans above which further ones are dropped: the database does not answer. */
const MAX_WAITING = 10_000
/** The time for which nothing is written after a failure, and no ban of a rule that has as many as it may have. */
const RETRY_MS = 1_000

/**
 * Writes bans in batches, one after the other, in the background. What cannot be written is dropped: the next refusal of
 * that client asks for its ban again.
 */
export class BanWriter {
  readonly #options: BanWriterOptions
  #waiting: WaitingBan[] = []
  #writing: Promise<void> | undefined
  #failedAtMs: number | undefined
  /** The rules that may have no further ban, by when that was found. */
  readonly #full = new Map<string, number>()
  #isClosed = false

  constructor(options: BanWriterOptions) {
    this.#options = options
  }

  /**
   * Writes a ban, unless an earlier failure is too recent. Never rejects.
   *
   * @returns whether the client is denied, by this ban or by another override, and this process obeys
   */
  write(ban: NewBan, nowMs: number): Promise<boolean> {
    const isHalted = isRecent(this.#failedAtMs, nowMs) || isRecent(this.#full.get(ban.ruleName), nowMs)
    if (this.#isClosed || isHalted || this.#waiting.length >= MAX_WAITING) return Promise.resolve(false)
    return new Promise((answer) => {
      this.#waiting.push({ ban, nowMs, answer })
      this.#writing ??= this.#writeWaiting()
    })
  }

  /** Resolves when all bans are written. */
  async close(): Promise<void> {
    this.#isClosed = true
    await this.#writing
  }

  async #writeWaiting(): Promise<void> {
    while (this.#waiting.length > 0) {
      const batch = this.#waiting.splice(0, BATCH_SIZE)
      const nowMs = Math.max(...batch.map((waiting) => waiting.nowMs))
      const bans = batch.map(({ ban }) => ban)
      const denied = await this.#writeBatch(bans, nowMs)
      for (const { ban, answer } of batch) answer(denied.has(ban.client))
    }
    this.#writing = undefined
  }

  async #writeBatch(bans: readonly NewBan[], nowMs: number): Promise<ReadonlySet<string>> {
    const { database } = this.#options
    try {
      const { denied, full } = await writeBans(database, bans, nowMs)
      this.#written(bans, full, nowMs)
      return denied
    } catch (error) {
      this.#failed(error, nowMs)
      return new Set()
    }
  }

  #written(bans: readonly NewBan[], full: ReadonlySet<string>, nowMs: number): void {
    const { log } = this.#options
    if (this.#failedAtMs !== undefined) log.info('Rate limit bans can be written again')
    this.#failedAtMs = undefined
    for (const { ruleName } of bans) if (!full.has(ruleName)) this.#full.delete(ruleName)
    for (const ruleName of full) {
      if (!this.#full.has(ruleName)) {
        log.warn(
          { rule: ruleName },
          `Rate limit rule has ${MAX_BANS} bans in force: it bans no further client until one ends`,
        )
      }
      this.#full.set(ruleName, nowMs)
    }
  }

  #failed(error: unknown, nowMs: number): void {
    const { log } = this.#options
    if (this.#failedAtMs === undefined) {
      log.error({ err: error }, 'Rate limit bans cannot be written: refused clients are not banned until they can')
    }
    this.#failedAtMs = nowMs
    for (const { answer } of this.#waiting.splice(0)) answer(false)
  }
}

/** Returns whether something happened so lately that it is not tried again. The clock may have been set back. */
function isRecent(atMs: number | undefined, nowMs: number): boolean {
  return atMs !== undefined && nowMs >= atMs && nowMs < atMs + RETRY_MS
}
