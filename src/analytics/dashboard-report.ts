import type { Offender } from '../alerts/offender.js'
import { type RuleHitCount, ruleHitCounts } from './rule-hit-counts.js'
import { topOffenders } from './top-offenders.js'
import { type TrafficSummary, trafficSummary } from './traffic-summary.js'
import type { Report } from './window.js'

export interface DashboardReport {
  readonly days: number
  readonly today: TrafficSummary
  readonly window: TrafficSummary
  readonly top_offenders: readonly Offender[]
  readonly rule_hits: readonly RuleHitCount[]
}

const MAX_ROWS = 20

/** What the dashboard shows, of one moment: its numbers agree with each other. */
export function dashboardReport(days: number): Report<DashboardReport> {
  const today = trafficSummary({ days: 1 })
  const window = trafficSummary({ days })
  const offenders = topOffenders({ days, limit: MAX_ROWS })
  const rules = ruleHitCounts({ days, limit: MAX_ROWS })
  return async (snapshot) => ({
    days,
    today: await today(snapshot),
    window: await window(snapshot),
    top_offenders: await offenders(snapshot),
    rule_hits: await rules(snapshot),
  })
}
