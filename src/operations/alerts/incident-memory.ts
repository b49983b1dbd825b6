import { randomUUID } from 'node:crypto'
import type { Database } from '../../database/database.js'
import { type Clock, DAY_MS } from '../../ground/time/clock.js'
import { ALERT_TABLE } from './alert-memory.js'
import { CLAIM_MS } from './evaluate.js'

/** The news of an incident: that it is there, and that it is over. */
export type IncidentNews = 'found' | 'over'

/** The ids of the incidents of which each was told. */
export type ToldIds = Readonly<Record<IncidentNews, ReadonlySet<string>>>

/** An incident that this run alone tells of. */
export interface IncidentClaim {
  /** Stores what was told, or with nothing releases the claim, so that the next run tries again. */
  settle(told: readonly IncidentNews[]): Promise<void>
}

/** The time for which an incident is remembered that no run finds any more. */
const KEPT_MS = 7 * DAY_MS
/** What stands in a row that is still to be told. */
const UNTOLD = {
  // It may go on again after it was told to be over.
  found: '(stored.notified_at IS NULL OR stored.resolved_at IS NOT NULL)',
  over: 'stored.resolved_at IS NULL',
} as const

/**
 * Remembers which incidents a subscription was told of. Several processes may run alerts at once: the run that claimed an
 * incident tells of it. A claim expires, so a process that dies silences no incident.
 */
export class IncidentMemory {
  readonly #database: Database
  readonly #clock: Clock
  readonly #watch: string

  /** @param watch the subscription, in at most 80 characters */
  constructor(database: Database, clock: Clock, watch: string) {
    this.#database = database
    this.#clock = clock
    this.#watch = watch
  }

  /** Returns which incidents were told, and keeps the memory of those that are still found. */
  async read(ids: readonly string[]): Promise<ToldIds> {
    const { fromMs, isOneOf } = this.#database.dialect
    const isFound = isOneOf('key', '$2', 'text')
    const nowMs = this.#clock.now()
    const parameters = [this.#watch, JSON.stringify(ids)]
    await this.#database.execute(
      `UPDATE ${this.#table} SET expires_at = ${fromMs('$3')} WHERE watch = $1 AND ${isFound}`,
      [...parameters, nowMs + KEPT_MS],
    )
    await this.forgetExpired()
    const rows = await this.#database.query<{ id: string; foundMs: number | null; overMs: number | null }>(
      `SELECT key AS id, notified_at AS "foundMs", resolved_at AS "overMs" FROM ${this.#table}
       WHERE watch = $1 AND ${isFound}`,
      parameters,
    )
    const told = (isTold: (row: (typeof rows)[number]) => boolean) => new Set(rows.filter(isTold).map(({ id }) => id))
    return { found: told(({ foundMs }) => foundMs !== null), over: told(({ overMs }) => overMs !== null) }
  }

  async forgetExpired(): Promise<void> {
    const { fromMs } = this.#database.dialect
    await this.#database.execute(`DELETE FROM ${this.#table} WHERE watch = $1 AND expires_at < ${fromMs('$2')}`, [
      this.#watch,
      this.#clock.now(),
    ])
  }

  /** Claims what is to be told of an incident; undefined where another run has told it, or is about to. */
  async claim(id: string, news: IncidentNews): Promise<IncidentClaim | undefined> {
    const { fromMs } = this.#database.dialect
    const claim = randomUUID()
    const nowMs = this.#clock.now()
    const claimed = await this.#database.execute(
      `INSERT INTO ${this.#table} AS stored (watch, key, claim, claimed_until, expires_at)
       VALUES ($1, $2, $3, ${fromMs('$4')}, ${fromMs('$5')})
       ON CONFLICT (watch, key) DO UPDATE SET claim = excluded.claim, claimed_until = excluded.claimed_until
       WHERE ${UNTOLD[news]} AND (stored.claimed_until IS NULL
         OR stored.claimed_until <= ${fromMs('$6')} OR stored.claimed_until > ${fromMs('$7')})`,
      // A claim that ends far ahead was made by a wrong clock.
      [this.#watch, id, claim, nowMs + CLAIM_MS, nowMs + KEPT_MS, nowMs, nowMs + 2 * CLAIM_MS],
    )
    if (claimed !== 1) return undefined
    return { settle: (told) => this.#settle(id, claim, told) }
  }

  async #settle(id: string, claim: string, told: readonly IncidentNews[]): Promise<void> {
    const now = this.#database.dialect.fromMs('$4')
    const columns = [
      ...(told.includes('found') ? [`notified_at = ${now}`] : []),
      ...(told.length > 0 ? [`resolved_at = ${told.includes('over') ? now : 'NULL'}`] : []),
      "claim = ''",
      'claimed_until = NULL',
    ]
    await this.#database.execute(
      `UPDATE ${this.#table} SET ${columns.join(', ')} WHERE watch = $1 AND key = $2 AND claim = $3`,
      [this.#watch, id, claim, ...(told.length === 0 ? [] : [this.#clock.now()])],
    )
  }

  get #table(): string {
    return this.#database.dialect.table(ALERT_TABLE)
  }
}

/** An incident of which a channel was told. Moments in milliseconds since the epoch. */
export interface ToldIncident {
  /** The subscription: the name of the channel, a colon, and a hash. */
  readonly watch: string
  readonly id: string
  readonly foundMs: number
  /** When the channel was told that it is over; null where it was not. */
  readonly overMs: number | null
}

/** Returns the incidents of which subscriptions were told last, the latest first. */
export function readToldIncidents(database: Database, watches: readonly string[], limit: number) {
  const { dialect } = database
  return database.query<ToldIncident>(
    `SELECT watch, key AS id, notified_at AS "foundMs", resolved_at AS "overMs"
     FROM ${dialect.table(ALERT_TABLE)} WHERE ${dialect.isOneOf('watch', '$1', 'text')} AND notified_at IS NOT NULL
     ORDER BY notified_at DESC, key LIMIT $2`,
    [JSON.stringify(watches), limit],
  )
}
