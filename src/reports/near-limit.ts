import { Parameters } from '../database/list.js'
import { latestStartMs, MINUTE_MS } from '../ground/time/clock.js'
import { CLIENT, POLICY } from '../log/event-sql.js'
import { type EventFilter, filtered } from './filter.js'
import { duringPeriod } from './logged-events.js'
import type { Report } from './report.js'

/** A client whose latest request under a policy had used more than 80 % of its limit, and was let through. */
interface NearLimitClient {
  /** The client; empty where the log does not know it. */
  readonly client: string
  readonly key: string
  readonly policy: string
  /** The usage at that request, of `limit`. */
  readonly count: number
  readonly limit: number
  /** The time of the request, in milliseconds since the epoch. */
  readonly at_ms: number
}

/** The clients that are near a limit now: where each stood at its latest request of the last minute. */
export interface NearLimit {
  /** The nearest first; at most 20. */
  readonly clients: readonly NearLimitClient[]
  /**
   * The moment from which on requests were read, in milliseconds since the epoch: fewer than a minute where there were
   * many.
   */
  readonly since_ms: number
  /** The number of requests that were read, of those that match the filter: the latest 5,000. */
  readonly requests: number
}

interface Sampled {
  readonly since_ms: number | null
  readonly requests: number | null
  /** The number of rows that were read. */
  readonly read: number
}

/** The time that counts as "now". */
export const NOW_MS = MINUTE_MS
const MAX_REQUESTS = 5_000
const MAX_CLIENTS = 20

/** Reports the clients near a limit. It reads few and recent events, however long the log is. */
export function nearLimit(filter: EventFilter): Report<NearLimit> {
  return async ({ query, dialect, nowMs }) => {
    const period = { startMs: Math.max(0, nowMs - NOW_MS), endMs: latestStartMs(nowMs) }
    const parameters = new Parameters()
    const latest = `SELECT id, "timestamp", key, ${CLIENT} AS client, ${POLICY} AS policy, allowed, count, "limit", weight
       FROM ${dialect.table('rate_limit_event')} WHERE ${duringPeriod(dialect, period, parameters)}
       ${filtered(dialect, filter, parameters)} ORDER BY "timestamp" DESC, id DESC LIMIT ${MAX_REQUESTS}`
    // The query is one statement, so that the requests are read once. Where no client is near, its row has only the two
    // numbers.
    const rows = await query<Sampled & (NearLimitClient | { readonly client: null })>(
      `WITH latest AS (${latest}), nearest AS (
         SELECT client, key, policy, count, "limit", "timestamp" FROM (
           SELECT latest.*, ROW_NUMBER() OVER (
             PARTITION BY ${['key', 'client', 'policy'].map(dialect.bytewise).join(', ')} ORDER BY "timestamp" DESC, id DESC
           ) AS rank FROM latest
         ) AS standing
         WHERE rank = 1 AND allowed <> false AND count <= "limit" AND count * 10 > ${dialect.whole('"limit"')} * 8 AND "limit" > 0
         ORDER BY count * 1.0 / "limit" DESC, "timestamp" DESC, ${dialect.bytewise('key')}, ${dialect.bytewise('policy')}
         LIMIT ${MAX_CLIENTS}
       )
       SELECT since_ms, requests, read, client, key, policy, count, "limit", ${dialect.toMs('"timestamp"')} AS at_ms
       FROM (SELECT ${dialect.toMs('MIN("timestamp")')} AS since_ms, SUM(weight) AS requests, COUNT(*) AS read FROM latest) AS sampled
       LEFT JOIN nearest ON true
       ORDER BY count * 1.0 / "limit" DESC, "timestamp" DESC, ${dialect.bytewise('key')}, ${dialect.bytewise('policy')}`,
      parameters.values,
    )
    const { since_ms = null, read = 0, requests } = rows[0] ?? {}
    const clients = rows.flatMap(({ since_ms: _, requests: _requests, read: _read, ...row }) =>
      row.client === null ? [] : [row],
    )
    return {
      clients,
      requests: requests ?? 0,
      since_ms: read < MAX_REQUESTS ? period.startMs : (since_ms ?? period.startMs),
    }
  }
}
