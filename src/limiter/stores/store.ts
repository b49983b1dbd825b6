import type { Check, Decision, Settlement } from '../algorithm.js'

/**
 * A store of counters.
 *
 * *Atomicity*: one check reads and advances its counter in one step, whatever other processes do: of the checks on
 * one key exactly `limit` are allowed per period. Checks on one key inside one batch are decided in their order.
 * *Windows*: a check whose policy lists `windows` is allowed when every window allows it. A fixed window counts it in any
 * case; with the other algorithms a check that one window refuses costs nothing in any. The decision has all `windows`. A
 * window keeps its state while its period is among those of each check, whatever other periods come and go.
 * *Charges*: a check that `charges` takes its cost whatever the counter says, in every window, and its decision is allowed.
 * Above the limit the counter is in debt, which ends with the window, or drains, also over more than one period.
 * *Reservations*: where the policy `reserves`, a refused check takes nothing, in fixed windows too, and its `count` is what
 * stands, and its cost, at least 1.
 * *Looks*: a check of cost 0 answers what one of cost 1 would be, takes nothing, and creates no counter.
 * *Requests in progress*: a check of `concurrency` takes `cost` permits, by the identity `permit`, until these are given
 * back by `settle`, or one period has passed. `settle` frees no permits but those with that identity.
 * *Clock*: the time is passed in, is the same for a whole batch, and may be behind that of another process; a counter
 * never goes back. But what begins more than an hour and more than one period ahead was written by a wrong clock: it is
 * taken as none, and overwritten.
 * *Failure*: a promise has to settle eventually; the limiter does not wait for it longer than its time-out. A rejected
 * promise means that no check of the batch was decided. The limiter then decides without the store; the store neither
 * retries nor logs.
 *
 * `fastify-smart-ratelimit/testing` has a conformance suite for stores.
 */
export interface Store {
  /**
   * The number of batches that may be under way at once. Checks that arrive meanwhile are gathered into the next batch.
   * `Infinity` is for a store that answers at once, in process memory: its checks are not gathered, and have no
   * time-out.
   */
  readonly concurrency: number

  /**
   * Whether calls take effect in the order in which they are made, whenever they are answered, as over one connection.
   * Otherwise checks wait for a settlement that has to come before them.
   */
  readonly isOrdered?: boolean

  /** Advances the counters. Returns one decision per check, in the order of `checks`. */
  check(checks: readonly Check[], nowMs: number): readonly Decision[] | Promise<readonly Decision[]>

  /**
   * Gives back what checks used, without deciding; `middleware.lease`, the algorithm `concurrency` and rules with a group
   * need it. Each settlement changes its counter in one step, in the windows that its policy has. Where a window has
   * forgotten the use, or the key is unknown, nothing changes. No settlement makes more room than if its check had not been.
   * A rejected promise means that nothing was given back: the limiter gives it back once more when the store answers again.
   */
  settle?(settlements: readonly Settlement[], nowMs: number): void | Promise<void>

  /** Forgets counters. An unknown key is no error. */
  reset(keys: readonly string[]): void | Promise<void>

  /**
   * Forgets all counters whose names begin with one of some texts; `resetAll()` of a limit needs it. A name that the store
   * has shortened may be taken for one that begins alike.
   */
  resetAll?(prefixes: readonly string[]): void | Promise<void>

  /**
   * Returns a number that changes with every `reset` and `resetAll` by any process, so that other processes forget remembered refusals
   * within two seconds. Without it they forget a refusal when the client's wait is over.
   */
  resets?(): Promise<number>

  /**
   * Returns the name of the part that has a counter now, where parts fail alone, such as the nodes of a cluster. Each part
   * gets batches of its own, and while it fails `onStoreError` decides for its counters only.
   */
  partOf?(key: string): string

  /** Releases the resources that the store opened itself. */
  close(): void | Promise<void>
}
