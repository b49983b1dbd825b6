import { randomUUID } from 'node:crypto'
import type { Database } from '../../database/database.js'
import { MINUTE_MS } from '../../ground/time/clock.js'

/** The time for which a lease of a process that died excludes others. Longer than clocks of servers differ. */
const LEASE_MS = 2 * MINUTE_MS
/** A moment further ahead was written by a wrong clock: clocks differ by less than a lease. */
const MAX_AHEAD_MS = 2 * LEASE_MS
/** The interval at which a working process renews its lease; two renewals may fail. */
export const RENEWAL_MS = 30_000

/** The stored record of a job, whichever process ran it. Moments in milliseconds since the epoch. */
export interface JobRecord {
  readonly name: string
  /** The scheduled moment of the last run. */
  readonly dueMs: number
  readonly startedMs: number
  /** The end of the last run; null while it runs, and where its process died. */
  readonly finishedMs: number | null
  /** The end of the lease. */
  readonly leaseUntilMs: number
  /** The reason why the last run failed; null when it did not. */
  readonly error: string | null
}

/**
 * Leases that let one of many processes with the same schedule run a job: the process that takes the lease first, by
 * one statement. A scheduled moment is taken once, also by processes whose clocks differ; a lease that is not renewed
 * ends by itself.
 */
export class JobLeases {
  readonly #database: Database
  readonly #table: string

  constructor(database: Database) {
    this.#database = database
    this.#table = database.dialect.table('rate_limit_job')
  }

  /** Returns the id of the holder; undefined when another process has, or had, this scheduled moment. */
  async take(name: string, dueMs: number, nowMs: number): Promise<string | undefined> {
    const { fromMs } = this.#database.dialect
    const holder = randomUUID()
    const taken = await this.#database.execute(
      `INSERT INTO ${this.#table} AS stored (name, holder, due_at, lease_until, started_at)
       VALUES ($1, $2, ${fromMs('$3')}, ${fromMs('$4')}, ${fromMs('$5')})
       ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, due_at = excluded.due_at,
         lease_until = excluded.lease_until, started_at = excluded.started_at, finished_at = NULL, error = NULL
       WHERE (stored.lease_until <= ${fromMs('$5')} OR stored.lease_until > ${fromMs('$6')})
         AND (stored.due_at < excluded.due_at OR stored.due_at > ${fromMs('$6')})`,
      // A moment far ahead was written by a clock that was wrong, or was set back since.
      [name, holder, dueMs, nowMs + LEASE_MS, nowMs, nowMs + MAX_AHEAD_MS],
    )
    return taken === 1 ? holder : undefined
  }

  /** Renews the lease and returns whether it is still held. */
  async renew(name: string, holder: string, nowMs: number): Promise<boolean> {
    const renewed = await this.#database.execute(
      `UPDATE ${this.#table} SET lease_until = ${this.#database.dialect.fromMs('$3')} WHERE name = $1 AND holder = $2`,
      [name, holder, nowMs + LEASE_MS],
    )
    return renewed === 1
  }

  async finish(name: string, holder: string, nowMs: number, error: string | null): Promise<void> {
    // The lease ends where it began: a process whose clock is behind must not wait for it.
    await this.#database.execute(
      `UPDATE ${this.#table} SET finished_at = ${this.#database.dialect.fromMs('$3')}, lease_until = due_at, error = $4
       WHERE name = $1 AND holder = $2`,
      [name, holder, nowMs, error],
    )
  }

  records(): Promise<JobRecord[]> {
    return this.#database.query<JobRecord>(
      `SELECT name, due_at AS "dueMs", started_at AS "startedMs", finished_at AS "finishedMs",
         lease_until AS "leaseUntilMs", error
       FROM ${this.#table} ORDER BY name`,
    )
  }
}
