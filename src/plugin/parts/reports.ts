import type { IncidentAlertResult } from '../../operations/alerts/incidents.js'
import type { Incident } from '../../reports/incidents/incident.js'

/** The reports that other parts ask for. */
export interface ReportParts {
  readonly reports: {
    getIncidents(options: { readonly days: number }): Promise<readonly Incident[]>
    sendIncidentAlerts(options: { readonly signal: AbortSignal }): Promise<IncidentAlertResult>
  }
}
