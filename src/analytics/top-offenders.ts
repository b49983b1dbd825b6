import type { Offender } from '../alerts/offender.js'
import {
  checkAtLeastOne,
  checkDays,
  type RankingOptions,
  type Report,
  reportStartMs,
  type Snapshot,
  withinWindow,
} from './window.js'

export type { Offender }

/** The keys with the most refused requests. */
export function topOffenders({ days = 7, limit = 100 }: RankingOptions = {}): Report<readonly Offender[]> {
  checkDays(days)
  checkAtLeastOne('limit', limit)
  return (snapshot) => rankOffenders(snapshot, { days, limit, atLeast: 1 })
}

/** The keys that were refused at least so often: the most often first, then by the bytes of the key. */
export function rankOffenders(
  { query, dialect, nowMs }: Snapshot,
  { days, limit, atLeast }: { readonly days: number; readonly limit: number; readonly atLeast: number },
): Promise<Offender[]> {
  return query<Offender>(
    `SELECT key, COUNT(*) AS blocked_count FROM ${dialect.table('rate_limit_event')}
     WHERE allowed = false AND ${withinWindow(dialect)}
     GROUP BY key HAVING COUNT(*) >= $2
     ORDER BY COUNT(*) DESC, ${dialect.bytewise('key')} LIMIT $3`,
    [reportStartMs(days, nowMs), atLeast, limit],
  )
}
