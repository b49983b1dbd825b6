import { randomUUID } from 'node:crypto'
import type { Database } from '../../database/database.js'
import { type Dialect, runStatement, type SqlWork } from '../../database/dialect.js'
import { type Clock, DAY_MS } from '../../ground/time/clock.js'
import type { Offender } from '../../reports/ranking.js'
import { CLAIM_MS, type Cooldown, type Evaluation, evaluate, type Found, type StoredAlert } from './evaluate.js'

/** The part of an evaluation that this run alone sends to a watch. */
export interface Claim extends Evaluation {
  /** Stores that the alert was sent, or releases the claim so that the next run tries again. */
  settle(isSent: boolean): Promise<void>
}

interface MemoryOptions extends Cooldown {
  readonly database: Database
  readonly clock: Clock
}

/**
 * Remembers which alerts were sent, and when. Several processes may run alerts at once: the run that claimed a key
 * sends its alert. A claim expires, so a process that dies silences no key.
 */
export class AlertMemory {
  readonly #options: MemoryOptions

  constructor(options: MemoryOptions) {
    this.#options = options
  }

  async claim(watch: string, found: Found): Promise<Claim> {
    const { clock, cooldownMs, database } = this.#options
    const { dialect } = database
    const claimant = { watch, id: randomUUID() }
    const nowMs = clock.now()
    const untilMs = nowMs + CLAIM_MS
    const options = this.#options
    const evaluation = await this.#locked(function* () {
      yield* forgetExpired(dialect, nowMs)
      const evaluated = evaluate(yield* readAlerts(dialect, watch), found, options, nowMs)
      const keys = [...evaluated.offenders.map(({ key }) => key), ...evaluated.resolved]
      yield* claimKeys(dialect, claimant, keys, { untilMs, expiresMs: untilMs + DAY_MS })
      return evaluated
    })

    return {
      ...evaluation,
      settle: (isSent) => {
        const sentMs = clock.now()
        // The entry expires after the cool-down, and after the window in which the key was blocked.
        const expiresMs = sentMs + Math.max(cooldownMs, found.days * DAY_MS) + DAY_MS
        const moments = { nowMs: sentMs, expiresMs }
        return this.#locked(() =>
          isSent ? settleClaim(dialect, claimant, evaluation.offenders, moments) : releaseClaim(dialect, claimant),
        )
      },
    }
  }

  #locked<T>(work: () => SqlWork<T>): Promise<T> {
    return this.#options.database.locked([ALERT_TABLE], work)
  }
}

export const ALERT_TABLE = 'rate_limit_alert'
/** The most rows that one statement writes. */
const SLICE = 500

/** A run and the watch that it reports to. */
interface Claimant {
  readonly watch: string
  readonly id: string
}

function* forgetExpired(dialect: Dialect, nowMs: number): SqlWork<void> {
  const now = dialect.fromMs('$1')
  yield* runStatement(
    `DELETE FROM ${dialect.table(ALERT_TABLE)}
     WHERE expires_at < ${now} AND (claimed_until IS NULL OR claimed_until < ${now})`,
    [nowMs],
  )
}

function* readAlerts(dialect: Dialect, watch: string): SqlWork<StoredAlert[]> {
  return yield* runStatement<StoredAlert>(
    `SELECT key, count, notified_at AS "notifiedMs", resolved_at AS "resolvedMs", claimed_until AS "claimedUntilMs"
     FROM ${dialect.table(ALERT_TABLE)} WHERE watch = $1`,
    [watch],
  )
}

/** @param untilMs the end of the claim; a new row expires at `expiresMs` */
function* claimKeys(
  dialect: Dialect,
  { watch, id }: Claimant,
  keys: readonly string[],
  { untilMs, expiresMs }: { untilMs: number; expiresMs: number },
): SqlWork<void> {
  const { fromMs, jsonField, jsonRows } = dialect
  for (const slice of toSlices(keys)) {
    yield* runStatement(
      `INSERT INTO ${dialect.table(ALERT_TABLE)} (watch, key, claim, claimed_until, expires_at)
       SELECT $2, ${jsonField(0, 'text')}, $3, ${fromMs('$4')}, ${fromMs('$5')} FROM ${jsonRows()} WHERE true
       ON CONFLICT (watch, key) DO UPDATE SET claim = excluded.claim, claimed_until = excluded.claimed_until`,
      [JSON.stringify(slice.map((key) => [key])), watch, id, untilMs, expiresMs],
    )
  }
}

/** Stores that the offenders were reported, and that the other keys of the claim are resolved. */
function* settleClaim(
  dialect: Dialect,
  { watch, id }: Claimant,
  offenders: readonly Offender[],
  { nowMs, expiresMs }: { nowMs: number; expiresMs: number },
): SqlWork<void> {
  const { fromMs, jsonField, jsonRows } = dialect
  const table = dialect.table(ALERT_TABLE)
  for (const slice of toSlices(offenders)) {
    yield* runStatement(
      `INSERT INTO ${table} AS stored (watch, key, count, notified_at, expires_at)
       SELECT $2, ${jsonField(0, 'text')}, ${jsonField(1, 'bigint')}, ${fromMs('$3')}, ${fromMs('$4')}
       FROM ${jsonRows()} WHERE true
       ON CONFLICT (watch, key) DO UPDATE SET count = excluded.count, notified_at = excluded.notified_at,
         expires_at = excluded.expires_at, resolved_at = NULL, claim = '', claimed_until = NULL
       WHERE stored.claim = $5`,
      [JSON.stringify(slice.map(({ key, blocked_count }) => [key, blocked_count])), watch, nowMs, expiresMs, id],
    )
  }
  yield* runStatement(
    `UPDATE ${table} SET resolved_at = ${fromMs('$3')}, claim = '', claimed_until = NULL
     WHERE watch = $1 AND claim = $2`,
    [watch, id, nowMs],
  )
}

function* releaseClaim(dialect: Dialect, { watch, id }: Claimant): SqlWork<void> {
  yield* runStatement(
    `UPDATE ${dialect.table(ALERT_TABLE)} SET claim = '', claimed_until = NULL WHERE watch = $1 AND claim = $2`,
    [watch, id],
  )
}

function toSlices<Entry>(entries: readonly Entry[]): Entry[][] {
  return Array.from({ length: Math.ceil(entries.length / SLICE) }, (_, index) =>
    entries.slice(index * SLICE, (index + 1) * SLICE),
  )
}
