export type { AlertSettingOptions } from './alerts/alert-settings.js'
export type { Mailer, MailMessage } from './alerts/mailer.js'
export type { AlertLog, ChannelOutcome } from './alerts/notify.js'
export type { AlertChannels, AlertOptions, AlertResult } from './alerts/send-alerts.js'
export type { WebhookFormat } from './alerts/webhook-body.js'
export type { AnalyticsOptions } from './analytics/analytics.js'
export { createAnalytics } from './analytics/analytics.js'
export type { Analytics } from './analytics/analytics-reports.js'
export type { ClientCounts, PolicyCounts } from './analytics/client-counts.js'
export type {
  ClientBar,
  ClientDetail,
  ClientDetailOptions,
  ClientEvent,
  ClientPath,
  ClientPolicy,
  ClientTimeline,
} from './analytics/client-detail.js'
export type { ClientOverride, ClientOverrides } from './analytics/client-overrides.js'
export type { BlockedPath, OffenderDetail, OffenderDetailOptions, RecentEvent } from './analytics/offender-detail.js'
export type { AlertableOffendersOptions, Offender } from './analytics/ranking.js'
export type { Sample, SuggestedRate, SuggestedRates, SuggestRatesOptions } from './analytics/suggested-rates.js'
export type { ClientMeasure, TopClient, TopClientsOptions } from './analytics/top-clients.js'
export type { RuleHitCount, TrafficSummary } from './analytics/traffic.js'
export type { Coverage, RankingOptions, WindowOptions } from './analytics/window.js'
export { type ApiOptions, apiPlugin } from './api/api-plugin.js'
export { rateLimitPlugin, rateLimitPlugin as default } from './app/plugin.js'
export type { SmartRateLimit } from './app/smart-rate-limit.js'
export {
  type ClientOptions,
  createRateLimitClient,
  type MigrateOptions,
  migrate,
  type RateLimitClient,
} from './client.js'
export type { Condition } from './conditions/condition.js'
export type { ConditionFacts } from './conditions/condition-facts.js'
export { dashboardPlugin } from './dashboard/dashboard-plugin.js'
export type { DashboardOptions } from './dashboard/register-dashboard.js'
export type { RedisClient } from './db/redis-client.js'
export {
  type FieldErrors,
  InvalidRateError,
  InvalidSettingError,
  type MessageErrorConstructor,
  MissingTableError,
  RevertError,
  RuleDocumentError,
  RuleValidationError,
  type WrongRow,
} from './errors.js'
export type { EventLogStats } from './events/event-log.js'
export type { Difference, FieldChanges } from './exchange/difference.js'
export type { ImportOptions, ImportResult } from './exchange/exchange.js'
export type { RuleDocument } from './exchange/rule-document.js'
export type { Health, HealthCheck, HealthCheckName } from './health/health.js'
export { asActor, type ChangeSource } from './history/actor.js'
export type { Change, ChangedFields, HistoryOptions } from './history/history.js'
export type { Ask, CheckOptions } from './http/ask.js'
export type { Cost } from './http/cost.js'
export type { ExplainedLimit, ExplainOptions, Explanation } from './http/explain.js'
export type { HeaderVariant } from './http/headers.js'
export type { RequestFunction } from './http/host-function.js'
export type { KeyFunction } from './http/kind-key.js'
export type { RateFunction } from './http/limits.js'
export type { RefusalFunction, SkipFunction } from './http/on-request.js'
export {
  AccessDeniedError,
  PathTooLongError,
  RateLimitExceededError,
  StoreUnavailableError,
} from './http/refusal.js'
export type { AnyHook, AnyReply, AnyRequest } from './http/request-reply.js'
export type { RateLimitUser, UserFunction } from './http/request-user.js'
export type { RouteConfig, RouteCost } from './http/route-config.js'
export type { RouteLimitHook, RouteLimitOptions } from './http/route-limit.js'
export type {
  Algorithm,
  Check,
  Decision,
  NamedWindow,
  PlainPolicy,
  Policy,
  Settlement,
  Window,
  WindowState,
} from './limiter/algorithm.js'
export type { StoreErrorAction } from './limiter/fallback.js'
export { parseRate, type Rate } from './limiter/rate.js'
export type {
  MetricsOptions,
  OpenTelemetryCallback,
  OpenTelemetryInstrumentOptions,
  OpenTelemetryMeter,
  OpenTelemetryMeterProvider,
  PrometheusRegistry,
} from './metrics/targets.js'
export type { OverrideEntry } from './overrides/override.js'
export type { UncoveredReason } from './preview/clients.js'
export type { Preview, PreviewOptions } from './preview/preview.js'
export type { PreviewCounts, PreviewHour, PreviewKey, RulePreview } from './preview/report.js'
export type { AddressForm } from './privacy/address-privacy.js'
export type { PrivacyOptions, PrivacySettingOptions } from './privacy/privacy-settings.js'
export type { RetentionOptions } from './rollups/retention.js'
export type { RuleBan } from './rules/ban.js'
export type { ClientKind, KeyPart } from './rules/client-kind.js'
export type { CountedStatuses } from './rules/counts.js'
export type { RefusalAnswer, Rule, RuleCandidate, RuleEntry } from './rules/rule.js'
export type { Validity } from './rules/validity.js'
export type { ScheduleOptions } from './schedule/schedule-options.js'
export type { MiddlewareOptions, RateLimitOptions } from './settings/options.js'
export { hashPassword } from './sign-in/passwords.js'
export type { StaffRole } from './sign-in/roles.js'
export {
  type StaffAccount,
  type StaffAccounts,
  type StaffAccountsOptions,
  type StaffCredentials,
  staffAccounts,
} from './sign-in/staff-accounts.js'
export type { IsStaff, StaffOptions } from './sign-in/staff-guard.js'
export type { StaffAnswer, StaffMember } from './sign-in/staff-member.js'
export { DatabaseStore, type DatabaseStoreOptions } from './stores/database-store.js'
export { MemoryStore, type MemoryStoreOptions } from './stores/memory-store.js'
export { RedisStore, type RedisStoreOptions } from './stores/redis-store.js'
export type { Store } from './stores/store.js'
export type { Clock } from './time/clock.js'
