import { CLIENT, OUTCOME, POLICY } from '../log/event-sql.js'
import { Parameters } from './filter.js'
import { NEWEST_FIRST } from './listed-events.js'
import { clampedIsoTime, type LogSnapshot } from './report.js'

export interface RecentEvent {
  /** ISO 8601, UTC. */
  readonly timestamp: string
  readonly path: string
  readonly method: string
  readonly allowed: boolean
  readonly count: number
  readonly limit: number
  /** The rule; empty when none matched. */
  readonly rule_name: string
  /** How many requests the row stands for, where these are several; the time and the count are those of the last one. */
  readonly weight?: number
}

export interface ClientEvent extends RecentEvent {
  readonly id: number
  /** The client; of a network, the one that sent the request. */
  readonly client: string
  readonly key: string
  readonly policy: string
  /** `allowed`, `over_limit` (refused, or with `allowed` true: would have been), `denied` or `unavailable`. */
  readonly outcome: string
  /** The rules that applied, each with `+` or (refused) `-` before it, joined by `:`; empty unless several did. */
  readonly rules: string
}

interface EventRow extends Omit<ClientEvent, 'timestamp' | 'allowed'> {
  readonly timestamp: number
  readonly allowed: boolean | number
  readonly weight: number
}

/** Reads the latest events that pass a condition, the newest first. */
export async function readRecentEvents(
  { query, dialect }: LogSnapshot,
  condition: (parameters: Parameters) => string,
  limit: number,
): Promise<ClientEvent[]> {
  const parameters = new Parameters()
  const rows = await query<EventRow>(
    `SELECT id, "timestamp", ${CLIENT} AS client, key, path, method, allowed, count, "limit", rule_name, ${POLICY} AS policy, ${OUTCOME} AS outcome, rules, weight
     FROM ${dialect.table('rate_limit_event')} WHERE ${condition(parameters)}
     ${NEWEST_FIRST} LIMIT ${parameters.add(limit)}`,
    parameters.values,
  )
  return rows.map(({ weight, ...row }) => ({
    ...row,
    timestamp: clampedIsoTime(row.timestamp),
    allowed: Boolean(row.allowed),
    ...(weight > 1 && { weight }),
  }))
}
