import { HOUR_MS } from '../time/clock.js'
import { filtered, Parameters, type ReportFilter } from './filter.js'
import type { Report } from './window.js'

/** A client that had used more than 80 % of a limit and was let through. */
export interface NearLimitClient {
  readonly key: string
  /** Empty when no rule matched. */
  readonly rule_name: string
  /** The most it had used, as a share of the limit: above 0.8, at most 1. */
  readonly usage: number
  /** The number of its requests above 80 %. */
  readonly requests: number
}

/** The clients that are near a limit now, among the latest 5,000 requests of the last hour. */
export interface NearLimit {
  /** The nearest first; at most 20. */
  readonly clients: readonly NearLimitClient[]
  /** The time of the oldest of these requests, in milliseconds since the epoch; null where there was none. */
  readonly since_ms: number | null
}

const MAX_AGE_MS = HOUR_MS
const MAX_REQUESTS = 5_000
const MAX_CLIENTS = 20

/** Reports the clients near a limit. It reads few and recent events, however long the log is. */
export function nearLimit(filter: ReportFilter): Report<NearLimit> {
  return async ({ query, dialect, nowMs }) => {
    const latestSql = (columns: string, parameters: Parameters) =>
      `SELECT ${columns} FROM ${dialect.table('rate_limit_event')}
       WHERE "timestamp" >= ${dialect.fromMs(parameters.add(Math.max(0, nowMs - MAX_AGE_MS)))}
       ${filtered(filter, parameters)} ORDER BY "timestamp" DESC LIMIT ${MAX_REQUESTS}`
    const parameters = new Parameters()
    const nearest = query<NearLimitClient>(
      `SELECT key, rule_name, MAX(count * 1.0 / "limit") AS usage, COUNT(*) AS requests
       FROM (${latestSql('key, rule_name, allowed, count, "limit"', parameters)}) AS latest
       WHERE allowed <> false AND count <= "limit" AND count * 10 > ${dialect.whole('"limit"')} * 8 AND "limit" > 0
       GROUP BY key, rule_name
       ORDER BY MAX(count * 1.0 / "limit") DESC, COUNT(*) DESC, ${dialect.bytewise('key')}, ${dialect.bytewise('rule_name')}
       LIMIT ${MAX_CLIENTS}`,
      parameters.values,
    )
    const again = new Parameters()
    const oldest = query<{ since_ms: number | null }>(
      `SELECT MIN("timestamp") AS since_ms FROM (${latestSql('"timestamp"', again)}) AS latest`,
      again.values,
    )
    const [clients, [first]] = await Promise.all([nearest, oldest])
    return { clients, since_ms: first?.since_ms ?? null }
  }
}
