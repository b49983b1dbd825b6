import { type Breakdown, breakdown, sumTraffic } from './breakdown.js'
import type { ReportFilter } from './filter.js'
import { type NearLimit, nearLimit } from './near-limit.js'
import { type OffenderOverTime, readOffendersOverTime } from './offenders-over-time.js'
import { type OverTime, readOverTime } from './over-time.js'
import type { Period } from './period.js'
import { type RuleHitCount, toRuleHits } from './rule-hit-counts.js'
import { countTraffic, readTraffic } from './traffic.js'
import { type TrafficSummary, toSummary } from './traffic-summary.js'
import { type Report, validateDays, windowBefore, windowFor } from './window.js'

/** The outcomes of requests; a request counts once. */
export interface Outcomes {
  /** Let through, within its limit. */
  readonly allowed: number
  /** Over a limit that does not block, and so let through. */
  readonly would_block: number
  readonly blocked: number
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
  /** Requests of the window whose paths the rollups did not keep, so that a filter by path leaves them out. */
  readonly unknown_paths: number
}

export interface DashboardReportOptions {
  readonly days: number
  readonly filter?: ReportFilter | undefined
}

const MAX_ROWS = 20
const TODAY = 1

/** Reports what the dashboard shows, as of one moment: its numbers agree with each other. */
export function dashboardReport({ days, filter = {} }: DashboardReportOptions): Report<DashboardReport> {
  validateDays(days)
  return async (snapshot) => {
    const { nowMs } = snapshot
    const summary = async (its: number, period = windowFor(its, nowMs)) =>
      toSummary(its, await countTraffic(snapshot, period, filter))
    const { path, ...others } = filter
    // A window of one day is the present day's.
    const unlessToday = async (period?: Period) => (days === TODAY ? undefined : summary(TODAY, period))
    const [anyPath, today, windowWasBefore, todayWasBefore, top_offenders, over_time, near_limit] = await Promise.all([
      readTraffic(snapshot, windowFor(days, nowMs), others),
      unlessToday(),
      summary(days, windowBefore(days, nowMs)),
      unlessToday(windowBefore(TODAY, nowMs)),
      readOffendersOverTime(snapshot, days, filter, MAX_ROWS),
      readOverTime(snapshot, days, filter),
      nearLimit(filter)(snapshot),
    ])
    const traffic = path === undefined ? anyPath : anyPath.filter((its) => its.path.startsWith(path))
    const counts = sumTraffic(traffic)
    const window = toSummary(days, counts)
    return {
      days,
      filter,
      today: today ?? window,
      window,
      before: { today: todayWasBefore ?? windowWasBefore, window: windowWasBefore },
      top_offenders,
      rule_hits: toRuleHits(traffic, MAX_ROWS),
      outcomes: {
        allowed: counts.total - counts.blocked - counts.would_block,
        would_block: counts.would_block,
        blocked: counts.blocked,
      },
      by_rule: breakdown(traffic, ({ rule_name }) => rule_name),
      // The rollups count paths for which they had no room under the empty path.
      by_path: breakdown(
        traffic,
        ({ path }) => path,
        (path) => path !== '',
      ),
      by_method: breakdown(traffic, ({ method }) => method),
      over_time,
      near_limit,
      unknown_paths: path === undefined ? 0 : sumTraffic(anyPath.filter((its) => its.path === '')).total,
    }
  }
}
