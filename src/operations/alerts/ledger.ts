/** The ledger of what alerts have told: of keys over the threshold, of incidents and of notices. */
import { randomUUID } from 'node:crypto'
import type { Database } from '../../database/database.js'
import { type Clock, DAY_MS, MINUTE_MS } from '../../ground/time/clock.js'

export const ALERT_TABLE = 'rate_limit_alert'
/** The duration of a claim: longer than any channel takes, and over by the scheduler's next run if its process died. */
const CLAIM_MS = 2 * MINUTE_MS
/** The time for which what no run finds any more is remembered, unless a ledger says otherwise. */
const KEPT_MS = 7 * DAY_MS

/** What a subscription was told of one thing. Moments in milliseconds since the epoch. */
export interface Entry {
  /** The key of the log, or the id of an incident or a notice. */
  readonly key: string
  /** The number of refusals that was told; 0 where none is. */
  readonly count: number
  /** When it was told that it is there; null until then. */
  readonly notifiedMs: number | null
  /** When it was told that it is over; null while it is not. */
  readonly resolvedMs: number | null
}

/** Something to tell of. */
export interface Finding {
  readonly key: string
  /** `told over`: that it was there, and is over. */
  readonly news: 'found' | 'over' | 'found and over'
  readonly count?: number
}

/** The findings that this run alone tells of. */
export interface Claim<Found extends Finding> {
  readonly findings: readonly Found[]
  /** Stores that they were told, or releases the claim, so that the next run tries again. */
  settle(isTold: boolean): Promise<void>
}

/**
 * What one subscription was told. Several processes may run alerts at once: the run that has claimed something tells of it. A
 * claim expires, so a process that dies silences nothing.
 */
export class Ledger {
  readonly #database: Database
  readonly #clock: Clock
  readonly #watch: string
  readonly #keptMs: number
  #entries: ReadonlyMap<string, Entry> = new Map()

  /**
   * @param watch the subscription, in at most 80 characters
   * @param keptMs how long it is remembered that something was told, unless `keep` prolongs it
   */
  constructor(database: Database, clock: Clock, watch: string, keptMs = KEPT_MS) {
    this.#database = database
    this.#clock = clock
    this.#watch = watch
    this.#keptMs = keptMs
  }

  /** Reads all entries by their key. */
  async read(): Promise<ReadonlyMap<string, Entry>> {
    await this.forgetExpired()
    const entries = await this.#database.query<Entry>(
      `SELECT key, count, notified_at AS "notifiedMs", resolved_at AS "resolvedMs" FROM ${this.#table} WHERE watch = $1`,
      [this.#watch],
    )
    this.#entries = new Map(entries.map((entry) => [entry.key, entry]))
    return this.#entries
  }

  /** Remembers for longer what is still found. */
  async keep(found: readonly string[]): Promise<void> {
    const { fromMs, isOneOf } = this.#database.dialect
    await this.#database.execute(
      `UPDATE ${this.#table} SET expires_at = ${fromMs('$3')} WHERE watch = $1 AND ${isOneOf('key', '$2', 'text')}`,
      [this.#watch, JSON.stringify(found), this.#clock.now() + this.#keptMs],
    )
  }

  /** Deletes what means nothing any more, of every subscription. */
  async forgetExpired(): Promise<void> {
    const now = this.#database.dialect.fromMs('$1')
    await this.#database.execute(
      `DELETE FROM ${this.#table} WHERE expires_at < ${now} AND (claimed_until IS NULL OR claimed_until < ${now})`,
      [this.#clock.now()],
    )
  }

  /** Claims what is still as it was read, and is not claimed. What was not read counts as told to nobody. */
  async claim<Found extends Finding>(findings: readonly Found[]): Promise<Claim<Found>> {
    const { fromMs, jsonField, jsonRows } = this.#database.dialect
    const claim = randomUUID()
    const nowMs = this.#clock.now()
    const expected = findings.map(({ key }) => {
      const { notifiedMs = null, resolvedMs = null } = this.#entries.get(key) ?? {}
      return [key, notifiedMs, resolvedMs]
    })
    // All writers claim in one order, so that they never wait for each other in a circle.
    const claimed = await this.#database.query<{ key: string }>(
      `INSERT INTO ${this.#table} AS stored (watch, key, notified_at, resolved_at, claim, claimed_until, expires_at)
       SELECT $2, ${jsonField(0, 'text')}, ${fromMs(jsonField(1, 'bigint'))}, ${fromMs(jsonField(2, 'bigint'))},
         $3, ${fromMs('$4')}, ${fromMs('$5')}
       FROM ${jsonRows()} WHERE true ORDER BY 2
       ON CONFLICT (watch, key) DO UPDATE SET claim = excluded.claim, claimed_until = excluded.claimed_until
       WHERE stored.notified_at IS NOT DISTINCT FROM excluded.notified_at
         AND stored.resolved_at IS NOT DISTINCT FROM excluded.resolved_at
         AND (stored.claimed_until IS NULL OR stored.claimed_until <= ${fromMs('$6')}
           OR stored.claimed_until > ${fromMs('$7')})
       RETURNING key`,
      // A claim that ends far ahead was made by a wrong clock.
      [
        JSON.stringify(expected),
        this.#watch,
        claim,
        nowMs + CLAIM_MS,
        nowMs + this.#keptMs,
        nowMs,
        nowMs + 2 * CLAIM_MS,
      ],
    )
    const keys = new Set(claimed.map(({ key }) => key))
    const mine = findings.filter(({ key }) => keys.has(key))
    return { findings: mine, settle: (isTold) => (isTold ? this.#tell(claim, mine) : this.#release(claim)) }
  }

  async #tell(claim: string, told: readonly Finding[]): Promise<void> {
    const { fromMs, jsonField, jsonRows } = this.#database.dialect
    const nowMs = this.#clock.now()
    const rows = told.map(({ key, news, count = 0 }) => {
      const { count: toldCount = 0, notifiedMs = null } = this.#entries.get(key) ?? {}
      return news === 'over'
        ? [key, toldCount, notifiedMs, nowMs]
        : [key, count, nowMs, news === 'found' ? null : nowMs]
    })
    await this.#database.execute(
      `UPDATE ${this.#table} AS stored SET count = told.count, notified_at = told.notified_at,
         resolved_at = told.resolved_at, expires_at = ${fromMs('$4')}, claim = '', claimed_until = NULL
       FROM (SELECT ${jsonField(0, 'text')} AS key, ${jsonField(1, 'bigint')} AS count,
         ${fromMs(jsonField(2, 'bigint'))} AS notified_at, ${fromMs(jsonField(3, 'bigint'))} AS resolved_at
         FROM ${jsonRows()}) AS told
       WHERE stored.watch = $2 AND stored.key = told.key AND stored.claim = $3`,
      [JSON.stringify(rows), this.#watch, claim, nowMs + this.#keptMs],
    )
  }

  async #release(claim: string): Promise<void> {
    await this.#database.execute(
      `UPDATE ${this.#table} SET claim = '', claimed_until = NULL WHERE watch = $1 AND claim = $2`,
      [this.#watch, claim],
    )
  }

  get #table(): string {
    return this.#database.dialect.table(ALERT_TABLE)
  }
}

/** Something of which a subscription was told. */
export interface ToldEntry {
  readonly watch: string
  readonly id: string
  readonly foundMs: number
  /** When it was told that it is over; null where it was not. */
  readonly overMs: number | null
}

/** Returns of what subscriptions were told last, the latest first. */
export function readTold(database: Database, watches: readonly string[], limit: number) {
  const { dialect } = database
  return database.query<ToldEntry>(
    `SELECT watch, key AS id, notified_at AS "foundMs", resolved_at AS "overMs"
     FROM ${dialect.table(ALERT_TABLE)} WHERE ${dialect.isOneOf('watch', '$1', 'text')} AND notified_at IS NOT NULL
     ORDER BY notified_at DESC, key LIMIT $2`,
    [JSON.stringify(watches), limit],
  )
}
