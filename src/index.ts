export type { AddressForm } from './clients/address-privacy.js'
export type { ClientKind, KeyPart } from './clients/client-kind.js'
export type { Geo, GeoFileKind, GeoFileState, GeoOptions, Operator } from './clients/geo.js'
export type { PrivacyOptions, PrivacySettingOptions } from './clients/privacy-settings.js'
export type { RedisClient } from './database/redis-client.js'
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
} from './ground/errors.js'
export type { Clock } from './ground/time/clock.js'
export type { Ask, CheckOptions } from './http/ask.js'
export type { Charges, ChargesLeft } from './http/charged-units.js'
export type { ConsumedRequest, ConsumeOptions } from './http/consume.js'
export type { Cost, Reserve } from './http/cost.js'
export type { ExplainOptions, Explanation } from './http/explain/explain.js'
export type { ExplainedLimit } from './http/explain/explained-limit.js'
export type { HeaderVariant } from './http/header-variant.js'
export type { RequestFunction } from './http/host-function.js'
export type { KeyFunction } from './http/kind-client.js'
export type { NoticeFunction } from './http/notices.js'
export type { RefusalFunction, SkipFunction } from './http/on-request.js'
export type { RateFunction } from './http/policy-limits.js'
export {
  AccessDeniedError,
  PathTooLongError,
  RateLimitExceededError,
  type RefusalError,
  StoreUnavailableError,
} from './http/refusal.js'
export type { LimitDecision, RequestDecision, RequestLimit, ShownDecision } from './http/request-decision.js'
export type { AnyHook, AnyReply, AnyRequest } from './http/request-reply.js'
export type { RateLimitUser, UserFunction } from './http/request-user.js'
export type { RouteConfig, RouteCost } from './http/routes/route-config.js'
export type { RouteLimitHook, RouteLimitOptions } from './http/routes/route-limit.js'
export type {
  Algorithm,
  Check,
  Decision,
  NamedWindow,
  Policy,
  Settlement,
  Window,
  WindowState,
} from './limiter/algorithm.js'
export type { StoreErrorAction } from './limiter/fallback.js'
export type { CountedStatuses } from './limiter/limit/counted-statuses.js'
export type { Terms } from './limiter/limit/terms.js'
export type { NoticedLimit } from './limiter/notice.js'
export { parseRate, type Rate } from './limiter/rate.js'
export { MemoryStore, type MemoryStoreOptions } from './limiter/stores/memory/memory-store.js'
export { RedisStore, type RedisStoreOptions } from './limiter/stores/redis/redis-store.js'
export { DatabaseStore, type DatabaseStoreOptions } from './limiter/stores/sql/database-store.js'
export type { Store } from './limiter/stores/store.js'
export type { EventDetail } from './log/collapsing-buffer.js'
export type { EventLogStats } from './log/event-log-state.js'
export type { RetentionOptions } from './log/rollups/retention.js'
export type { AlertSettingOptions } from './operations/alerts/channels/channels.js'
export type { Mailer, MailMessage } from './operations/alerts/channels/mailer.js'
export type { WebhookFormat } from './operations/alerts/channels/webhook-format.js'
export type { Health, HealthCheck, HealthCheckName } from './operations/health/health.js'
export type { ListsOptions } from './operations/lists/list-settings.js'
export type {
  MetricsOptions,
  OpenTelemetryCallback,
  OpenTelemetryInstrumentOptions,
  OpenTelemetryMeter,
  OpenTelemetryMeterProvider,
  PrometheusRegistry,
} from './operations/metrics/targets.js'
export type { ScheduleOptions } from './operations/schedule/schedule-options.js'
export type { AnalyticsOptions } from './plugin/analytics.js'
export { createAnalytics } from './plugin/analytics.js'
export {
  type ClientOptions,
  createRateLimitClient,
  type EventsOptions,
  type MigrateOptions,
  migrate,
  type RateLimitClient,
} from './plugin/client/client.js'
export { rateLimitPlugin, rateLimitPlugin as default } from './plugin/plugin.js'
export type { Analytics } from './plugin/reports.js'
export type { MiddlewareOptions, RateLimitOptions } from './plugin/settings/options.js'
export type { SmartRateLimit } from './plugin/smart-rate-limit.js'
export type { RuleBan } from './rules/ban.js'
export type { Condition } from './rules/conditions/condition.js'
export type { ConditionFacts } from './rules/conditions/condition-facts.js'
export type { Difference, FieldChanges } from './rules/exchange/difference.js'
export type { ImportOptions, ImportResult } from './rules/exchange/exchange.js'
export type { RuleDocument } from './rules/exchange/rule-document.js'
export { asActor, type ChangeSource } from './rules/history/actor.js'
export type { Change, ChangedFields, HistoryOptions } from './rules/history/history.js'
export type { OverrideEntry } from './rules/overrides/override.js'
export type { RefusalAnswer } from './rules/refusal-answer.js'
export type { Rule, RuleCandidate } from './rules/rule.js'
export type { RuleEntry } from './rules/rule-fields.js'
export type { Validity } from './rules/validity.js'
