import { type PrivacySettingOptions, resolvePrivacy } from '../clients/privacy-settings.js'
import { madeOnce } from '../ground/remember.js'
import { type Clock, systemClock } from '../ground/time/clock.js'
import type { AlertLog } from '../operations/alerts/channels/channel.js'
import { type AlertSettingOptions, resolveAlertSettings } from '../operations/alerts/channels/channels.js'
import { type Analytics, SILENT } from './analytics-interface.js'
import { type EventsOptions, openDatabase, type RateLimitClient } from './client/client.js'
import type { openReports } from './reports.js'

/**
 * The database, and the settings of alerts and of privacy, as options of `rateLimitPlugin`; no environment variable is
 * read. With the `privacy` and the `hashSecret` of the servers a client is found by its address, as in their reports.
 */
export interface AnalyticsOptions extends AlertSettingOptions, PrivacySettingOptions {
  /** `file:./ratelimit.db`, `postgresql://…`, or a client made by `createRateLimitClient`. */
  readonly database?: string | RateLimitClient | undefined
  /** `{ database: … }`: the database of the event log and of usage, where it is another one. */
  readonly events?: EventsOptions | undefined
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
  events,
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
  const opened = openDatabase({ database, events, schema, clock })
  opened.database.log.useThreads({ logsEvents: false })
  const analytics = analyticsFor(opened.database, clock, { settings, log }, {}, addresses)
  return { ...analytics, close: () => opened.close() }
}

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
    getIncidents: async (options) => (await reports()).getIncidents(options),
    suggestRates: async (options) => (await reports()).suggestRates(options),
    getUsage: async (options) => (await reports()).getUsage(options),
    findAlertableOffenders: async (options) => (await reports()).findAlertableOffenders(options),
    sendOffenderAlerts: async (options) => (await reports()).sendOffenderAlerts(options),
    sendIncidentAlerts: async (options) => (await reports()).sendIncidentAlerts(options),
  }
}
