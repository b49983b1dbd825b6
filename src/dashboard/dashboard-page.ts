import type { DashboardReport } from '../analytics/dashboard-report.js'
import { isFiltering } from '../analytics/filter.js'
import { changeViews, effectViews } from './change-views.js'
import { drawChart } from './chart.js'
import { clientList } from './client-views.js'
import { filterForm } from './filter-form.js'
import { following } from './following.js'
import { formatCount, formatRate, toMoment, visible } from './format.js'
import {
  clientHref,
  clientsCsvHref,
  dashboardHref,
  filterEntries,
  offendersCsvHref,
  type View,
  viewEntries,
} from './links.js'
import { type LogState, logHealth, logNotices, logsOnlyBlocked } from './log-state.js'
import { nearLimitView } from './near-limit-view.js'
import type { QuickActions } from './quick-actions.js'
import { shareRows } from './shares.js'
import { allRequests, type Outcome } from './stack.js'
import { summary } from './summary.js'
import { offeredWindows, windowName } from './windows.js'

/** What a page shows, and where it leads. */
export interface Shown {
  readonly view: View
  /** The root path of the panel; undefined where there is none. */
  readonly panel: string | undefined
  /** Whether who sees the page may make rules. */
  readonly mayEdit: boolean
  /** How long no newer report will be read for pages that follow. */
  readonly freshForMs: number
  readonly quickActions: (client: string) => QuickActions
  /** Whether clients can be grouped by network. */
  readonly hasNetworks: boolean
}

/**
 * Returns the context of `dashboard.hbs`: the unformatted report, for custom templates, and everything the page shows,
 * formatted, in `page`.
 *
 * @param nowMs the time of the report
 */
export function dashboardContext(
  report: DashboardReport,
  { view, panel, mayEdit, freshForMs, quickActions, hasNetworks }: Shown,
  log: LogState,
  nowMs: number,
) {
  const { days, filter, today, window, before } = report
  const onlyBlocked = logsOnlyBlocked(log)
  const hasTraffic = allRequests(window) > 0
  const changes = changeViews(report.changes, panel)
  return {
    ...report,
    page: {
      title: 'Rate limits',
      window: windowName(days),
      windows: offeredWindows(days),
      kept: [...filterEntries(filter), ...viewEntries(view)].map(([name, value]) => ({ name, value })),
      filter: filterForm(report, view, panel !== undefined && mayEdit),
      is_filtered: isFiltering(filter),
      live: following(view.live, freshForMs, (live) => dashboardHref(days, filter, { ...view, live })),
      notices: logNotices(log, hasTraffic, report.unknown_paths),
      rates: !onlyBlocked,
      has_traffic: hasTraffic,
      nothing: hasTraffic ? undefined : nothing(report, log),
      summaries: [
        ...(days === 1 ? [] : [summary(today, { before: before.today, onlyBlocked })]),
        summary(window, { before: before.window, onlyBlocked }),
      ],
      chart: drawChart(report.over_time, { rates: !onlyBlocked, changes }),
      changes,
      effects: effectViews(report.override_effects).map(({ name, ...effect }) => ({
        ...effect,
        name: visible(name),
        href: clientHref(name, days, filter),
      })),
      outcomes: outcomes(report, onlyBlocked),
      list: clientList(report, view, quickActions, hasNetworks),
      ...tables(report, view),
      would_block: report.outcomes.would_block > 0,
      denied: report.outcomes.denied > 0,
      rules_note: rulesNote(report, log),
      near: onlyBlocked ? undefined : nearLimitView(report),
      log: logHealth(log),
      clients_csv_href: clientsCsvHref(days, view.listing),
      offenders_csv_href: offendersCsvHref(days),
      now: toMoment(nowMs),
    },
  }
}

/** Returns the outcomes of the requests, for the legend of the chart. */
function outcomes(
  { outcomes: { allowed, would_block, blocked, denied }, window }: DashboardReport,
  onlyBlocked: boolean,
) {
  const all = allRequests(window)
  const entry = (outcome: Outcome, text: string, count: number) => {
    return { outcome, text, count: formatCount(count), share: onlyBlocked ? '' : formatRate(count / all) }
  }
  const refused = [
    entry('blocked', 'Over the limit', blocked),
    entry('would-block', 'Would have been', would_block),
    entry('denied', 'Denied', denied),
  ]
  return onlyBlocked && allowed === 0 ? refused : [...refused, entry('allowed', 'Within the limit', allowed)]
}

function tables({ by_rule, by_path, by_method, days, filter, rule_effects }: DashboardReport, view: View) {
  const filtered = (its: DashboardReport['filter']) => dashboardHref(days, { ...filter, ...its }, view)
  return {
    rules: shareRows(
      by_rule,
      { unnamed: 'no rule', other: 'other rules' },
      (rule) => filtered({ rule }),
      new Map(effectViews(rule_effects).map((effect) => [effect.name, effect])),
    ),
    paths: shareRows(by_path, { unnamed: 'no path', other: 'other paths' }, (path) => filtered({ path })),
    methods: shareRows(by_method, { unnamed: 'no method', other: 'other methods' }, (method) => filtered({ method })),
  }
}

/** Returns a note for windows in which no rule decided; empty otherwise. */
function rulesNote({ by_rule: { shares, other }, days }: DashboardReport, { switches }: LogState): string {
  if (allRequests(other) > 0 || shares.some(({ name }) => name !== '')) return ''
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
