import type { DashboardReport } from '../analytics/dashboard-report.js'
import { isFiltering } from '../analytics/filter.js'
import { drawChart } from './chart.js'
import { filterForm } from './filter-form.js'
import { formatBar, formatCount, formatRate, formatTime, visible } from './format.js'
import { csvHref, dashboardHref, filterEntries, offenderHref } from './links.js'
import { type LogState, logHealth, logNotices, logsOnlyBlocked } from './log-state.js'
import { shareRows } from './shares.js'
import { drawSparkline } from './sparkline.js'
import type { Outcome } from './stack.js'
import { summary } from './summary.js'
import { offeredWindows, windowName } from './windows.js'

/**
 * Returns the context of `dashboard.hbs`: the unformatted report, for custom templates, and everything the page shows,
 * formatted, in `page`.
 */
export function dashboardContext(report: DashboardReport, log: LogState, nowMs: number) {
  const { days, filter, today, window, before } = report
  const onlyBlocked = logsOnlyBlocked(log)
  const hasTraffic = window.total > 0
  return {
    ...report,
    page: {
      title: 'Rate limits',
      window: windowName(days),
      windows: offeredWindows(days),
      kept: filterEntries(filter).map(([name, value]) => ({ name, value })),
      filter: filterForm(report),
      is_filtered: isFiltering(filter),
      notices: logNotices(log, hasTraffic, report.unknown_paths),
      rates: !onlyBlocked,
      has_traffic: hasTraffic,
      nothing: hasTraffic ? undefined : nothing(report, log),
      summaries: [
        ...(days === 1 ? [] : [summary(today, { before: before.today, onlyBlocked })]),
        summary(window, { before: before.window, onlyBlocked }),
      ],
      chart: drawChart(report.over_time, { rates: !onlyBlocked }),
      outcomes: outcomes(report, onlyBlocked),
      offenders: offenders(report),
      ...tables(report),
      would_block: report.outcomes.would_block > 0,
      rules_note: rulesNote(report, log),
      near: onlyBlocked ? undefined : nearLimitView(report),
      log: logHealth(log),
      csv_href: csvHref(days),
      time: formatTime(nowMs),
    },
  }
}

/** Returns the outcomes of the requests, for the legend of the chart. */
function outcomes({ outcomes: { allowed, would_block, blocked }, window }: DashboardReport, onlyBlocked: boolean) {
  const entry = (outcome: Outcome, text: string, count: number) => {
    return { outcome, text, count: formatCount(count), share: onlyBlocked ? '' : formatRate(count / window.total) }
  }
  const refused = [entry('blocked', 'Blocked', blocked), entry('would-block', 'Would have been blocked', would_block)]
  return onlyBlocked && allowed === 0 ? refused : [...refused, entry('allowed', 'Within the limit', allowed)]
}

function offenders({ top_offenders, days, filter }: DashboardReport) {
  return top_offenders.map(({ key, blocked_count, ...overTime }, place) => ({
    rank: place + 1,
    key: visible(key),
    href: offenderHref(key, days, filter),
    blocked: formatCount(blocked_count),
    sparkline: drawSparkline(overTime),
  }))
}

function tables({ by_rule, by_path, by_method, days, filter }: DashboardReport) {
  return {
    rules: shareRows(by_rule, { unnamed: 'no rule', other: 'other rules' }, (rule) =>
      dashboardHref(days, { ...filter, rule }),
    ),
    paths: shareRows(by_path, { unnamed: 'no path', other: 'other paths' }, (path) =>
      dashboardHref(days, { ...filter, path }),
    ),
    methods: shareRows(by_method, { unnamed: 'no method', other: 'other methods' }, (method) =>
      dashboardHref(days, { ...filter, method }),
    ),
  }
}

function nearLimitView({ near_limit: { clients, since_ms }, days, filter }: DashboardReport) {
  return {
    since: since_ms === null ? undefined : formatTime(since_ms).slice(11, 16),
    clients: clients.map(({ key, rule_name, usage, requests }) => ({
      key: visible(key),
      href: offenderHref(key, days, filter),
      rule: visible(rule_name),
      usage: `${Math.floor(100 * usage)}%`,
      bar: formatBar(usage, 1),
      requests: formatCount(requests),
    })),
  }
}

/** Returns a note for windows in which no rule decided; empty otherwise. */
function rulesNote({ by_rule: { shares, other }, days }: DashboardReport, { switches }: LogState): string {
  if (other.total > 0 || shares.some(({ name }) => name !== '')) return ''
  if (switches.useDynamicRules) return `No request met a rule in the ${windowName(days)}.`
  return 'Rules are off on this server. They apply while useDynamicRules, or RATELIMIT_USE_DYNAMIC_RULES, is true.'
}

/** Returns why the page has no traffic. */
function nothing({ filter }: DashboardReport, { switches: { enabled, logEvents } }: LogState) {
  const logOff = enabled && logEvents === false
  return {
    filtered: isFiltering(filter),
    log_off: logOff,
    not_yet: enabled && !logOff && !isFiltering(filter),
  }
}
