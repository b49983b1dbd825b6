import { type AlertSettingOptions, resolveAlertSettings } from '../alerts/alert-settings.js'
import type { AlertLog } from '../alerts/notify.js'
import type { AlertOptions, AlertResult } from '../alerts/send-alerts.js'
import { openDatabase, type RateLimitClient } from '../client.js'
import { type PrivacySettingOptions, resolvePrivacy } from '../privacy/privacy-settings.js'
import { madeOnce } from '../remember.js'
import { type Clock, systemClock } from '../time/clock.js'
import type { ClientDetail, ClientDetailOptions } from './client-detail.js'
import type { OffenderDetail, OffenderDetailOptions } from './offender-detail.js'
import type { AlertableOffendersOptions, Offender } from './ranking.js'
import type { openReports } from './reports.js'
import type { SuggestedRates, SuggestRatesOptions } from './suggested-rates.js'
import type { TopClient, TopClientsOptions } from './top-clients.js'
import type { RuleHitCount, TrafficSummary } from './traffic.js'
import type { RankingOptions, WindowOptions } from './window.js'

/**
 * Reports on the event log. `days` is the length of a report's window: `days: 7` means the last 7 × 24 hours.
 * An invalid option rejects with `InvalidSettingError`.
 */
export interface Analytics {
  /** Returns the numbers of requests and refusals; `days` is 1 unless given. */
  getTrafficSummary(options?: WindowOptions): Promise<TrafficSummary>
  /** Returns the keys with the most refused requests; `days` is 7 and `limit` 100 unless given. */
  getTopOffenders(options?: RankingOptions): Promise<readonly Offender[]>
  /** Returns how often each rule decided; `days` is 7 and `limit` 50 unless given. */
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
   * Suggests rates for a path, method or rule, from what clients sent in their busiest minute and hour; `days` is 7
   * unless given. Of a window with more than a million events it reads whole hours at equal distances.
   */
  suggestRates(options?: SuggestRatesOptions): Promise<SuggestedRates>
  /** Returns the keys that were refused at least `threshold` times; `days` is 1 and `limit` 100 unless given. */
  findAlertableOffenders(options: AlertableOffendersOptions): Promise<readonly Offender[]>
  /**
   * Runs the alerts once: reports the offenders to the channels that are given or set. Does nothing when no threshold
   * is given or set. A channel that fails is reported in the result.
   */
  sendOffenderAlerts(options?: AlertOptions): Promise<AlertResult>
}

/**
 * The database, and the settings of alerts and of privacy, as options of `rateLimitPlugin`; no environment variable is
 * read. With the `privacy` and the `hashSecret` of the servers a client is found by its address, as in their reports.
 */
export interface AnalyticsOptions extends AlertSettingOptions, PrivacySettingOptions {
  /** `file:./ratelimit.db`, `postgresql://…`, or a client made by `createRateLimitClient`. */
  readonly database?: string | RateLimitClient | undefined
  /** The PostgreSQL schema that holds the tables; `fastify_smart_ratelimit` unless given. */
  readonly schema?: string | undefined
  readonly clock?: Clock | undefined
  /** Logs alerts that fail, as `(details, message)`; the result has them too. */
  readonly log?: AlertLog | undefined
}

/**
 * Creates the reports of a database without a server, for scripts and scheduled jobs.
 *
 * @returns the reports; `close()` closes the database that was opened here, a client that was passed in stays open
 * @throws InvalidSettingError for an invalid database, or an invalid setting of alerts or of privacy
 */
export function createAnalytics({
  database,
  schema,
  clock = systemClock,
  log = SILENT,
  privacy,
  hashSecret,
  ipv6Subnet,
  ...options
}: AnalyticsOptions = {}): Analytics & { close(): Promise<void> } {
  const settings = resolveAlertSettings(options)
  const addresses = resolvePrivacy({ privacy, hashSecret, ipv6Subnet })
  const opened = openDatabase(database, schema, clock)
  opened.database.useThreads({ logsEvents: false })
  const analytics = analyticsFor(opened.database, clock, { settings, log }, false, addresses)
  return { ...analytics, close: () => opened.close() }
}

export const SILENT: AlertLog = { error: () => undefined }

/** Creates the reports of a database that is open already. The first of them loads what reports need. */
export function analyticsFor(...dependencies: Parameters<typeof openReports>): Analytics {
  const reports = madeOnce(async () => (await import('./reports.js')).openReports(...dependencies))
  return {
    getTrafficSummary: async (options) => (await reports()).getTrafficSummary(options),
    getTopOffenders: async (options) => (await reports()).getTopOffenders(options),
    getRuleHitCounts: async (options) => (await reports()).getRuleHitCounts(options),
    offendersCsv: async (options) => (await reports()).offendersCsv(options),
    getOffenderDetail: async (options) => (await reports()).getOffenderDetail(options),
    getTopClients: async (options) => (await reports()).getTopClients(options),
    getClient: async (options) => (await reports()).getClient(options),
    suggestRates: async (options) => (await reports()).suggestRates(options),
    findAlertableOffenders: async (options) => (await reports()).findAlertableOffenders(options),
    sendOffenderAlerts: async (options) => (await reports()).sendOffenderAlerts(options),
  }
}
