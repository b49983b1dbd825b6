import { DAY_MS } from '../time/clock.js'
import { CLIENT_SUMS, type ClientCounts, clientEventCounts, NO_REQUESTS } from './client-counts.js'
import { clientCondition } from './client-events.js'
import { Parameters } from './filter.js'
import type { Report } from './window.js'

/** The requests of a client since a moment, and in the same time before it. */
export interface ClientEffect {
  /** The length of each, in milliseconds: at most a day. */
  readonly span_ms: number
  /** Whether the time since the moment ends now. */
  readonly until_now: boolean
  readonly before: ClientCounts
  readonly after: ClientCounts
}

export interface ClientEffectOptions {
  readonly client: string
  /** In milliseconds since the epoch, not after the present. */
  readonly atMs: number
}

/** Compares the requests of a client before and after a change of what is in force for it. */
export function clientEffect({ client, atMs }: ClientEffectOptions): Report<ClientEffect> {
  return async (snapshot) => {
    const { query, dialect, nowMs } = snapshot
    const span_ms = Math.max(0, Math.min(DAY_MS, nowMs - atMs))
    const startMs = atMs - span_ms
    const isTheirs = await clientCondition(snapshot, client, Math.max(1, nowMs - startMs) / DAY_MS)
    const parameters = new Parameters()
    const at = dialect.fromMs(parameters.add(atMs))
    const rows = await query<ClientCounts & { readonly is_after: number }>(
      `SELECT is_after, ${CLIENT_SUMS} FROM (
         SELECT CASE WHEN "timestamp" >= ${at} THEN 1 ELSE 0 END AS is_after, ${clientEventCounts()}
         FROM ${dialect.table('rate_limit_event')}
         WHERE ${isTheirs(parameters)} AND "timestamp" < ${dialect.fromMs(parameters.add(atMs + span_ms))}
       ) AS counted GROUP BY is_after`,
      parameters.values,
    )
    const counts = (is: number) => {
      const { is_after: _, ...its } = rows.find(({ is_after }) => is_after === is) ?? { is_after: is, ...NO_REQUESTS }
      return its
    }
    return { span_ms, until_now: span_ms < DAY_MS, before: counts(0), after: counts(1) }
  }
}
