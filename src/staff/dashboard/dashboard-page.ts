import { allRequests } from '../../reports/breakdown.js'
import type { DashboardReport } from '../../reports/dashboard-report.js'
import { isFiltering } from '../../reports/filter.js'
import { type NearLimit, NOW_MS } from '../../reports/near-limit.js'
import { hasEnded } from '../../reports/report-window.js'
import type { Notice } from '../shell/notice-cookie.js'
import { changeViews, effectViews } from './change-views.js'
import { drawChart } from './chart.js'
import type { QuickActionsFor } from './client-menu.js'
import { clientList } from './client-views.js'
import { figures } from './figures.js'
import { filterForm } from './filter-form.js'
import {
  formatBar,
  formatCount,
  formatRequests,
  formatWindowBefore,
  type Moment,
  offeredWindows,
  toMoment,
  visible,
  windowName,
} from './format.js'
import type { incidentViews } from './incidents/incident-views.js'
import { dashboardLead } from './lead.js'
import {
  type Back,
  backTo,
  clientHref,
  clientsCsvHref,
  dashboardHref,
  type EventsFilter,
  eventsHref,
  filterEntries,
  following,
  offenderHref,
  offendersCsvHref,
  type Series,
  type View,
  viewEntries,
} from './links.js'
import { type LogState, lacksAllowedClients, logHealth, logNotices, logsOnlyBlocked } from './log-state.js'
import type { RequestedView } from './requested-view.js'
import { pathRows, shareRows } from './shares.js'
import { refusedChoices, shownSeries, timeSelector, toggleSeries } from './time-selector.js'

/** The content of a page, and where it leads. */
export interface Shown {
  readonly view: RequestedView
  /** Whether who sees the page may make rules. */
  readonly mayMakeRules: boolean
  /** The time for which no newer report will be read for pages that follow. */
  readonly freshForMs: number
  readonly quickActions: QuickActionsFor
  readonly incidents: ReturnType<typeof incidentViews>
  /** The result of an action about an incident. */
  readonly notice: Notice | undefined
  /** Whether clients can be grouped by network. */
  readonly hasNetworks: boolean
  /** A command that makes a request, for where the log has none. */
  readonly curl: string
}

/**
 * Returns the context of `dashboard.hbs`: the unformatted report, for custom templates, and everything the page shows,
 * formatted, in `page`.
 *
 * @param nowMs the time of the report
 */
export function dashboardContext(
  report: DashboardReport,
  { view, mayMakeRules, freshForMs, quickActions, incidents, notice, hasNetworks, curl }: Shown,
  log: LogState,
  nowMs: number,
) {
  const { filter } = report
  const { window } = view
  const hrefFor = (changed: Partial<View>) => dashboardHref(changed.window ?? window, filter, { ...view, ...changed })
  const ended = hasEnded(window, nowMs)
  const onlyBlocked = logsOnlyBlocked(log)
  const hasTraffic = allRequests(report.window) > 0
  const changes = changeViews(report.changes)
  const back = backTo(view)
  return {
    ...report,
    page: {
      title: 'Rate limits',
      window: windowName(window),
      windows: offeredWindows(window),
      time: timeSelector(view, nowMs, (window) => hrefFor({ window })),
      only: refusedChoices(view, (display) => hrefFor({ show: undefined, ...display })),
      kept: [...filterEntries(filter), ...viewEntries(view)].map(([name, value]) => ({ name, value })),
      filter: filterForm(report, view, mayMakeRules),
      is_filtered: isFiltering(filter),
      live: ended ? undefined : following(view.live, freshForMs, (live) => hrefFor({ live })),
      notice: notice && { ...notice, text: visible(notice.text) },
      notices: logNotices(log, hasTraffic, report.unknown_paths),
      incidents,
      rates: !onlyBlocked,
      has_traffic: hasTraffic,
      nothing: hasTraffic ? undefined : nothing(report, log),
      curl,
      lead: dashboardLead(report, view, { incidents: incidents.listed, onlyBlocked, nowMs }),
      ...numbers(report, view, onlyBlocked, (series) => toggleSeries(view, series, hrefFor)),
      chart: drawChart(report.over_time, {
        rates: !onlyBlocked,
        changes,
        series: shownSeries(view),
        hasEnded: ended,
        pages: {
          ofRange: (range) => hrefFor({ window: range }),
          ofMinute: (range) => eventsHref(range, eventsFilter(view)),
        },
      }),
      changes,
      effects: effectViews(report.override_effects).map(({ name, ...effect }) => ({
        ...effect,
        name: visible(name),
        href: clientHref(name, window, back),
      })),
      list: clientList(report, view, quickActions, hasNetworks),
      ...tables(report, view),
      would_block: report.outcomes.would_block > 0,
      denied: report.outcomes.denied > 0,
      rules_note: rulesNote(report, view, log),
      near:
        lacksAllowedClients(log) || report.near_limit === undefined
          ? undefined
          : nearLimitView(report.near_limit, view, back),
      log: logHealth(log),
      clients_csv_href: clientsCsvHref(window, view.listing),
      offenders_csv_href: offendersCsvHref(window),
      now: toMoment(nowMs),
    },
  }
}

/** Returns what a dashboard is limited to as the filter of the list of events. */
function eventsFilter({ filter: { key, ...others }, onlyRefused }: View): EventsFilter {
  return { client: key, ...others, outcome: onlyRefused ? 'refused' : undefined }
}

/** Returns the numbers above the chart, and what they are compared with. */
function numbers(
  { outcomes, before }: DashboardReport,
  { window }: View,
  onlyBlocked: boolean,
  toggle: (series: Series) => ReturnType<typeof toggleSeries>,
) {
  const now = { ...outcomes, refused: outcomes.blocked, 'would-be-refused': outcomes.would_block }
  const then = {
    ...before,
    refused: before.blocked,
    'would-be-refused': before.would_block,
    allowed: before.allowed - before.would_block,
  }
  const compared = allRequests(before) === 0 ? '' : `Compared with the ${formatWindowBefore(window)}`
  return { figures: figures(now, { before: then, onlyBlocked, toggle }), compared }
}

function tables({ by_rule, by_path, by_method, filter, rule_effects }: DashboardReport, view: View) {
  const filtered = (each: DashboardReport['filter']) => dashboardHref(view.window, { ...filter, ...each }, view)
  const { onlyRefused } = view
  return {
    rules: shareRows(by_rule, { unnamed: 'no rule', other: 'other rules' }, (rule) => filtered({ rule }), {
      effects: new Map(effectViews(rule_effects).map((effect) => [effect.name, effect])),
      onlyRefused,
    }),
    paths: pathRows(by_path, (path) => filtered({ path }), { onlyRefused }),
    methods: shareRows(by_method, { unnamed: 'no method', other: 'other methods' }, (method) => filtered({ method }), {
      onlyRefused,
    }),
  }
}

/** Returns a note for windows in which no rule decided; empty otherwise. */
function rulesNote(
  { by_rule: { shares, other } }: DashboardReport,
  { window, onlyRefused }: View,
  { switches }: LogState,
): string {
  if (allRequests(other) > 0 || shares.some(({ name }) => name !== '')) return ''
  if (onlyRefused) return ''
  if (switches.useDynamicRules) return `No request matched a rule in the ${windowName(window)}.`
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

/** Returns the clients near a limit, and which requests were looked at, for `near-limit.hbs`. */
function nearLimitView({ clients, since_ms, requests }: NearLimit, { window, filter }: View, back: Back) {
  return {
    // A part of a minute, where there were very many requests.
    seconds: formatCount(NOW_MS / 1_000),
    since: timeOfDay(since_ms),
    requests: requests === 0 ? '' : formatRequests(requests),
    is_filtered: isFiltering(filter),
    clients: clients.map(({ client, key, policy, count, limit, at_ms }) => ({
      name: visible(client === '' ? key : client),
      href: client === '' ? offenderHref(key, window, back) : clientHref(client, window, back),
      policy: visible(policy),
      usage: `${Math.floor((100 * count) / limit)}%`,
      of: `${formatCount(count)} of ${formatCount(limit)}`,
      bar: formatBar(count, limit),
      ...timeOfDay(at_ms),
    })),
  }
}

function timeOfDay(ms: number): Moment {
  const { iso, time } = toMoment(ms)
  return { iso, time: time.slice('2026-01-15 '.length) }
}
