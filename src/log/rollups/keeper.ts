import { setTimeout as delay } from 'node:timers/promises'
import { restAfter } from '../../database/batches.js'
import type { Database } from '../../database/database.js'
import { type Clock, SECOND_MS } from '../../ground/time/clock.js'
import { foldStep, markedHours, recountHour } from './fold.js'
import { type RunStep, trimMinutes, trimNextHour } from './trim-clients.js'

export interface RollupKeeperOptions {
  readonly database: Database
  /** Decides which minutes are recent. Rounds are scheduled by real time. */
  readonly clock: Clock
  /** Prepares reports at the end of each round. */
  readonly prepare?: () => Promise<void>
  readonly log: { warn(details: object, message: string): void }
}

/** Short, so that a report finds few events that are not folded; a round without work costs an index read. */
const INTERVAL_MS = SECOND_MS
/** The number of new events below which a round folds none: reports read these from the log. */
const LEAST_EVENTS = 1_000

/** Keeps the rollups in the background of a server: folds new events, counts marked hours again, and trims. */
export class RollupKeeper {
  readonly #options: RollupKeeperOptions
  readonly #stop = new AbortController()
  /** The hours that were marked in the last round. */
  #marked: ReadonlySet<number> = new Set()
  /** The minutes before it are trimmed. */
  #trimmedMinute = 0
  #running: Promise<void> | undefined
  #isFailing = false

  constructor(options: RollupKeeperOptions) {
    this.#options = options
    options.database.replacedListeners.add(() => {
      this.#trimmedMinute = 0
    })
  }

  start(): void {
    this.#running = this.#run()
  }

  /** Resolves when the current step is done. */
  async close(): Promise<void> {
    this.#stop.abort()
    await this.#running
  }

  /** Runs one round. Never rejects: failed work is tried again in the next round. */
  async round(): Promise<void> {
    const { database, clock } = this.#options
    try {
      while (await this.#rested(() => foldStep(database, clock.now(), LEAST_EVENTS)));
      const marked = await markedHours(database)
      // An hour whose events are being deleted is soon marked again: it is counted once its mark is a round old.
      for (const hour of marked.filter((each) => this.#marked.has(each))) {
        await recountHour(database, hour, clock.now(), (step) => this.#rested(step))
      }
      this.#marked = new Set(marked)
      const step: RunStep = (run) => this.#rested(run)
      while (await trimNextHour(database, clock.now(), step));
      this.#trimmedMinute = await trimMinutes(database, this.#trimmedMinute, clock.now(), step)
      await this.#options.prepare?.()
      this.#isFailing = false
    } catch (error) {
      this.#reportFailure(error)
    }
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop
    while (!signal.aborted) {
      // 0.5 to 1.5 intervals, so that processes that started together drift apart.
      await delay(INTERVAL_MS * (0.5 + Math.random()), undefined, { ref: false, signal }).catch(() => undefined)
      if (!signal.aborted) await this.round()
    }
  }

  /** Rests for as long as a step took, so that half of the database's time is left to others. */
  async #rested<T>(step: () => Promise<T>): Promise<T> {
    const { signal } = this.#stop
    signal.throwIfAborted()
    const startedMs = performance.now()
    const result = await step()
    await restAfter(startedMs, signal)
    return result
  }

  #reportFailure(error: unknown): void {
    if (this.#isFailing || this.#stop.signal.aborted) return
    this.#isFailing = true
    this.#options.log.warn(
      { err: error },
      'Rate limit events cannot be folded into the rollups: tried again in a moment',
    )
  }
}
