/** `fastify-smart-ratelimit/reports`: the reports on the event log, without an app, and the types of their answers. */
export type { AlertLog, ChannelOutcome } from './operations/alerts/channels/channel.js'
export type { AlertChannels } from './operations/alerts/channels/channels.js'
export type {
  IncidentAlertOptions,
  IncidentAlertResult,
  IncidentOutcome,
} from './operations/alerts/incidents.js'
export type { AlertOptions, AlertResult } from './operations/alerts/offenders.js'
export { type AnalyticsOptions, createAnalytics } from './plugin/analytics.js'
export type { Analytics } from './plugin/reports.js'
export type { ClientCounts, PolicyCounts } from './reports/client-counts.js'
export type {
  ClientBar,
  ClientDetail,
  ClientDetailOptions,
  ClientPath,
  ClientPolicy,
  ClientTimeline,
} from './reports/client-detail.js'
export type { ClientOverride, ClientOverrides, OverrideInForce } from './reports/client-overrides.js'
export type { Incident, IncidentState } from './reports/incidents/incident.js'
export type { ClientEvent, RecentEvent } from './reports/listed-events.js'
export type { BlockedPath, OffenderDetail, OffenderDetailOptions } from './reports/offender-detail.js'
export type { UncoveredReason, UnknownFact } from './reports/preview/clients.js'
export type { Preview, PreviewOptions } from './reports/preview/preview.js'
export type { PreviewCounts, PreviewHour, PreviewKey, PreviewUnknown, RulePreview } from './reports/preview/report.js'
export type { Sample, SuggestedRate, SuggestedRates, SuggestRatesOptions } from './reports/preview/suggested-rates.js'
export type { AlertableOffendersOptions, Offender } from './reports/ranking.js'
export type { Coverage, RankingOptions } from './reports/report.js'
export type { TimeOption, WindowOptions } from './reports/report-window.js'
export type { RuleHitCount } from './reports/rule-traffic.js'
export type { ClientMeasure, TopClient, TopClientsOptions } from './reports/top-clients.js'
export type { TrafficSummary } from './reports/traffic.js'
export type { UsageOptions, UsageOrder, UsagePage, UsageRow } from './reports/usage.js'
