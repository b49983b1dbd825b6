import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { PACKAGE_ROOT } from '../../src/ground/package-root.js'
import type { AnySetting } from '../../src/ground/setting.js'
import { systemClock } from '../../src/ground/time/clock.js'
import { CLIENT_LIMIT } from '../../src/limiter/core/client-limit.js'
import { CONSOLE, LIMITER_SETTINGS } from '../../src/limiter/core/limiter-settings.js'
import { ALERT_SETTINGS } from '../../src/operations/alerts/channels/channels.js'
import { findVariable } from '../../src/plugin/settings/environment.js'
import { TARGETS } from '../../src/plugin/settings/metrics.js'
import { MIDDLEWARE } from '../../src/plugin/settings/middleware.js'
import { OWN_SETTINGS } from '../../src/plugin/settings/resolve.js'
import { ROUTE_LIMIT } from '../../src/plugin/settings/route-limit.js'
import { SCHEDULE } from '../../src/plugin/settings/schedule.js'
import { code, page, prose, table } from './markdown.js'

const PROPERTY = /^ {2}(?:\/\*\*(?<doc>(?:(?!\*\/)[\s\S])*)\*\/\s*)?(?:readonly )?(?<name>\w+)\??:/gm

interface Section {
  readonly title: string
  readonly about: string
  readonly settings: Readonly<Record<string, AnySetting>>
  readonly docs: ReadonlyMap<string, string>
  /** Whether the settings are options of the plugin, which the environment may have. */
  readonly hasVariables?: boolean
  /** The settings that come first, most needed ones first; the others follow in the order of their table. */
  readonly first?: readonly string[]
}

const COUNTING_DOCS = [
  ...readDocstrings('src/limiter/core/counting-options.ts', 'CountingOptions'),
  ...readDocstrings('src/clients/privacy-settings.ts', 'PrivacySettingOptions'),
]

const OPTION_DOCS = new Map([...COUNTING_DOCS, ...readDocstrings('src/plugin/settings/options.ts', 'RateLimitOptions')])

/** The options of the plugin that most apps set, most needed ones first. */
const COMMON_OPTIONS: readonly string[] = [
  'middleware',
  'useDynamicRules',
  'logEvents',
  'database',
  'redis',
  'user',
  'skip',
  'onRefused',
  'headers',
  'hashSecret',
  'schedule',
  'metrics',
]

const isCommon = ([name]: readonly [string, AnySetting]) => COMMON_OPTIONS.includes(name)

const SECTIONS: readonly Section[] = [
  {
    title: 'Options that most apps set',
    about: 'Options of `rateLimitPlugin`.',
    settings: Object.fromEntries(Object.entries<AnySetting>(OWN_SETTINGS).filter(isCommon)),
    hasVariables: true,
    first: COMMON_OPTIONS,
    docs: OPTION_DOCS,
  },
  {
    title: '`middleware`',
    about:
      'The limit of requests that no rule matches. `RATELIMIT_MIDDLEWARE` is JSON with the names in capitals: `{"DEFAULT_RATE": "100/m", "RATE_LIMITS": {"/auth/": "5/m"}}`.',
    settings: MIDDLEWARE,
    first: ['defaultRate', 'key', 'rateLimits', 'backend', 'skipPaths'],
    docs: readDocstrings('src/plugin/settings/options.ts', 'MiddlewareOptions'),
  },
  {
    title: 'Limits of routes',
    about: 'Options of `app.smartRateLimit.limit()` and of `config: { smartRateLimit: … }`. `rate` is required.',
    settings: ROUTE_LIMIT,
    docs: readDocstrings('src/http/routes/route-limit.ts', 'RouteLimitOptions'),
  },
  {
    title: 'Further options',
    about: 'Options of `rateLimitPlugin`, too.',
    settings: Object.fromEntries(Object.entries<AnySetting>(OWN_SETTINGS).filter((setting) => !isCommon(setting))),
    hasVariables: true,
    docs: OPTION_DOCS,
  },
  {
    title: 'Alerts',
    about: 'Options of `rateLimitPlugin`; the command `ratelimit alerts` reads the variables.',
    settings: ALERT_SETTINGS,
    hasVariables: true,
    docs: readDocstrings('src/operations/alerts/channels/channels.ts', 'AlertSettingOptions'),
  },
  {
    title: '`schedule`',
    about: 'The jobs that this process runs, in its own time zone.',
    settings: SCHEDULE,
    docs: readDocstrings('src/operations/schedule/schedule-options.ts', 'ScheduleOptions'),
  },
  {
    title: '`metrics`',
    about: 'The targets of the [metrics](./metrics.md), at least one.',
    settings: TARGETS,
    docs: readDocstrings('src/operations/metrics/targets.ts', 'MetricsOptions'),
  },
  {
    title: 'Options of `createLimiter`',
    about:
      'Of `fastify-smart-ratelimit/limiter`, for [queues, workers](../guides/queues-and-workers.md) and [sockets](../guides/sockets-and-streams.md). One of `redis`, `database` and `store` may be given. Without them the counters are where `BACKEND` of `RATELIMIT_MIDDLEWARE` says, else in the Redis or the database of the variables, else in memory. `LEASE` of that variable is read too.',
    settings: LIMITER_SETTINGS,
    hasVariables: true,
    docs: new Map([...COUNTING_DOCS, ...readDocstrings('src/limiter/core/limiter-settings.ts', 'RateLimiterOptions')]),
  },
  {
    title: 'Limits of `createLimiter`',
    about: 'Options of its `limit()`. `name` and `rate` are required.',
    settings: CLIENT_LIMIT,
    docs: readDocstrings('src/limiter/core/client-limit.ts', 'ClientLimitOptions'),
  },
]

function shownDefault(setting: AnySetting): string {
  if (setting.default === undefined) return ''
  if (setting.default === systemClock) return 'the system clock'
  return setting.default === CONSOLE ? 'the console' : code(JSON.stringify(setting.default))
}

function toMeaning(name: string, docs: ReadonlyMap<string, string>): string {
  const meaning = docs.get(name)
  if (!meaning) throw new Error(`The setting ${name} has no docstring`)
  return meaning
}

/** Returns the meaning, what messages do, and the variable of a setting. */
function describeMeaning(name: string, { isSecret }: AnySetting, { docs, hasVariables = false }: Section): string {
  const variable = hasVariables ? findVariable(name) : undefined
  const meaning = `${prose(toMeaning(name, docs))}${isSecret ? ' No message shows its value.' : ''}`
  return variable === undefined ? meaning : `${meaning}<br>${code(variable)}`
}

function describe(section: Section): string[] {
  const { title, about, settings, first = [] } = section
  const names = [...new Set([...first, ...Object.keys(settings)])]
  const rows = names.map((name) => {
    const setting = settings[name]
    if (setting === undefined) throw new Error(`${title} has no setting ${name}`)
    return [code(name), describeMeaning(name, setting, section), prose(setting.allowed), shownDefault(setting)]
  })
  return [`## ${title}`, about, table(['Option', 'Meaning', 'Values', 'Default'], rows)]
}

/** Describes every setting: its name, variable, values and default from the tables, its meaning from the types. */
export function settingsPage(): string {
  return page('Settings', 'the tables of settings', [
    'Below the meaning of an option is its environment variable, if it has one. Where an option is absent its variable is used, then the default. An empty variable counts as absent. A wrong or unknown value is an error when the plugin is registered: the message names the setting, its value and the allowed values.',
    ...SECTIONS.flatMap(describe),
  ])
}

/**
 * Reads what the properties of an interface say about themselves.
 *
 * @param file path from the root of the package
 * @throws Error for a property without a docstring
 */
function readDocstrings(file: string, name: string): ReadonlyMap<string, string> {
  const source = readFileSync(join(PACKAGE_ROOT, file), 'utf8')
  const body = new RegExp(`^export interface ${name}\\b[^{]*\\{(?<body>[\\s\\S]*?)^\\}`, 'm').exec(source)?.groups?.body
  if (body === undefined) throw new Error(`${file} has no interface ${name}`)
  const texts = [...body.matchAll(PROPERTY)].map(({ groups }): [string, string] => {
    const { name: property = '', doc } = groups ?? {}
    if (doc === undefined) throw new Error(`${file}: ${name}.${property} has no docstring`)
    return [
      property,
      doc
        .replace(/^\s*\*\s?/gm, '')
        .trim()
        .replace(/\s+/g, ' '),
    ]
  })
  return new Map(texts)
}
