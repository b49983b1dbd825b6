import type { AddressPrivacy } from '../clients/address-privacy.js'
import type { Database } from '../database/database.js'
import type { Clock } from '../ground/time/clock.js'
import type { AlertLog, AlertTimes } from '../operations/alerts/channels/channel.js'
import { type AlertSettings, resolveAlertSettings } from '../operations/alerts/channels/channels.js'
import { sendIncidentAlerts } from '../operations/alerts/incidents.js'
import { sendOffenderAlerts } from '../operations/alerts/offenders.js'
import { clientDetail } from '../reports/client-detail.js'
import { CSV_LIMIT, offendersCsvRows } from '../reports/csv.js'
import { incidents } from '../reports/incidents/incidents.js'
import { offenderDetail } from '../reports/offender-detail.js'
import { suggestedRates } from '../reports/preview/suggested-rates.js'
import { type AlertableOffendersOptions, alertableOffenders, topOffenders } from '../reports/ranking.js'
import { type Coverage, createReportRunner } from '../reports/report.js'
import type { WindowOptions } from '../reports/report-window.js'
import { ruleHitCounts } from '../reports/rule-traffic.js'
import { topClients } from '../reports/top-clients.js'
import { trafficSummary } from '../reports/traffic.js'
import { UsageReports } from '../reports/usage.js'
import { type Analytics, SILENT } from './analytics-interface.js'

/** The dependencies of alerts; without them, alerts go only to the channels that a call names. */
interface AnalyticsAlerts {
  readonly settings: AlertSettings
  readonly log: AlertLog
  readonly times?: AlertTimes
}

/** Does what `analyticsFor` does, with all that reports need. */
export function openReports(
  database: Database,
  clock: Clock,
  alerts: AnalyticsAlerts = { settings: resolveAlertSettings({}), log: SILENT },
  coverage: Coverage = {},
  privacy?: AddressPrivacy,
): Analytics {
  const read = createReportRunner(database, clock, coverage, privacy)
  // Async, so that an invalid option rejects instead of throwing.
  const findAlertableOffenders = async (options: AlertableOffendersOptions) => read(alertableOffenders(options))
  const getIncidents = async (options?: WindowOptions) => read(incidents(options))
  const usage = new UsageReports(database, clock, privacy)
  return {
    getTrafficSummary: async (options) => read(trafficSummary(options)),
    getTopOffenders: async (options) => read(topOffenders(options)),
    getRuleHitCounts: async (options) => read(ruleHitCounts(options)),
    offendersCsv: async ({ limit = CSV_LIMIT, ...options } = {}) => {
      const offenders = await read(topOffenders({ ...options, limit }))
      return [...offendersCsvRows(offenders)].join('')
    },
    getOffenderDetail: async (options) => read(offenderDetail(options)),
    getTopClients: async (options) => read(topClients(options)),
    getClient: async (options) => read(clientDetail(options)),
    getIncidents,
    suggestRates: async (options) => read(suggestedRates(options)),
    getUsage: async (options) => usage.page(options),
    findAlertableOffenders,
    sendOffenderAlerts: async (options = {}) =>
      sendOffenderAlerts({ findOffenders: findAlertableOffenders, database, clock, ...alerts }, options),
    sendIncidentAlerts: async (options) =>
      sendIncidentAlerts({ findIncidents: getIncidents, database, clock, ...alerts }, options),
  }
}
