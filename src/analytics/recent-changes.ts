import type { Change } from '../history/history.js'
import { type LogSnapshot, windowFor } from './window.js'

/** A change of a rule or an override within a window. */
export interface RecentChange extends Pick<Change, 'id' | 'entity' | 'name' | 'action' | 'actor'> {
  /** Milliseconds since the epoch. */
  readonly at_ms: number
}

/** The history has no index on its times: no more than its latest rows are looked at. */
const LATEST = 1_000
const MAX_CHANGES = 50

/** Reads the latest changes of a window, the newest first; 50 at most. Bans are left out: there may be very many. */
export function readRecentChanges({ query, dialect, nowMs }: LogSnapshot, days: number): Promise<RecentChange[]> {
  const table = dialect.table('rate_limit_change')
  return query<RecentChange>(
    `SELECT id, ${dialect.toMs('changed_at')} AS at_ms, entity, name, action, actor
     FROM (SELECT * FROM ${table} ORDER BY id DESC LIMIT ${LATEST}) AS latest
     WHERE source <> 'ban' AND changed_at >= ${dialect.fromMs('$1')} AND changed_at <= ${dialect.fromMs('$2')}
     ORDER BY id DESC LIMIT ${MAX_CHANGES}`,
    [windowFor(days, nowMs).startMs, nowMs],
  )
}
