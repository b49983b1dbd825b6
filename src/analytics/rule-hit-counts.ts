import { checkAtLeastOne, checkDays, type RankingOptions, type Report, reportStartMs, withinWindow } from './window.js'

export interface RuleHitCount {
  readonly rule_name: string
  readonly hits: number
  readonly blocked: number
}

/** How often each rule decided, the busiest first. Requests that no rule matched are left out. */
export function ruleHitCounts({ days = 7, limit = 50 }: RankingOptions = {}): Report<readonly RuleHitCount[]> {
  checkDays(days)
  checkAtLeastOne('limit', limit)
  return ({ query, dialect, nowMs }) =>
    query<RuleHitCount>(
      `SELECT rule_name, COUNT(*) AS hits, COUNT(*) FILTER (WHERE allowed = false) AS blocked
       FROM ${dialect.table('rate_limit_event')}
       WHERE ${withinWindow(dialect)} AND rule_name <> ''
       GROUP BY rule_name
       ORDER BY COUNT(*) DESC, ${dialect.bytewise('rule_name')} LIMIT $2`,
      [reportStartMs(days, nowMs), limit],
    )
}
