import { busiest } from './breakdown.js'
import { readTraffic, type Traffic } from './traffic.js'
import { type RankingOptions, type Report, validateAtLeastOne, validateDays, windowFor } from './window.js'

export interface RuleHitCount {
  readonly rule_name: string
  readonly hits: number
  readonly blocked: number
}

/** Reports how often each rule decided, the busiest first. Requests that no rule matched are left out. */
export function ruleHitCounts({ days = 7, limit = 50 }: RankingOptions = {}): Report<readonly RuleHitCount[]> {
  validateDays(days)
  validateAtLeastOne('limit', limit)
  return async (snapshot) => toRuleHits(await readTraffic(snapshot, windowFor(days, snapshot.nowMs)), limit)
}

export function toRuleHits(traffic: readonly Traffic[], limit: number): RuleHitCount[] {
  const matched = traffic.filter(({ rule_name }) => rule_name !== '')
  return busiest(matched, ({ rule_name }) => rule_name)
    .slice(0, limit)
    .map(({ name, total, blocked }) => ({ rule_name: name, hits: total, blocked }))
}
