import type { DashboardReport } from '../analytics/dashboard-report.js'
import type { OffenderDetail, RecentEvent } from '../analytics/offender-detail.js'
import { formatBar, formatCount, formatRate, formatTime, visible } from './format.js'

/** The windows a page offers, in days. */
const OFFERED_DAYS = [1, 7, 30, 90]

interface Counts {
  readonly total: number
  readonly allowed: number
  readonly blocked: number
  readonly block_rate: number
}

/**
 * What `dashboard.hbs` is given: the report as it is, for templates of one's own, and everything the page shows,
 * formatted, in `page`.
 */
export function dashboardContext(report: DashboardReport, nowMs: number) {
  const { days, today, window, top_offenders, rule_hits } = report
  const most = top_offenders[0]?.blocked_count ?? 0
  return {
    ...report,
    page: {
      title: 'Rate limits',
      window: windowName(days),
      windows: offeredWindows(days),
      summaries: [...(days === 1 ? [] : [summary(windowTitle(1), today)]), summary(windowTitle(days), window)],
      has_traffic: window.total > 0,
      offenders: top_offenders.map(({ key, blocked_count }, place) => ({
        rank: place + 1,
        key: visible(key),
        href: `offender.html?${new URLSearchParams({ key, days: String(days) })}`,
        blocked: formatCount(blocked_count),
        bar: formatBar(blocked_count, most),
      })),
      rules: rule_hits.map(({ rule_name, hits, blocked }) => ({
        name: visible(rule_name),
        hits: formatCount(hits),
        blocked: formatCount(blocked),
        block_rate: formatRate(blocked / hits),
        bar: formatBar(blocked, hits),
      })),
      csv_href: `offenders.csv?days=${days}`,
      time: formatTime(nowMs),
    },
  }
}

/** What `offender.hbs` is given: the detail as it is, and everything the page shows, formatted, in `page`. */
export function offenderContext(detail: OffenderDetail, nowMs: number) {
  const { key, days, by_path, recent_events } = detail
  const most = by_path[0]?.blocked_count ?? 0
  return {
    ...detail,
    page: {
      title: visible(key),
      subtitle: 'Rate limits',
      name: visible(key),
      window: windowName(days),
      windows: offeredWindows(days),
      key,
      summaries: [summary(windowTitle(days), detail)],
      has_traffic: detail.total > 0,
      first_seen: detail.first_seen === null ? null : seenAt(detail.first_seen),
      last_seen: detail.last_seen === null ? null : seenAt(detail.last_seen),
      paths: by_path.map(({ path, blocked_count }) => ({
        path: visible(path),
        blocked: formatCount(blocked_count),
        bar: formatBar(blocked_count, most),
      })),
      events: recent_events.map((event) => ({
        ...seenAt(event.timestamp),
        ...decision(event),
        method: visible(event.method),
        path: visible(event.path),
        usage: `${formatCount(event.count)} of ${formatCount(event.limit)}`,
        rule: visible(event.rule_name),
      })),
      recent: recent_events.length === 1 ? 'Latest request' : `Latest ${recent_events.length} requests`,
      dashboard_href: `./?days=${days}`,
      json_href: `offender/?${new URLSearchParams({ key, days: String(days) })}`,
      time: formatTime(nowMs),
    },
  }
}

function summary(title: string, { total, allowed, blocked, block_rate }: Counts) {
  return {
    title,
    requests: formatCount(total),
    allowed: formatCount(allowed),
    blocked: formatCount(blocked),
    block_rate: formatRate(block_rate),
    bar: formatBar(blocked, total),
    bar_label: total === 0 ? 'No requests' : `${formatRate(block_rate)} of ${requests(total)} blocked`,
    has_traffic: total > 0,
    has_allowed: allowed > 0,
    has_blocked: blocked > 0,
  }
}

/** `decision` is what the style sheet calls it. */
function decision({ allowed, count, limit }: RecentEvent) {
  if (!allowed) return { decision: 'blocked', decision_text: 'Blocked' }
  // A rule that does not block lets through what another would have refused.
  if (count > limit) return { decision: 'over-limit', decision_text: 'Over limit' }
  return { decision: 'allowed', decision_text: 'Allowed' }
}

function requests(total: number): string {
  return total === 1 ? '1 request' : `${formatCount(total)} requests`
}

function offeredWindows(selected: number) {
  const offered = [...new Set([...OFFERED_DAYS, selected])].toSorted((a, b) => a - b)
  return offered.map((days) => ({ days, label: duration(days), selected: days === selected }))
}

function windowName(days: number): string {
  return `last ${duration(days)}`
}

function windowTitle(days: number): string {
  return `Last ${duration(days)}`
}

function duration(days: number): string {
  return days === 1 ? '24 hours' : `${days} days`
}

function seenAt(iso: string) {
  return { iso, time: formatTime(Date.parse(iso)) }
}
