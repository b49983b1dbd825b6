/** The results of the last run of alerts, per channel and kind: kept where all processes see them. */
import type { Database } from '../../database/database.js'
import { errorMessage } from '../../ground/errors.js'
import { storable } from '../../ground/storable.js'
import { type Clock, DAY_MS } from '../../ground/time/clock.js'
import { type AlertChannel, type AlertLog, subscriptionOf } from './channels/channel.js'

/** The subject of a run. */
export type AlertKind = 'incidents' | 'notices' | 'offenders' | 'test'

/** The last run. Moments in milliseconds since the epoch. */
export interface LastRun {
  readonly kind: AlertKind
  readonly ranMs: number
  /** The time when a message of this kind last went out; null for never. */
  readonly sentMs: number | null
  /** The number of things that the run told of. */
  readonly told: number
  /** The reason why it failed; null when it did not. */
  readonly error: string | null
}

/** The result of one channel in a run. */
export interface ChannelRun {
  readonly channel: AlertChannel
  readonly told: number
  readonly error?: string | undefined
}

interface RunDependencies {
  readonly database: Database
  readonly clock: Clock
  readonly log: AlertLog
}

const TABLE = 'rate_limit_alert_run'
/** Recipients that are not used any more are forgotten. */
const KEPT_MS = 90 * DAY_MS
const MAX_ERROR_LENGTH = 500

/** Stores what came of a run. Never rejects: what was sent was sent. */
export async function recordRuns(
  { database, clock, log }: RunDependencies,
  kind: AlertKind,
  runs: readonly ChannelRun[],
): Promise<void> {
  const { fromMs, table } = database.dialect
  const nowMs = clock.now()
  try {
    for (const { channel, told, error } of runs) {
      await database.execute(
        `INSERT INTO ${table(TABLE)} AS stored (channel, kind, ran_at, sent_at, told, error)
         VALUES ($1, $2, ${fromMs('$3')}, ${fromMs('$4')}, $5, $6)
         ON CONFLICT (channel, kind) DO UPDATE SET ran_at = excluded.ran_at,
           sent_at = COALESCE(excluded.sent_at, stored.sent_at), told = excluded.told, error = excluded.error`,
        [
          subscriptionOf(channel),
          kind,
          nowMs,
          told > 0 ? nowMs : null,
          told,
          error === undefined ? null : storable(error, MAX_ERROR_LENGTH),
        ],
      )
    }
    if (runs.length > 0) {
      await database.execute(`DELETE FROM ${table(TABLE)} WHERE ran_at < ${fromMs('$1')}`, [nowMs - KEPT_MS])
    }
  } catch (error) {
    log.error({ err: error }, `Rate limit alerts: the result of the run could not be stored: ${errorMessage(error)}`)
  }
}

/** Reads the last runs of a subscription, the latest first. */
export function readRuns(database: Database, watch: string): Promise<LastRun[]> {
  return database.query<LastRun>(
    `SELECT kind, ran_at AS "ranMs", sent_at AS "sentMs", told, error
     FROM ${database.dialect.table(TABLE)} WHERE channel = $1 ORDER BY ran_at DESC, kind`,
    [watch],
  )
}
