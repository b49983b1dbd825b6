import type { Check, Decision } from '../limiter/algorithm.js'

/**
 * Where counters live.
 *
 * *Atomicity*: one check reads and advances its counter in one step, whatever other processes do: of the checks on
 * one key exactly `limit` are allowed per period. Checks on one key inside one batch are answered in their order.
 * *Clock*: the time is passed in, is the same for a whole batch, and may be behind that of another process; a counter
 * never goes back.
 * *Failure*: a promise has to settle at some time; the limiter does not wait for it longer than its time-out. A
 * rejected promise means that no check of the batch was answered. The limiter then decides without the
 * store; the store neither retries nor logs.
 *
 * `fastify-smart-ratelimit/testing` has a suite that proves a store.
 */
export interface Store {
  /**
   * How many batches may be under way at once. Checks that arrive meanwhile are gathered into the next batch.
   * `Infinity` is for a store that answers at once, in process memory: its checks are not gathered, and no time-out
   * guards them.
   */
  readonly concurrency: number

  /** Advances the counters. Answers one decision per check, in the order of `checks`. */
  check(checks: readonly Check[], nowMs: number): readonly Decision[] | Promise<readonly Decision[]>

  /** Forgets counters. An unknown key is no error. */
  reset(keys: readonly string[]): void | Promise<void>

  /**
   * A number that changes with every `reset`, whichever process asks for it, so that others forget within two seconds
   * what they remember of the store's refusals. Without it they do when the refused client's wait is over.
   */
  resets?(): Promise<number>

  /** Releases what the store opened itself. */
  close(): void | Promise<void>
}
