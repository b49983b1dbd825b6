import type { Database } from '../../../src/db/database.js'
import { CLIENT, OUTCOME, POLICY } from '../../../src/events/readings.js'

/** An event as commands show it. */
export interface ShownEvent {
  readonly id: number
  readonly timestampMs: number
  readonly client: string
  readonly key: string
  readonly policy: string
  readonly outcome: string
  readonly method: string
  readonly path: string
  readonly allowed: boolean | number
  readonly count: number
  readonly limit: number
}

/** Reads events in the order of their ids, or backwards. */
export function readEvents(
  { dialect, query }: Database,
  range: { readonly afterId?: number; readonly beforeId?: number },
  most: number,
): Promise<ShownEvent[]> {
  const { afterId = -1, beforeId = Number.MAX_SAFE_INTEGER } = range
  return query<ShownEvent>(
    `SELECT id, "timestamp" AS "timestampMs", (${CLIENT}) AS client, key, (${POLICY}) AS policy,
       (${OUTCOME}) AS outcome, method, path, allowed, count, "limit"
     FROM ${dialect.table('rate_limit_event')} WHERE id > $1 AND id < $2
     ORDER BY id ${range.afterId === undefined ? 'DESC' : ''} LIMIT $3`,
    [afterId, beforeId, most],
  )
}

export function eventJson({ timestampMs, client, key, policy, outcome, method, path, ...event }: ShownEvent) {
  return {
    timestamp: new Date(timestampMs).toISOString(),
    client,
    key,
    policy,
    outcome,
    method,
    path,
    allowed: Boolean(event.allowed),
    count: event.count,
    limit: event.limit,
  }
}

/** Returns a line with columns that stay below each other where clients and policies are as short as usual. */
export function eventLine({
  timestampMs,
  client,
  key,
  policy,
  outcome,
  allowed,
  method,
  path,
  count,
  limit,
}: ShownEvent) {
  const shown = outcome === 'over_limit' && allowed ? 'would_be' : outcome
  return [
    new Date(timestampMs).toISOString(),
    shown.padEnd('unavailable'.length),
    (client || key).padEnd(18),
    policy.padEnd(12),
    `${method} ${path}`,
    `${count}/${limit}`,
  ].join('  ')
}
