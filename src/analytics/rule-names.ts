import { DAY_SPAN } from '../rollups/counting.js'
import { MINUTE_MS } from '../time/clock.js'
import { type LogSnapshot, windowFor } from './window.js'

/** Reads the names of all rules that decided about requests of a window, or may have. */
export async function readRuleNames({ query, dialect, nowMs, sums }: LogSnapshot, days: number): Promise<string[]> {
  const firstDay = Math.floor(windowFor(days, nowMs).startMs / (DAY_SPAN * MINUTE_MS))
  const rows = await query<{ name: string }>(
    `SELECT DISTINCT rule_name AS name FROM ${dialect.table('rate_limit_traffic_rollup')}
       WHERE span = ${DAY_SPAN} AND bucket >= $1
     UNION SELECT rule_name FROM ${dialect.table('rate_limit_event')} WHERE id > $2
     UNION SELECT name FROM ${dialect.table('rate_limit_rule')}`,
    [firstDay, sums.watermark],
  )
  return rows.flatMap(({ name }) => (name === '' ? [] : [name]))
}
