import { type AlertSettings, resolveAlertSettings } from '../alerts/alert-settings.js'
import type { AlertTimes } from '../alerts/channel.js'
import type { AlertLog } from '../alerts/notify.js'
import { sendOffenderAlerts } from '../alerts/send-alerts.js'
import type { Database } from '../db/database.js'
import type { AddressPrivacy } from '../privacy/address-privacy.js'
import type { Clock } from '../time/clock.js'
import { type Analytics, SILENT } from './analytics-reports.js'
import { clientDetail } from './client-detail.js'
import { CSV_LIMIT, offendersCsvRows } from './csv.js'
import { offenderDetail } from './offender-detail.js'
import { type AlertableOffendersOptions, alertableOffenders, topOffenders } from './ranking.js'
import { suggestedRates } from './suggested-rates.js'
import { topClients } from './top-clients.js'
import { ruleHitCounts, trafficSummary } from './traffic.js'
import { createReportRunner } from './window.js'

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
  onlyBlocked = false,
  privacy?: AddressPrivacy,
): Analytics {
  const read = createReportRunner(database, clock, onlyBlocked, privacy)
  // Async, so that an invalid option rejects instead of throwing.
  const findAlertableOffenders = async (options: AlertableOffendersOptions) => read(alertableOffenders(options))
  return {
    getTrafficSummary: async (options) => read(trafficSummary(options)),
    getTopOffenders: async (options) => read(topOffenders(options)),
    getRuleHitCounts: async (options) => read(ruleHitCounts(options)),
    offendersCsv: async ({ days, limit = CSV_LIMIT } = {}) => {
      const offenders = await read(topOffenders({ days, limit }))
      return [...offendersCsvRows(offenders)].join('')
    },
    getOffenderDetail: async (options) => read(offenderDetail(options)),
    getTopClients: async (options) => read(topClients(options)),
    getClient: async (options) => read(clientDetail(options)),
    suggestRates: async (options) => read(suggestedRates(options)),
    findAlertableOffenders,
    sendOffenderAlerts: async (options = {}) =>
      sendOffenderAlerts({ findOffenders: findAlertableOffenders, database, clock, ...alerts }, options),
  }
}
