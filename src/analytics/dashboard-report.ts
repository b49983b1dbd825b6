import type { Breakdown } from './breakdown.js'
import type { ReportFilter } from './filter.js'
import type { NearLimit } from './near-limit.js'
import type { OverTime } from './over-time.js'
import type { RuleHitCount } from './rule-hit-counts.js'
import type { Offender } from './top-offenders.js'
import type { TrafficSummary } from './traffic-summary.js'

/** What became of requests; a request counts once. */
export interface Outcomes {
  /** Let through, within its limit. */
  readonly allowed: number
  /** Let through by a limit that does not block, though it was over. */
  readonly would_block: number
  readonly blocked: number
}

/** An offender, and when it was blocked: one number per bar of `over_time`. */
export interface OffenderOverTime extends Offender {
  readonly blocked_by_bar: readonly number[]
}

export interface DashboardReport {
  readonly days: number
  readonly filter: ReportFilter
  readonly today: TrafficSummary
  readonly window: TrafficSummary
  /** The 24 hours before `today`, and the days before `window`. */
  readonly before: { readonly today: TrafficSummary; readonly window: TrafficSummary }
  /** At most 20. */
  readonly top_offenders: readonly OffenderOverTime[]
  /** At most 20. */
  readonly rule_hits: readonly RuleHitCount[]
  readonly outcomes: Outcomes
  readonly by_rule: Breakdown
  readonly by_path: Breakdown
  readonly by_method: Breakdown
  readonly over_time: OverTime
  readonly near_limit: NearLimit
}
