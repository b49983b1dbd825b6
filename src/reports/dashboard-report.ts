import { Parameters } from '../database/list.js'
import { CooperativeYield } from '../ground/time/cooperative-yield.js'
import { allRefused, allRequests, type Breakdown, breakdown, sumTraffic, type TrafficCounts } from './breakdown.js'
import {
  type ChangeEffect,
  type RecentChange,
  readOverrideEffects,
  readRecentChanges,
  readRuleEffects,
} from './change-effects.js'
import {
  DEFAULT_LISTING,
  type ListedClient,
  type Listing,
  readListedClients,
  readListedNetworks,
} from './dashboard-clients.js'
import { type EventFilter, filtered, isFiltering, type ReportFilter } from './filter.js'
import { findFiltered } from './find-clients.js'
import { conditionFor, duringPeriod, REFUSED_EVENTS } from './logged-events.js'
import { type NearLimit, nearLimit } from './near-limit.js'
import { type OverTime, readOverTime } from './over-time.js'
import { type PathBreakdown, pathBreakdown } from './path-breakdown.js'
import { type Offender, rankOffenders } from './ranking.js'
import type { LogSnapshot, Report } from './report.js'
import {
  hasEnded,
  type ReportWindow,
  toWindow,
  type WindowOptions,
  windowBefore,
  windowDays,
  windowFor,
} from './report-window.js'
import { type RuleHitCount, readBeside, toRuleHits, toRuleTraffic } from './rule-traffic.js'
import type { TopNetwork } from './top-networks.js'
import { countTraffic, readTraffic, type TrafficSummary, toSummary } from './traffic.js'

/** The outcomes of requests; a request counts once. */
export interface Outcomes {
  /** Let through, within its limit. */
  readonly allowed: number
  /** The requests over a limit that does not block, and so let through. */
  readonly would_block: number
  readonly blocked: number
  /** Refused by the deny list, an override or a ban; part of no total. */
  readonly denied: number
}

/** A window, with the counts that the seed's summary leaves out. */
type WindowSummary = TrafficSummary & Pick<Outcomes, 'would_block' | 'denied'>

export interface DashboardReport extends Listing {
  readonly days: number
  readonly filter: ReportFilter
  readonly today: WindowSummary
  readonly window: WindowSummary
  /** As long a time before `window`. */
  readonly before: WindowSummary
  /** The clients over all rules, at most 20; empty where networks are listed. */
  readonly top_clients: readonly ListedClient[]
  /** The top networks, at most 20; empty where clients are listed. */
  readonly top_networks: readonly TopNetwork[]
  /** The offenders by key, at most 20; empty unless asked for. */
  readonly top_offenders: readonly Offender[]
  /** The hits of rules, at most 20. */
  readonly rule_hits: readonly RuleHitCount[]
  readonly outcomes: Outcomes
  readonly by_rule: Breakdown
  readonly by_path: PathBreakdown
  readonly by_method: Breakdown
  readonly over_time: OverTime
  /** The clients near their limit now; undefined where the window has ended. */
  readonly near_limit: NearLimit | undefined
  /** The changes of rules and overrides within the window, the newest first. */
  readonly changes: readonly RecentChange[]
  /** The effects of the rules that changed last. */
  readonly rule_effects: readonly ChangeEffect[]
  /** The effects of the overrides that changed last. */
  readonly override_effects: readonly ChangeEffect[]
  /** Requests of the window whose paths the rollups did not keep, so that a filter by path leaves them out. */
  readonly unknown_paths: number
}

interface DashboardReportOptions extends WindowOptions {
  readonly filter?: ReportFilter | undefined
  readonly listing?: Listing | undefined
  /** Whether rules, paths and methods are listed by their refusals, and only those with refusals. */
  readonly onlyRefused?: boolean | undefined
  /** Whether `top_offenders` is read, which takes a quarter of the time. */
  readonly hasOffenders?: boolean | undefined
  /** Returns the template of the route that a path reaches, by which paths are grouped; undefined for a path by itself. */
  readonly templateFor?: ((method: string, path: string) => string | undefined) | undefined
}

const MAX_ROWS = 20
const TODAY: ReportWindow = { days: 1 }

/** Reports what the dashboard shows, as of one moment: its numbers agree with each other. */
export function dashboardReport({
  filter: input = {},
  listing = DEFAULT_LISTING,
  onlyRefused = false,
  hasOffenders = false,
  templateFor = () => undefined,
  ...options
}: DashboardReportOptions): Report<DashboardReport> {
  const window = toWindow(options, 7)
  return async (snapshot) => {
    const { nowMs } = snapshot
    const days = windowDays(window, nowMs)
    const filter = await findFiltered(snapshot, input, window)
    const summary = async (length: ReportWindow, period = windowFor(length, nowMs)) =>
      toWindowSummary(windowDays(length, nowMs), await countTraffic(snapshot, period, filter))
    const isByNetwork = listing.group === 'network'
    const { path, ...others } = filter
    // The list of clients comes first: its statements follow one another, and the others run meanwhile.
    const [top_clients, top_networks, anyPath, beside, today, before, top_offenders, over_time, near_limit, changes] =
      await Promise.all([
        isByNetwork ? [] : readListedClients(snapshot, window, filter, listing, MAX_ROWS),
        isByNetwork ? readListedNetworks(snapshot, window, filter, listing, MAX_ROWS) : [],
        readTraffic(snapshot, windowFor(window, nowMs), others),
        readBeside(snapshot, windowFor(window, nowMs), filter),
        // A window of one day is the present day's.
        window.days === TODAY.days ? undefined : summary(TODAY),
        summary(window, windowBefore(window, nowMs)),
        hasOffenders ? readOffenders(snapshot, window, filter) : [],
        readOverTime(snapshot, window, filter),
        hasEnded(window, nowMs) ? undefined : nearLimit(filter)(snapshot),
        readRecentChanges(snapshot, window),
      ])
    // The lists may have thousands of rules, and of paths.
    const slices = new CooperativeYield()
    async function inSlice<Result>(work: () => Result): Promise<Result> {
      if (slices.over()) await slices.pause()
      return work()
    }
    await slices.pause()
    const traffic = path === undefined ? anyPath : anyPath.filter((counts) => counts.path.startsWith(path))
    const counts = sumTraffic(traffic)
    const sums = toWindowSummary(days, counts)
    const isListed = () => true
    const measure = onlyRefused ? allRefused : allRequests
    const ofRules = await inSlice(() => toRuleTraffic(filter, [traffic, beside]))
    const by_rule = await inSlice(() => breakdown(ofRules, ({ rule_name }) => rule_name, isListed, measure))
    // A filter by path leads to the paths themselves.
    const templateOf = path === undefined ? templateFor : () => undefined
    const by_path = await inSlice(() => pathBreakdown(traffic, templateOf, measure))
    const by_method = await inSlice(() => breakdown(traffic, ({ method }) => method, isListed, measure))
    const rule_hits = await inSlice(() => toRuleHits(ofRules, MAX_ROWS))
    const rules = new Set(by_rule.shares.map(({ name }) => name))
    const [rule_effects, override_effects] = await Promise.all([
      readRuleEffects(snapshot, changes, rules, filter),
      readOverrideEffects(snapshot, changes, filter),
    ])
    return {
      ...listing,
      days,
      filter: input,
      today: today ?? sums,
      window: sums,
      before,
      top_clients,
      top_networks,
      top_offenders,
      rule_hits,
      outcomes: {
        allowed: counts.total - counts.blocked - counts.would_block,
        would_block: counts.would_block,
        blocked: counts.blocked,
        denied: counts.denied,
      },
      by_rule,
      by_path,
      by_method,
      over_time,
      near_limit,
      changes,
      rule_effects,
      override_effects,
      unknown_paths: path === undefined ? 0 : sumTraffic(anyPath.filter((counts) => counts.path === '')).total,
    }
  }
}

function toWindowSummary(days: number, counts: TrafficCounts): WindowSummary {
  return { ...toSummary(days, counts), would_block: counts.would_block }
}

/** Ranks keys. The rollup of keys has no other fields of a request, so a filter reads the events. */
async function readOffenders(
  snapshot: LogSnapshot,
  window: ReportWindow,
  filter: EventFilter,
): Promise<readonly Offender[]> {
  const period = windowFor(window, snapshot.nowMs)
  if (!isFiltering(filter)) return rankOffenders(snapshot, window, { limit: MAX_ROWS, atLeast: 1 })
  const { query, dialect } = snapshot
  const parameters = new Parameters()
  return query<Offender>(
    `SELECT key, SUM(weight) AS blocked_count FROM ${dialect.table('rate_limit_event')}
     WHERE ${conditionFor(REFUSED_EVENTS, filter)} AND ${duringPeriod(dialect, period, parameters)}${filtered(dialect, filter, parameters)}
     GROUP BY key ORDER BY SUM(weight) DESC, ${dialect.bytewise('key')} LIMIT ${parameters.add(MAX_ROWS)}`,
    parameters.values,
  )
}
