/**
 * The channels of alerts, each an entry of one list. Results, settings and their environment variables, the page Alerts, checks of
 * health, commands and texts follow from it.
 */
import { VALIDATORS } from '../../../generated/validators.js'
import { InvalidSettingError } from '../../../ground/errors.js'
import { countOf, formatCount } from '../../../ground/number-text.js'
import { serverUrl } from '../../../ground/readable-url.js'
import {
  ensure,
  FLAG,
  parseSettings,
  type Resolved,
  readList,
  readNumber,
  type SettingTable,
  validateSettings,
} from '../../../ground/setting.js'
import type { Clock } from '../../../ground/time/clock.js'
import { visible } from '../../../ground/visible.js'
import type { Variable } from '../../../limiter/core/variables.js'
import { ALERT_TIMES, type AlertChannel, type AlertTimes, type ChannelOutcome } from './channel.js'
import { findEmailProblem, isSender, MAIL_ADDRESS, type Mailer, requireNodemailer } from './mailer.js'
import { parsePublicUrl } from './message.js'
import { parseWebhookSecret, webhookUrl } from './webhook.js'
import { toWebhookBody } from './webhook-body.js'
import type { WebhookFormat } from './webhook-format.js'

/** The settings of alerts, as options. */
export interface AlertSettingOptions {
  /** The least number of refusals that makes a key of the log an offender to alert about: a whole number, 1 or more. */
  alertThreshold?: number | undefined
  /** The recipients of alerts by email. Needs `defaultFromEmail`, and `smtpUrl` or `mailer`. */
  alertEmails?: string[] | undefined
  /** The sender of alerts: `alerts@example.com`, or `Rate limits <alerts@example.com>`. */
  defaultFromEmail?: string | undefined
  /** The mail server: `smtps://user:password@mail.example.com`, or `smtp://…`. */
  smtpUrl?: string | undefined
  /** A transport of nodemailer, or an object with its `sendMail`; takes precedence over `smtpUrl`, and stays open. */
  mailer?: Mailer | undefined
  /** An http or https URL that alerts are posted to. */
  alertWebhook?: string | undefined
  /** Signs posted alerts (Standard Webhooks): `whsec_` and base64; a list while a receiver rotates its secret. */
  alertWebhookSecret?: string | string[] | undefined
  /** The format of the receiver: `json` (the default), `slack`, `teams`, `discord` or `pagerduty`. */
  alertWebhookFormat?: WebhookFormat | undefined
  /** The integration key of PagerDuty, for `alertWebhookFormat: 'pagerduty'`. */
  alertRoutingKey?: string | undefined
  /** Seconds, 0 to 31536000, before a key is reported again unless its count doubles; 0 (no cool-down) unless given. */
  alertCooldown?: number | undefined
  /** Reports once that an incident is over, or that a reported key fell below the threshold. Needs `alertCooldown`. */
  alertResolved?: boolean | undefined
  /** The address of the dashboard as staff open it, `https://example.com/ratelimit/dashboard/`: alerts link to clients. */
  publicUrl?: string | undefined
  /** Refuses webhooks that lead to a non-public address; `false` unless given. */
  blockPrivateNetworks?: boolean | undefined
}

/** The outcome of each channel. A channel that is not configured, or had nothing to report, has no entry. */
export interface AlertChannels {
  readonly email?: ChannelOutcome & { readonly to: readonly string[] }
  readonly webhook?: ChannelOutcome
}

/** Each says its variable, too; undefined where none can have its value. */
type AlertSettingTable = SettingTable<AlertSettingOptions> &
  Record<keyof AlertSettingOptions, Variable | { readonly variable: undefined }>

const EMAIL_SETTINGS = {
  alertEmails: {
    ...VALIDATORS.texts,
    allowed: 'a list of mail addresses',
    default: [],
    read: readList,
    parse: ensure(
      (addresses: string[]) => wrongAddress(addresses) === undefined,
      (addresses) => `has ${JSON.stringify(wrongAddress(addresses))}: give addresses such as ops@example.com`,
    ),
    variable: 'RATELIMIT_ALERT_EMAILS',
    help: 'recipients of alerts, separated by commas',
  },
  defaultFromEmail: {
    ...VALIDATORS.text,
    allowed: 'a sender such as alerts@example.com',
    parse: ensure(isSender, (sender) => `has ${JSON.stringify(sender)}: give a sender such as alerts@example.com`),
    variable: 'DEFAULT_FROM_EMAIL',
    help: 'sender of alerts by email',
  },
  smtpUrl: {
    ...VALIDATORS.text,
    allowed: 'a URL such as smtps://user:password@mail.example.com',
    isSecret: true,
    parse: ensure(
      isSmtpUrl,
      'is not a valid URL of a mail server: give one such as smtps://user:password@mail.example.com; percent-encode # / ? % @ in the name and the password',
    ),
    variable: 'SMTP_URL',
    help: 'mail server, such as smtps://user:password@mail.example.com',
  },
  mailer: {
    ...VALIDATORS.reference,
    allowed: 'a transport of nodemailer',
    isSecret: true,
    parse: ensure(
      (mailer: Mailer) => typeof mailer.sendMail === 'function',
      'has no function "sendMail": give a transport of nodemailer',
    ),
    variable: undefined,
  },
} as const satisfies Partial<AlertSettingTable>

const WEBHOOK_SETTINGS = {
  alertWebhook: {
    ...VALIDATORS.text,
    allowed: 'a URL of http or https',
    isSecret: true,
    parse: ensure(
      (url: string) => webhookUrl(url) !== undefined,
      'is not a valid URL: give one of http or https; percent-encode # / ? % @ in a name and a password',
    ),
    variable: 'RATELIMIT_ALERT_WEBHOOK',
    help: 'URL that alerts are posted to',
  },
  alertWebhookSecret: {
    ...VALIDATORS.textOrTexts,
    allowed: 'whsec_ and base64, or a list of such secrets',
    read: readList,
    isSecret: true,
    parse: parseSecrets,
    variable: 'RATELIMIT_ALERT_WEBHOOK_SECRET',
    help: 'signs what is posted; several separated by commas',
  },
  alertWebhookFormat: {
    ...VALIDATORS.webhookFormat,
    default: 'json',
    variable: 'RATELIMIT_ALERT_WEBHOOK_FORMAT',
    help: 'json (default), slack, teams, discord or pagerduty',
  },
  alertRoutingKey: {
    ...VALIDATORS.routingKey,
    isSecret: true,
    variable: 'RATELIMIT_ALERT_ROUTING_KEY',
    help: 'integration key of PagerDuty',
  },
} as const satisfies Partial<AlertSettingTable>

/** The description of every setting, with its variable. */
export const ALERT_SETTINGS = {
  alertThreshold: {
    ...VALIDATORS.alertThreshold,
    read: readNumber,
    variable: 'RATELIMIT_ALERT_THRESHOLD',
    help: 'refused requests that make an offender',
  },
  ...EMAIL_SETTINGS,
  ...WEBHOOK_SETTINGS,
  alertCooldown: {
    ...VALIDATORS.alertCooldown,
    default: 0,
    read: readNumber,
    variable: 'RATELIMIT_ALERT_COOLDOWN',
    help: 'seconds before a key is reported again (default: 0)',
  },
  alertResolved: {
    ...FLAG,
    default: false,
    variable: 'RATELIMIT_ALERT_RESOLVED',
    help: 'true reports keys that are below the threshold again',
  },
  publicUrl: {
    ...VALIDATORS.text,
    allowed: 'the address of the dashboard, such as https://example.com/ratelimit/dashboard/',
    parse: parseAddress,
    variable: 'RATELIMIT_PUBLIC_URL',
    help: 'address of the dashboard, for the links of alerts',
  },
  blockPrivateNetworks: {
    ...FLAG,
    default: false,
    variable: 'RATELIMIT_BLOCK_PRIVATE_NETWORKS',
    help: 'true refuses webhooks into private networks',
  },
} as const satisfies AlertSettingTable

/** The settings of alerts, validated and with their defaults, each under the name of its option. */
export type AlertSettings = Resolved<AlertSettingOptions, typeof ALERT_SETTINGS>

/** A way to notify people, and what follows from it. */
interface Channel<Check extends string = string> {
  /** The name in results and logs. */
  readonly name: keyof AlertChannels
  /** The name on pages. */
  readonly title: string
  /** The option that turns it on. */
  readonly option: keyof AlertSettings
  /** The settings that it alone has, with their variables. */
  readonly settings: Partial<AlertSettingTable>
  create(settings: AlertSettings, clock: Clock, times: AlertTimes): AlertChannel
  /** Says where messages go. Addresses, paths, names and passwords are for nobody to see. */
  where(settings: AlertSettings): string
  /**
   * Validates settings that need each other.
   *
   * @param called returns the name of a setting where it was given
   */
  validate?(settings: AlertSettings, called: (name: string) => string): void
  /** Prepares the start of a server: it throws where a package that it needs is not installed. */
  prepare?(settings: AlertSettings): Promise<void>
  /** Says why nothing could be sent, without asking anybody. */
  problem?(settings: AlertSettings): string | undefined
  /** Says what a person should know who sends a test message. */
  testNote?(settings: AlertSettings): string | undefined
  /** The check of health and its probe, which sends nothing. */
  readonly probe?: { readonly check: Check; run(settings: AlertSettings): Promise<string> }
}

/** Hosts that a sentence names; the others are counted. */
const MAX_HOSTS = 3
const FORMATS: Readonly<Record<WebhookFormat, string>> = {
  json: 'JSON',
  slack: 'a message for Slack',
  teams: 'a message for Microsoft Teams',
  discord: 'a message for Discord',
  pagerduty: 'an event for PagerDuty',
}

const EMAIL: Channel<'mail'> = {
  name: 'email',
  title: 'Email',
  option: 'alertEmails',
  settings: EMAIL_SETTINGS,
  create: (settings, _clock, { emailTimeoutMs }) => ({
    name: 'email',
    target: [...settings.alertEmails].sort().join(','),
    to: settings.alertEmails,
    send: async (message) => (await import('./email.js')).sendMail(settings, message, emailTimeoutMs),
  }),
  where({ alertEmails, mailer, smtpUrl }) {
    const hosts = [...new Set(alertEmails.map((address) => visible(address.slice(address.lastIndexOf('@') + 1))))]
    const more = hosts.length - MAX_HOSTS
    const named = hosts.slice(0, MAX_HOSTS).join(', ') + (more > 0 ? ` and ${formatCount(more)} more` : '')
    const to = `${countOf(alertEmails.length, 'recipient')} at ${named}`
    if (mailer !== undefined) return `${to}, through the mailer of the app`
    return smtpUrl === undefined ? to : `${to}, through ${new URL(smtpUrl).host}`
  },
  async prepare({ mailer, smtpUrl }) {
    if (mailer === undefined && smtpUrl !== undefined) await requireNodemailer()
  },
  problem: findEmailProblem,
  probe: { check: 'mail', run: async (settings) => (await import('./email.js')).probeMail(settings) },
}

const WEBHOOK: Channel<never> = {
  name: 'webhook',
  title: 'Webhook',
  option: 'alertWebhook',
  settings: WEBHOOK_SETTINGS,
  create(settings, clock, times) {
    const { alertWebhook: url = '', alertWebhookFormat: format, alertRoutingKey } = settings
    const { alertWebhookSecret: keys, blockPrivateNetworks } = settings
    return {
      name: 'webhook',
      target: `${format} ${url}`,
      async send(message) {
        const body = toWebhookBody(message, format, alertRoutingKey)
        if (body === undefined) return { delivered: true, isEmpty: true }
        const { postJson } = await import('./post.js')
        return postJson(webhookUrl(url), body, { clock, times, blockPrivateNetworks, keys })
      },
    }
  },
  where({ alertWebhook = '', alertWebhookFormat, alertWebhookSecret = [] }) {
    const host = visible(webhookUrl(alertWebhook)?.host ?? '')
    return `${host}, as ${FORMATS[alertWebhookFormat]}, ${alertWebhookSecret.length > 0 ? 'signed' : 'not signed'}`
  },
  validate({ alertWebhookFormat, alertRoutingKey }, called) {
    if (alertWebhookFormat !== 'pagerduty' || alertRoutingKey !== undefined) return
    throw new InvalidSettingError(
      `Setting "${called('alertWebhookFormat')}" is "pagerduty" without "alertRoutingKey": give that option, or RATELIMIT_ALERT_ROUTING_KEY`,
    )
  },
  testNote: ({ alertWebhookFormat }) =>
    alertWebhookFormat === 'pagerduty'
      ? 'PagerDuty notifies whoever is on call: resolve the incident there afterwards.'
      : undefined,
}

/** All channels, in the order of reports. */
export const CHANNELS = [EMAIL, WEBHOOK] as const

/** The checks of health of channels. */
export const CHANNEL_CHECKS = CHANNELS.flatMap(({ probe }) => (probe === undefined ? [] : [probe.check]))

/** Returns the probes of the channels that the settings turn on, each with the name of its check. */
export function channelProbes(settings: AlertSettings): [check: string, probe: () => Promise<string>][] {
  return channelsOn(settings).flatMap(({ probe }) => (probe ? [[probe.check, () => probe.run(settings)]] : []))
}

/** Returns the channels that the settings turn on. */
export function channelsOn(settings: AlertSettings): Channel[] {
  return CHANNELS.filter(({ option }) => {
    const value = settings[option]
    return Array.isArray(value) ? value.length > 0 : value !== undefined
  })
}

export interface ChannelDependencies {
  readonly settings: AlertSettings
  readonly clock: Clock
  readonly times?: AlertTimes | undefined
}

/** Creates the channels that the settings turn on. */
export function createChannels({ settings, clock, times = ALERT_TIMES }: ChannelDependencies): AlertChannel[] {
  return channelsOn(settings).map((channel) => channel.create(settings, clock, times))
}

/** The options that turn a channel on. */
export const CHANNEL_SWITCHES = CHANNELS.map(({ option }) => option)

/** @throws InvalidSettingError for a setting that is invalid, unknown, or lacks another setting that it needs */
export function resolveAlertSettings(options: AlertSettingOptions): AlertSettings {
  const called = (name: string) => name
  validateSettings(ALERT_SETTINGS, options, called)
  return parseAlertSettings(options, called)
}

/**
 * Parses settings that `validateSettings` accepts.
 *
 * @param called returns the name of a setting where it was given
 * @throws InvalidSettingError for a setting that is invalid, or lacks another one that it needs
 */
export function parseAlertSettings(options: AlertSettingOptions, called: (name: string) => string): AlertSettings {
  const settings: AlertSettings = parseSettings(ALERT_SETTINGS, options, called)
  const channels: readonly Channel[] = CHANNELS
  for (const channel of channels) channel.validate?.(settings, called)
  if (settings.alertResolved && settings.alertCooldown === 0) {
    throw new InvalidSettingError(
      `Setting "${called('alertResolved')}" is true without "alertCooldown", which remembers the alerts that were sent: give that option, or RATELIMIT_ALERT_COOLDOWN`,
    )
  }
  return settings
}

function wrongAddress(addresses: readonly string[]): string | undefined {
  return addresses.find((address) => !MAIL_ADDRESS.test(address))
}

function isSmtpUrl(text: string): boolean {
  const url = serverUrl(text)
  return (url?.protocol === 'smtp:' || url?.protocol === 'smtps:') && url.hostname !== ''
}

function parseAddress(text: string, called: string): string {
  const address = parsePublicUrl(text)
  if (address !== undefined) return address
  throw new InvalidSettingError(
    `Setting "${called}" is not a valid address of a dashboard: give one such as https://example.com/ratelimit/dashboard/, without a query`,
  )
}

function parseSecrets(secrets: string | string[], called: string): Buffer[] {
  return [secrets].flat().map((secret) => {
    const key = parseWebhookSecret(secret)
    if (key !== undefined) return key
    throw new InvalidSettingError(
      `Setting "${called}" is not a valid secret of Standard Webhooks: give whsec_ and what "openssl rand -base64 32" prints`,
    )
  })
}
