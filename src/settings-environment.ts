import { InvalidSettingError } from './errors.js'
import type { MiddlewareOptions, RateLimitOptions } from './options.js'

type Reader = (text: string) => unknown

const FLAGS: ReadonlyMap<string, boolean> = new Map([
  ['true', true],
  ['1', true],
  ['yes', true],
  ['on', true],
  ['false', false],
  ['0', false],
  ['no', false],
  ['off', false],
])

const flag: Reader = (text) => FLAGS.get(text.toLowerCase()) ?? text
const text: Reader = (value) => value
/** Empty places, as after a comma at the end, count for nothing. */
const list: Reader = (value) => value.split(',').flatMap((entry) => entry.trim() || [])
const number: Reader = (value) => (/^-?\d+(?:\.\d+)?$/.test(value) ? Number(value) : value)

/**
 * Which variable an option is read from, and how; a text that cannot be read is left as it is and then refused. The
 * help of the commands that depend on a setting says what it means.
 */
const VARIABLES: readonly (readonly [variable: string, option: keyof RateLimitOptions, read: Reader, help?: string])[] =
  [
    ['RATELIMIT_ENABLE', 'enabled', flag],
    ['RATELIMIT_LOG_EVENTS', 'logEvents', flag],
    ['RATELIMIT_USE_DYNAMIC_RULES', 'useDynamicRules', flag],
    ['RATELIMIT_RULE_CACHE_TIMEOUT', 'ruleCacheTimeout', number],
    ['RATELIMIT_MIDDLEWARE', 'middleware', readMiddleware],
    ['RATELIMIT_ON_STORE_ERROR', 'onStoreError', text],
    ['RATELIMIT_ALERT_THRESHOLD', 'alertThreshold', number, 'refused requests that make an offender'],
    ['RATELIMIT_ALERT_EMAILS', 'alertEmails', list, 'recipients of alerts, separated by commas'],
    ['RATELIMIT_ALERT_WEBHOOK', 'alertWebhook', text, 'URL that alerts are posted to'],
    ['RATELIMIT_ALERT_WEBHOOK_SECRET', 'alertWebhookSecret', list, 'signs what is posted; several separated by commas'],
    [
      'RATELIMIT_ALERT_WEBHOOK_FORMAT',
      'alertWebhookFormat',
      text,
      'json (default), slack, teams, discord or pagerduty',
    ],
    ['RATELIMIT_ALERT_ROUTING_KEY', 'alertRoutingKey', text, 'integration key of PagerDuty'],
    ['RATELIMIT_ALERT_COOLDOWN', 'alertCooldown', number, 'seconds before a client is reported again (default: 0)'],
    ['RATELIMIT_ALERT_RESOLVED', 'alertResolved', flag, 'true reports clients that are below the threshold again'],
    ['RATELIMIT_BLOCK_PRIVATE_NETWORKS', 'blockPrivateNetworks', flag, 'true refuses webhooks into private networks'],
    ['DEFAULT_FROM_EMAIL', 'defaultFromEmail', text, 'sender of alerts by email'],
    ['SMTP_URL', 'smtpUrl', text, 'mail server, such as smtps://user:password@mail.example.com'],
    ['RATELIMIT_DATABASE_URL', 'database', text, 'database, file:… or postgresql://… (default: file:./ratelimit.db)'],
    ['RATELIMIT_REDIS_URL', 'redis', text, 'Redis, such as redis://127.0.0.1:6379'],
    ['RATELIMIT_HASH_SECRET', 'hashSecret', text],
  ]

/** The option that each key of `RATELIMIT_MIDDLEWARE` stands for. */
const MIDDLEWARE_KEYS: Readonly<Record<string, keyof MiddlewareOptions>> = {
  BACKEND: 'backend',
  DEFAULT_RATE: 'defaultRate',
  RATE_LIMITS: 'rateLimits',
  ALGORITHM: 'algorithm',
  KEY: 'key',
  BLOCK: 'block',
  SKIP_PATHS: 'skipPaths',
  ALLOW_LIST: 'allowList',
  DENY_LIST: 'denyList',
}

/** The variable that an option is read from. */
export function variableOf(option: string): string {
  return VARIABLES.find(([, name]) => name === option)?.[0] ?? option
}

/** The variables that options are read from, and what they mean. */
export function environmentHelp(options: readonly (keyof RateLimitOptions)[]): [variable: string, help: string][] {
  return options.map((option) => [variableOf(option), VARIABLES.find(([, name]) => name === option)?.[3] ?? ''])
}

/** The key of `RATELIMIT_MIDDLEWARE` that an option is read from. */
export function middlewareVariableOf(option: string): string {
  const key = Object.entries(MIDDLEWARE_KEYS).find(([, name]) => name === option)?.[0]
  return key === undefined ? `middleware.${option}` : `RATELIMIT_MIDDLEWARE.${key}`
}

/** The options that environment variables give. An empty variable counts as absent. */
export function optionsFromEnvironment(environment: NodeJS.ProcessEnv): RateLimitOptions {
  const options: Record<string, unknown> = {}
  for (const [variable, option, read] of VARIABLES) {
    const value = environment[variable]?.trim()
    if (value) options[option] = read(value)
  }
  return options
}

function readMiddleware(json: string): unknown {
  let given: unknown
  try {
    given = JSON.parse(json)
  } catch {
    given = undefined
  }
  if (typeof given !== 'object' || given === null || Array.isArray(given)) {
    throw new InvalidSettingError(
      `Setting "RATELIMIT_MIDDLEWARE" is ${json.slice(0, 80)}: give a JSON object such as {"DEFAULT_RATE":"100/m"}`,
    )
  }
  return Object.fromEntries(
    Object.entries(given).map(([key, value]) => {
      const option = Object.hasOwn(MIDDLEWARE_KEYS, key) ? MIDDLEWARE_KEYS[key] : undefined
      if (option === undefined) {
        throw new InvalidSettingError(
          `Setting "RATELIMIT_MIDDLEWARE" has the key ${JSON.stringify(key)}: known are ${Object.keys(MIDDLEWARE_KEYS).join(', ')}`,
        )
      }
      return [option, value]
    }),
  )
}
