import type { AddressPrivacy } from '../clients/address-privacy.js'
import { type PrivacySettingOptions, resolvePrivacy } from '../clients/privacy-settings.js'
import type { Database } from '../database/database.js'
import { type Clock, systemClock } from '../ground/time/clock.js'
import type { AlertLog, AlertTimes } from '../operations/alerts/channels/channel.js'
import {
  type AlertSettingOptions,
  type AlertSettings,
  resolveAlertSettings,
} from '../operations/alerts/channels/channels.js'
import { type Coverage, createReportRunner } from '../reports/report.js'
import { type EventsOptions, openDatabase, type RateLimitClient } from './client/client.js'
import { type Analytics, REPORTS, type ReportMethods } from './reports.js'

const SILENT: AlertLog = { error: () => undefined }

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

/** The dependencies of alerts; without them, alerts go only to the channels that a call names. */
interface AnalyticsAlerts {
  readonly settings: AlertSettings
  readonly log: AlertLog
  readonly times?: AlertTimes
}

/** Creates the reports of a database that is open already. Each loads what it needs with its first use. */
export function analyticsFor(
  database: Database,
  clock: Clock,
  alerts: AnalyticsAlerts = { settings: resolveAlertSettings({}), log: SILENT },
  coverage: Coverage = {},
  privacy?: AddressPrivacy,
): Analytics {
  const read = createReportRunner(database, clock, coverage, privacy)
  const methods = Object.entries(REPORTS).map(([name, load]) => {
    // The type of the list says that a name and its module have the same options and answer.
    return [name, async (options: never) => read<unknown>((await load())(options))]
  })
  const reports: ReportMethods = Object.fromEntries(methods)
  return {
    ...reports,
    async sendOffenderAlerts(options = {}) {
      const { sendOffenderAlerts } = await import('../operations/alerts/offenders.js')
      return sendOffenderAlerts({ findOffenders: reports.findAlertableOffenders, database, clock, ...alerts }, options)
    },
    async sendIncidentAlerts(options) {
      const { sendIncidentAlerts } = await import('../operations/alerts/incidents.js')
      return sendIncidentAlerts({ findIncidents: reports.getIncidents, database, clock, ...alerts }, options)
    },
  }
}
