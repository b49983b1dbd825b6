import type { GeoOptions } from '../../clients/geo.js'
import { NamedLists } from '../../clients/named-lists.js'
import { headerSecret, PRIVACY_SETTINGS, privacyFrom } from '../../clients/privacy-settings.js'
import { validateDatabaseUrl } from '../../database/database-url.js'
import { VALIDATORS } from '../../generated/validators.js'
import { InvalidSettingError } from '../../ground/errors.js'
import {
  ensure,
  FLAG,
  parseSettings,
  readEnvironment,
  readFlag,
  readJson,
  readList,
  readNumber,
  type SettingTable,
  validatedBy,
  validateSettings,
  withoutUndefined,
} from '../../ground/setting.js'
import { DAY_MS, SECOND_MS } from '../../ground/time/clock.js'
import { isFromRegister } from '../../ground/unknown-option.js'
import { COUNTING_SETTINGS } from '../../limiter/core/counting-settings.js'
import type { EventDetail } from '../../log/collapsing-buffer.js'
import {
  ALERT_SETTINGS,
  type AlertSettingOptions,
  parseAlertSettings,
} from '../../operations/alerts/channels/channels.js'
import { parseLists } from '../../operations/lists/list-settings.js'
import type { EventsOptions } from '../client/client.js'
import { findVariable, variableFor } from './environment.js'
import { FOREIGN_OPTIONS } from './foreign-options.js'
import { resolveMetrics } from './metrics.js'
import { readMiddleware, resolveMiddleware } from './middleware.js'
import type { RateLimitOptions } from './options.js'
import { resolveSchedule } from './schedule.js'

/** All settings, validated and with their defaults. */
export interface Settings extends ReturnType<typeof resolveSettings> {}

/**
 * Resolves the settings: the option, else the environment variable, else the default.
 *
 * @throws InvalidSettingError for the first invalid or unknown setting; it names the setting, its value and the allowed
 * values
 */
export function resolveSettings(options: RateLimitOptions, environment: NodeJS.ProcessEnv) {
  validateSettings(SETTINGS, options, (name) => name, FOREIGN_OPTIONS, isFromRegister)
  const fromEnvironment: RateLimitOptions = readEnvironment(SETTINGS, findVariable, environment)
  validateSettings(SETTINGS, fromEnvironment, variableFor)
  const inCode = withoutUndefined(options)
  const merged: RateLimitOptions = { ...fromEnvironment, ...inCode }
  const called = (name: string) => (name in inCode ? name : variableFor(name))
  const { ruleCacheTimeout, keepUsageFor, lists, listsRefresh, ...settings } = parseSettings(
    OWN_SETTINGS,
    merged,
    called,
  )
  const hashSecret = headerSecret(settings.hashHeaderKeys, settings.hashSecret)
  const privacy = privacyFrom(settings, called)
  if (settings.eventSpool !== undefined && settings.logEvents === false && !settings.usage) {
    throw new InvalidSettingError(
      `Setting "eventSpool" is ${JSON.stringify(settings.eventSpool)}, and "logEvents" is false: give logEvents: true or 'blocked', or usage such as ['tokens'], or leave out eventSpool`,
    )
  }
  const named = new NamedLists(lists.map(({ name }) => name))
  const middleware = resolveMiddleware(options.middleware ?? {}, fromEnvironment.middleware ?? {}, named)
  if (middleware.backend === 'redis' && settings.redis === undefined) {
    throw new InvalidSettingError(
      'Setting "middleware.backend" is "redis" without "redis": give that option, or RATELIMIT_REDIS_URL, such as redis://127.0.0.1:6379',
    )
  }
  const alerts = parseAlertSettings(merged, called)
  return {
    ...settings,
    ruleCacheTimeoutMs: ruleCacheTimeout * SECOND_MS,
    keepUsageForMs: keepUsageFor,
    lists: { named, sources: lists, refreshMs: listsRefresh * SECOND_MS },
    middleware,
    alerts,
    schedule: resolveSchedule(settings.schedule, alerts),
    privacy,
    /** The secret of header values; undefined where they are logged and counted as they are. */
    hashSecret,
  }
}

function resolveLogEvents(logged: boolean | 'blocked' | Partial<EventDetail>): boolean | 'blocked' | EventDetail {
  if (typeof logged !== 'object') return logged
  const { allowed = 'each', refused = 'each' } = logged
  return allowed === 'each' && refused === 'each' ? true : { allowed, refused }
}

const EVENTS = {
  database: {
    ...VALIDATORS.filledText,
    allowed: 'a URL such as postgresql://user:password@host:5432/name',
    isSecret: true,
    parse: validatedBy((database: string, called) => validateDatabaseUrl(database, called)),
  },
} as const satisfies SettingTable<EventsOptions>

const GEO = {
  country: { ...VALIDATORS.filledText, allowed: 'the path of a file, such as ./country.mmdb' },
  asn: { ...VALIDATORS.filledText, allowed: 'the path of a file, such as ./asn.mmdb' },
} as const satisfies SettingTable<GeoOptions>

/** The settings without those of alerts. */
export const OWN_SETTINGS = {
  ...COUNTING_SETTINGS,
  ...PRIVACY_SETTINGS,
  logEvents: {
    ...VALIDATORS.loggedEvents,
    default: false,
    read: (text: string) => (text.startsWith('{') ? readJson(text) : readFlag(text)),
    parse: resolveLogEvents,
  },
  useDynamicRules: { ...FLAG, default: false },
  ruleCacheTimeout: { ...VALIDATORS.cacheTimeout, default: 60, read: readNumber },
  middleware: { ...VALIDATORS.reference, read: readMiddleware },
  events: {
    ...VALIDATORS.reference,
    allowed: "an object such as { database: 'postgresql://…' }",
    isSecret: true,
    read: (text) => ({ database: text }),
    parse: resolveEvents,
  },
  geo: {
    ...VALIDATORS.reference,
    allowed: "an object such as { country: './country.mmdb', asn: './asn.mmdb' }",
    parse: resolveGeo,
  },
  hashHeaderKeys: { ...FLAG, default: false },
  user: { ...VALIDATORS.callback, allowed: 'a function of the request' },
  skip: { ...VALIDATORS.callback, allowed: 'a function of the request that answers true or false' },
  onRefused: { ...VALIDATORS.callback, allowed: 'a function of a request and its decision' },
  onNotice: { ...VALIDATORS.callback, allowed: 'a function of a client, a limit and a share' },
  hook: { ...VALIDATORS.hook, default: 'onRequest' },
  headers: { ...VALIDATORS.headerVariant, default: 'legacy' },
  // The default holds some seconds of heavy traffic in a few megabytes, at most 20.
  eventBuffer: { ...VALIDATORS.bufferLength, default: 20_000 },
  eventSpool: {
    ...VALIDATORS.filledText,
    allowed: 'a folder, such as ./ratelimit-events',
    parse: ensure(
      (folder: string) => !folder.startsWith('file:'),
      'is a URL: give a folder, such as ./ratelimit-events',
    ),
  },
  usage: { ...VALIDATORS.unitNames, read: (text: string) => (readFlag(text) === false ? false : readList(text)) },
  keepUsageFor: {
    ...VALIDATORS.daysText,
    default: '400d',
    parse: (text: string) => Number.parseInt(text, 10) * DAY_MS,
  },
  lists: {
    ...VALIDATORS.reference,
    allowed: "an object such as { partners: ['203.0.113.0/24'], tor: 'https://…' }",
    isSecret: true,
    default: {},
    parse: parseLists,
  },
  listsRefresh: { ...VALIDATORS.listsRefresh, default: 3_600 },
  metrics: { ...VALIDATORS.reference, allowed: 'an object such as { prometheus: register }', parse: resolveMetrics },
  schedule: { ...VALIDATORS.reference, allowed: 'an object such as { alerts: "*/5 * * * *" }' },
} as const satisfies SettingTable<Omit<RateLimitOptions, keyof AlertSettingOptions>>

export const SETTINGS: SettingTable<RateLimitOptions> = { ...OWN_SETTINGS, ...ALERT_SETTINGS }

/** @param called `events`, or the variable that has the URL */
function resolveEvents(options: EventsOptions, called: string): EventsOptions {
  const toName = (name: string) => (called === 'events' ? `events.${name}` : called)
  validateSettings(EVENTS, options, toName)
  return parseSettings(EVENTS, options, toName)
}

function resolveGeo(options: GeoOptions): GeoOptions {
  const toName = (name: string) => `geo.${name}`
  validateSettings(GEO, options, toName)
  const files = parseSettings(GEO, options, toName)
  if (files.country === undefined && files.asn === undefined) {
    throw new InvalidSettingError(
      "Setting \"geo\" has no file: give { country: './country.mmdb' }, { asn: './asn.mmdb' } or both, or leave geo out",
    )
  }
  return files
}
