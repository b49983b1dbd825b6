import { type Clock, HOUR_MS, MINUTE_MS } from '../time/clock.js'
import type { DeleteExpired } from './state-cleanup.js'

export interface StateSweepOptions {
  /** What is deleted, one after the other. */
  readonly deletions: readonly DeleteExpired[]
  /** Decides what has expired. Rounds are scheduled by real time. */
  readonly clock: Clock
  readonly log: { warn(details: object, message: string): void }
  /** Returns a number from 0 to below 1. */
  readonly random?: () => number
}

/** Short beside the grace, so that a table has little more than an hour's clients; a round costs few index reads. */
const INTERVAL_MS = 10 * MINUTE_MS
/** More than the clocks of servers differ: one that has expired here may still count where a clock is behind. */
const GRACE_MS = HOUR_MS
/** About a millisecond with a synchronous driver, during which requests wait. */
const BATCH_SIZE = 100
/** About fifty times the work: ten million leftover rows are deleted in an hour and a half, unnoticed. */
const PAUSE_MS = 50

/**
 * Deletes counters and bans that have expired, in the background of a server. Every turn of the timer is one batch of
 * one table.
 *
 * Several processes need no coordination: they run at random times, skip each other's locked rows, and together may
 * delete leftovers faster. A failure ends the round; the next one tries again.
 */
export class StateSweep {
  readonly #options: StateSweepOptions
  readonly #random: () => number
  /** The remaining deletions of this round. */
  #left: DeleteExpired[] = []
  #timer: NodeJS.Timeout | undefined
  #stopped = false
  #isFailing = false

  constructor(options: StateSweepOptions) {
    this.#options = options
    this.#random = options.random ?? Math.random
  }

  /** Starts with a wait, since a server that has just started is busy. */
  start(): void {
    if (this.#options.deletions.length > 0) this.#wait(this.#untilNextRound())
  }

  close(): void {
    this.#stopped = true
    clearTimeout(this.#timer)
  }

  /** Deletes one batch and returns the wait before the next one, in milliseconds. Never rejects. */
  async step(): Promise<number> {
    const { deletions, clock } = this.#options
    if (this.#left.length === 0) this.#left = [...deletions]
    const [deleteExpired] = this.#left
    if (deleteExpired === undefined) return this.#untilNextRound()
    try {
      const deleted = await deleteExpired(clock.now() - GRACE_MS, BATCH_SIZE)
      // Fewer rows than a batch are all that is left, except rows in use.
      if (deleted < BATCH_SIZE) this.#left.shift()
      if (this.#left.length === 0) this.#isFailing = false
    } catch (error) {
      this.#left = []
      this.#reportFailure(error)
    }
    return this.#left.length > 0 ? PAUSE_MS : this.#untilNextRound()
  }

  #wait(forMs: number): void {
    if (this.#stopped) return
    this.#timer = setTimeout(() => {
      void this.step().then((nextMs) => this.#wait(nextMs))
    }, forMs)
    this.#timer.unref()
  }

  /** Returns 0.5 to 1.5 intervals, so that processes that started together drift apart. */
  #untilNextRound(): number {
    return INTERVAL_MS * (0.5 + this.#random())
  }

  #reportFailure(error: unknown): void {
    // An error while the database is being closed is no failure.
    if (this.#isFailing || this.#stopped) return
    this.#isFailing = true
    this.#options.log.warn(
      { err: error },
      'Expired rate limit counters or bans cannot be deleted: tried again in some minutes',
    )
  }
}
