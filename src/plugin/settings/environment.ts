/** The environment variables of options: plain data, so that the help of commands loads no validation. */
import { DEFAULT_SCHEMA } from '../../database/database-url.js'
import type { RateLimitOptions } from './options.js'

/** A variable that is used where its option is absent. */
interface Variable {
  readonly variable: string
  /** Describes it in the help of commands. */
  readonly help?: string
}

const VARIABLES: Readonly<Partial<Record<keyof RateLimitOptions, Variable>>> = {
  enabled: { variable: 'RATELIMIT_ENABLE' },
  logEvents: { variable: 'RATELIMIT_LOG_EVENTS' },
  useDynamicRules: { variable: 'RATELIMIT_USE_DYNAMIC_RULES' },
  ruleCacheTimeout: { variable: 'RATELIMIT_RULE_CACHE_TIMEOUT' },
  middleware: { variable: 'RATELIMIT_MIDDLEWARE' },
  onStoreError: { variable: 'RATELIMIT_ON_STORE_ERROR' },
  database: {
    variable: 'RATELIMIT_DATABASE_URL',
    help: 'database, file:… or postgresql://… (default: file:./ratelimit.db)',
  },
  redis: { variable: 'RATELIMIT_REDIS_URL', help: 'Redis, such as redis://127.0.0.1:6379' },
  schema: { variable: 'RATELIMIT_SCHEMA', help: `PostgreSQL schema of the tables (default: ${DEFAULT_SCHEMA})` },
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
  hashSecret: {
    variable: 'RATELIMIT_HASH_SECRET',
    help: 'secret of the HMACs that replace addresses and header values',
  },
  privacy: {
    variable: 'RATELIMIT_PRIVACY_ADDRESSES',
    help: 'what is stored of addresses: full (default), truncated or pseudonym',
  },
  ipv6Subnet: {
    variable: 'RATELIMIT_IPV6_SUBNET',
    help: 'leading bits of an IPv6 address that identify a client (default: 64)',
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
