/** The one list of reports: of each the types, the method of `analytics`, and the module that registers it. */
import type { IncidentAlertOptions, IncidentAlertResult } from '../operations/alerts/incidents.js'
import type { AlertOptions, AlertResult } from '../operations/alerts/offenders.js'
import type { ClientDetail, ClientDetailOptions } from '../reports/client-detail.js'
import type { Incident } from '../reports/incidents/incident.js'
import type { OffenderDetail, OffenderDetailOptions } from '../reports/offender-detail.js'
import type { SuggestedRates, SuggestRatesOptions } from '../reports/preview/suggested-rates.js'
import type { AlertableOffendersOptions, Offender } from '../reports/ranking.js'
import type { AskedReport } from '../reports/registration.js'
import type { RankingOptions, Report } from '../reports/report.js'
import type { WindowOptions } from '../reports/report-window.js'
import type { RuleHitCount } from '../reports/rule-traffic.js'
import type { TopClient, TopClientsOptions } from '../reports/top-clients.js'
import type { TrafficSummary } from '../reports/traffic.js'
import type { UsageOptions, UsagePage } from '../reports/usage.js'

/**
 * Reports on the event log. `days` is the length of a report's window: `days: 7` means the last 7 × 24 hours. Instead of it,
 * `since` and `until` choose any range: `{ since: '2026-11-24T14:00Z', until: '2026-11-24T15:00Z' }`, and the `days` of a
 * report are then the length of that range. An invalid option rejects with `InvalidSettingError`.
 */
export interface Analytics {
  /** Returns the numbers of requests and refusals; `days` is 1 unless given. */
  getTrafficSummary(options?: WindowOptions): Promise<TrafficSummary>
  /** Returns the keys with the most refused requests; `days` is 7 and `limit` 100 unless given. */
  getTopOffenders(options?: RankingOptions): Promise<readonly Offender[]>
  /** Returns how often each rule applied, and how often it refused; `days` is 7 and `limit` 50 unless given. */
  getRuleHitCounts(options?: RankingOptions): Promise<readonly RuleHitCount[]>
  /** Returns the top offenders as CSV with a header line; `days` is 7 and `limit` 1000 unless given. */
  offendersCsv(options?: RankingOptions): Promise<string>
  /** Returns the totals, paths and latest events of one key; `days` is 7 and `recent` 50 unless given. */
  getOffenderDetail(options: OffenderDetailOptions): Promise<OffenderDetail>
  /**
   * Returns the clients that were refused or denied the most, or that asked the most, over all rules; `days` is 7,
   * `limit` 100 and `by` `refused` unless given.
   */
  getTopClients(options?: TopClientsOptions): Promise<readonly TopClient[]>
  /**
   * Returns the totals of one client, its policies, paths, timeline and latest events, and its overrides with their
   * history; `days` is 7 and `recent` 50 unless given.
   */
  getClient(options: ClientDetailOptions): Promise<ClientDetail>
  /**
   * Returns the incidents of a window: unusually many refusals of a client, a network or a policy. Those that go on are
   * first, then those with the most refusals; `days` is 1 unless given. An incident that reaches into the window is
   * returned whole. At most 1000 are returned.
   */
  getIncidents(options?: WindowOptions): Promise<readonly Incident[]>
  /**
   * Suggests rates for a path, method or rule, from what clients sent in their busiest minute and hour; `days` is 7
   * unless given. Of a window with more than a million events it reads whole hours at equal distances.
   */
  suggestRates(options?: SuggestRatesOptions): Promise<SuggestedRates>
  /**
   * Returns what clients used of a unit, page by page: `by` client (the default), day or month, all in UTC. It reads the
   * sums of `usage`, whole days, and not the event log; `since` is the beginning of the present month unless given.
   */
  getUsage(options: UsageOptions): Promise<UsagePage>
  /** Returns the keys that were refused at least `threshold` times; `days` is 1 and `limit` 100 unless given. */
  findAlertableOffenders(options: AlertableOffendersOptions): Promise<readonly Offender[]>
  /**
   * Runs the alerts once: reports the offenders to the channels that are given or set. Does nothing when no threshold
   * is given or set. A channel that fails is reported in the result.
   */
  sendOffenderAlerts(options?: AlertOptions): Promise<AlertResult>
  /**
   * Tells of the incidents of the last day, and of the notices that no server has told of: one message for each through
   * each channel that is set, once over all processes. A message that could not be sent is tried again by the next call. A channel that fails is reported in the
   * result.
   */
  sendIncidentAlerts(options?: IncidentAlertOptions): Promise<IncidentAlertResult>
}

/** The methods that are reports. */
export type ReportMethods = Omit<Analytics, 'sendOffenderAlerts' | 'sendIncidentAlerts'>
/** Loads what creates a report; it is registered where tools ask for it. */
type Loader<Method> = Method extends (options: infer Options) => Promise<infer Result>
  ? () => Promise<((options: Options) => Report<Result>) & { readonly asked?: AskedReport }>
  : never

/** Loads each report with its first use. The routes of the API are in this order. */
export const REPORTS: { readonly [Name in keyof ReportMethods]: Loader<ReportMethods[Name]> } = {
  getTrafficSummary: async () => (await import('../reports/traffic.js')).trafficSummary,
  getTopOffenders: async () => (await import('../reports/ranking.js')).topOffenders,
  getRuleHitCounts: async () => (await import('../reports/rule-traffic.js')).ruleHitCounts,
  offendersCsv: async () => (await import('../reports/ranking.js')).offendersCsv,
  getOffenderDetail: async () => (await import('../reports/offender-detail.js')).offenderDetail,
  getTopClients: async () => (await import('../reports/top-clients.js')).topClients,
  getClient: async () => (await import('../reports/client-detail.js')).clientDetail,
  getIncidents: async () => (await import('../reports/incidents/incidents.js')).incidents,
  suggestRates: async () => (await import('../reports/preview/suggested-rates.js')).suggestedRates,
  getUsage: async () => (await import('../reports/usage.js')).usageReport,
  findAlertableOffenders: async () => (await import('../reports/ranking.js')).alertableOffenders,
}
/** The reports that `analytics` has no method for. */
const OTHERS = [async () => (await import('../reports/over-time.js')).trafficOverTime]

/** Loads the reports that tools ask for by name. */
export async function loadAskedReports(): Promise<readonly AskedReport[]> {
  const all = await Promise.all([...Object.values(REPORTS), ...OTHERS].map((load) => load()))
  return all.flatMap(({ asked }) => asked ?? [])
}
