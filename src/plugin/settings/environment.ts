/** The environment variables of options: plain data, so that the help of commands loads no validation. */
import { COUNTING_VARIABLES, type Variable } from '../../limiter/core/variables.js'
import type { RateLimitOptions } from './options.js'

const VARIABLES: Readonly<Partial<Record<keyof RateLimitOptions, Variable>>> = {
  ...COUNTING_VARIABLES,
  logEvents: { variable: 'RATELIMIT_LOG_EVENTS' },
  useDynamicRules: { variable: 'RATELIMIT_USE_DYNAMIC_RULES' },
  ruleCacheTimeout: { variable: 'RATELIMIT_RULE_CACHE_TIMEOUT' },
  events: {
    variable: 'RATELIMIT_EVENTS_DATABASE_URL',
    help: 'database of the event log and of usage (default: the same)',
  },
  eventSpool: { variable: 'RATELIMIT_EVENT_SPOOL', help: 'folder for events and usage while the database is away' },
  usage: { variable: 'RATELIMIT_USAGE' },
  keepUsageFor: { variable: 'RATELIMIT_KEEP_USAGE_FOR' },
  alertThreshold: { variable: 'RATELIMIT_ALERT_THRESHOLD', help: 'refused requests that make an offender' },
  alertEmails: { variable: 'RATELIMIT_ALERT_EMAILS', help: 'recipients of alerts, separated by commas' },
  alertWebhook: { variable: 'RATELIMIT_ALERT_WEBHOOK', help: 'URL that alerts are posted to' },
  alertWebhookSecret: {
    variable: 'RATELIMIT_ALERT_WEBHOOK_SECRET',
    help: 'signs what is posted; several separated by commas',
  },
  alertWebhookFormat: {
    variable: 'RATELIMIT_ALERT_WEBHOOK_FORMAT',
    help: 'json (default), slack, teams, discord or pagerduty',
  },
  alertRoutingKey: { variable: 'RATELIMIT_ALERT_ROUTING_KEY', help: 'integration key of PagerDuty' },
  alertCooldown: {
    variable: 'RATELIMIT_ALERT_COOLDOWN',
    help: 'seconds before a key is reported again (default: 0)',
  },
  alertResolved: {
    variable: 'RATELIMIT_ALERT_RESOLVED',
    help: 'true reports keys that are below the threshold again',
  },
  publicUrl: { variable: 'RATELIMIT_PUBLIC_URL', help: 'address of the dashboard, for the links of alerts' },
  defaultFromEmail: { variable: 'DEFAULT_FROM_EMAIL', help: 'sender of alerts by email' },
  smtpUrl: { variable: 'SMTP_URL', help: 'mail server, such as smtps://user:password@mail.example.com' },
  blockPrivateNetworks: {
    variable: 'RATELIMIT_BLOCK_PRIVATE_NETWORKS',
    help: 'true refuses webhooks into private networks',
  },
}

const NAMES: ReadonlyMap<string, string> = new Map(
  Object.entries(VARIABLES).map(([option, { variable }]) => [option, variable]),
)

/** Returns the names of all variables. */
export function variables(): Iterable<string> {
  return NAMES.values()
}

/** Returns the variable of an option; undefined where it has none. */
export function findVariable(option: string): string | undefined {
  return NAMES.get(option)
}

/** Returns what an option is called in the environment: its variable, or the option itself where it has none. */
export function variableFor(option: string): string {
  return findVariable(option) ?? option
}

/** Returns the variables of options and their help. */
export function environmentHelp(options: readonly (keyof RateLimitOptions)[]): [variable: string, help: string][] {
  return options.map((option) => [variableFor(option), VARIABLES[option]?.help ?? ''])
}
