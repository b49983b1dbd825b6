import type { Database } from '../db/database.js'
import { type Clock, HOUR_MS, MINUTE_MS } from '../time/clock.js'
import { deleteExpiredBatch, STATE_KINDS, type StateKind } from './state-cleanup.js'

export interface StateSweepOptions {
  readonly database: Database
  /** Tells what has expired. When to look is real time. */
  readonly clock: Clock
  readonly log: { warn(details: object, message: string): void }
  /** 0 to below 1. */
  readonly random?: () => number
}

/** Short beside the grace, so that a table holds little more than an hour's clients; to look costs four index reads. */
const INTERVAL_MS = 10 * MINUTE_MS
/** More than the clocks of servers differ: where one is behind, a counter that has expired here may still count. */
const GRACE_MS = HOUR_MS
/** About a millisecond of a synchronous driver, which requests have to wait for. */
const BATCH_SIZE = 100
/** One part work, fifty parts rest: ten million rows that were left behind go in an hour and a half, unnoticed. */
const PAUSE_MS = 50

/**
 * Deletes counters that have expired, in the background of a server. Every turn of the timer is one batch of one table.
 *
 * Several processes need not agree: they look at random times, pass over each other's rows, and may delete the same
 * leftovers faster together. A failure ends the round; the next one tries again.
 */
export class StateSweep {
  readonly #options: StateSweepOptions
  readonly #random: () => number
  /** The tables that are still to be looked through in this round. */
  #left: StateKind[] = []
  #timer: NodeJS.Timeout | undefined
  #stopped = false
  #isFailing = false

  constructor(options: StateSweepOptions) {
    this.#options = options
    this.#random = options.random ?? Math.random
  }

  /** Begins with the first wait: a server that has just started has better to do. */
  start(): void {
    this.#wait(this.#untilNextRound())
  }

  stop(): void {
    this.#stopped = true
    clearTimeout(this.#timer)
  }

  /** Deletes one batch. Never rejects, and answers how long to wait before the next one, in milliseconds. */
  async step(): Promise<number> {
    if (this.#left.length === 0) this.#left = [...STATE_KINDS]
    const [kind] = this.#left
    if (kind === undefined) return this.#untilNextRound()
    try {
      const { database, clock } = this.#options
      const deleted = await deleteExpiredBatch(database, kind, clock.now() - GRACE_MS, BATCH_SIZE)
      // Fewer than a batch is all that there is, but for rows in use.
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

  /** Half the interval to one and a half, so that processes that started together drift apart. */
  #untilNextRound(): number {
    return INTERVAL_MS * (0.5 + this.#random())
  }

  #reportFailure(error: unknown): void {
    // A database that is being closed is no failure.
    if (this.#isFailing || this.#stopped) return
    this.#isFailing = true
    this.#options.log.warn({ err: error }, 'Expired rate limit counters cannot be deleted: tried again in some minutes')
  }
}
