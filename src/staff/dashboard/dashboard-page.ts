import { allRequests } from '../../reports/breakdown.js'
import type { DashboardReport } from '../../reports/dashboard-report.js'
import { isFiltering, type ReportFilter } from '../../reports/filter.js'
import { type NearLimit, NOW_MS } from '../../reports/near-limit.js'
import { changeViews, effectViews } from './change-views.js'
import { drawChart } from './chart.js'
import type { QuickActions } from './client-offer.js'
import { clientList } from './client-views.js'
import {
  formatBar,
  formatCount,
  formatRate,
  type Moment,
  offeredWindows,
  toMoment,
  visible,
  windowField,
  windowName,
} from './format.js'
import {
  type Back,
  backTo,
  clientHref,
  clientsCsvHref,
  dashboardHref,
  type FilterName,
  filterEntries,
  following,
  offenderHref,
  offendersCsvHref,
  ruleFormHref,
  type View,
  viewEntries,
} from './links.js'
import { type LogState, logHealth, logNotices, logsOnlyBlocked } from './log-state.js'
import { shareRows } from './shares.js'
import type { Outcome } from './stack.js'
import { summary } from './summary.js'

/** What a page shows, and where it leads. */
export interface Shown {
  readonly view: View
  /** Whether who sees the page may make rules. */
  readonly mayMakeRules: boolean
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
  { view, mayMakeRules, freshForMs, quickActions, hasNetworks }: Shown,
  log: LogState,
  nowMs: number,
) {
  const { days, filter, today, window, before } = report
  const onlyBlocked = logsOnlyBlocked(log)
  const hasTraffic = allRequests(window) > 0
  const changes = changeViews(report.changes)
  const back = backTo(view)
  return {
    ...report,
    page: {
      title: 'Rate limits',
      window: windowName(days),
      windows: offeredWindows(days),
      kept: [...filterEntries(filter), ...viewEntries(view)].map(([name, value]) => ({ name, value })),
      filter: filterForm(report, view, mayMakeRules),
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
        href: clientHref(name, days, back),
      })),
      outcomes: outcomes(report, onlyBlocked),
      list: clientList(report, view, quickActions, hasNetworks),
      ...tables(report, view),
      would_block: report.outcomes.would_block > 0,
      denied: report.outcomes.denied > 0,
      rules_note: rulesNote(report, log),
      near: onlyBlocked || report.near_limit === undefined ? undefined : nearLimitView(report.near_limit, report, back),
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
    entry('would-block', 'Would be refused', would_block),
    entry('denied', 'Denied', denied),
  ]
  return onlyBlocked && allowed === 0 ? refused : [...refused, entry('allowed', 'Allowed', allowed)]
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

/** Returns the clients near a limit, and which requests were looked at, for `near-limit.hbs`. */
function nearLimitView({ clients, since_ms, requests }: NearLimit, { days, filter }: DashboardReport, back: Back) {
  return {
    // A part of a minute, where there were very many requests.
    seconds: formatCount(NOW_MS / 1_000),
    since: timeOfDay(since_ms),
    requests: requests === 0 ? '' : formatCount(requests),
    is_filtered: isFiltering(filter),
    clients: clients.map(({ client, key, policy, count, limit, at_ms }) => ({
      name: visible(client === '' ? key : client),
      href: client === '' ? offenderHref(key, days, back) : clientHref(client, days, back),
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

const CHIP_TEXTS: Readonly<Record<FilterName, string>> = {
  rule: 'Rule',
  path: 'Path begins with',
  method: 'Method',
  key: 'Client',
}

/** An active filter, with the address of the page without it. */
interface Chip {
  readonly text: string
  readonly value: string
  readonly href: string
}

/**
 * Returns the filled-in filter form of the dashboard. Fields hold unescaped values: they are sent back unchanged.
 *
 * @param mayMakeRules whether who sees it may make a rule of it
 */
function filterForm({ by_rule, by_path, by_method }: DashboardReport, view: View, mayMakeRules: boolean) {
  const { days, filter } = view
  const [window, length] = windowField(days)
  const names = ({ shares }: DashboardReport['by_rule']) => shares.map(({ name }) => name).filter((name) => name !== '')
  return {
    ...filter,
    kept: [[window, length], ...viewEntries(view)].map(([name, value]) => ({ name, value })),
    rules: names(by_rule),
    paths: names(by_path),
    methods: names(by_method),
    chips: filterEntries(filter).map(([name, value]): Chip => {
      return {
        text: CHIP_TEXTS[name],
        value: visible(value),
        href: dashboardHref(days, { ...filter, [name]: undefined }, view),
      }
    }),
    clear_href: dashboardHref(days, {}, view),
    rule_form: mayMakeRules ? ruleForm(days, filter) : undefined,
  }
}

/** Returns the link to the form of a rule for the filtered requests; undefined where no rule can select them. */
function ruleForm(days: number, filter: ReportFilter) {
  const { rule, path, method } = filter
  if (path === undefined && method === undefined && !rule) return undefined
  const requests = [method, path].flatMap((part) => (part === undefined ? [] : [visible(part)])).join(' ')
  return { text: requests === '' ? 'Edit this rule' : `New rule for ${requests}`, href: ruleFormHref(days, filter) }
}
