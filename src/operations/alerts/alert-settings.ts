import { VALIDATORS } from '../../generated/validators.js'
import { InvalidSettingError } from '../../ground/errors.js'
import { serverUrl } from '../../ground/readable-url.js'
import {
  ensure,
  FLAG,
  parseSettings,
  type Resolved,
  readList,
  readNumber,
  type SettingTable,
  validateSettings,
} from '../../ground/setting.js'
import { SECOND_MS } from '../../ground/time/clock.js'
import { isSender, MAIL_ADDRESS, type Mailer } from './mailer.js'
import { parsePublicUrl } from './message.js'
import { parseWebhookSecret, webhookUrl } from './webhook.js'
import type { WebhookFormat } from './webhook-format.js'

/** The settings of alerts, as options. */
export interface AlertSettingOptions {
  /** The least number of refusals that makes a key of the log an offender to alert about: a whole number, 1 or more. */
  alertThreshold?: number | undefined
  /** The recipients of alerts by email. Needs `defaultFromEmail`, and `smtpUrl` or `mailer`. */
  alertEmails?: string[] | undefined
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
  /** The sender of alerts: `alerts@example.com`, or `Rate limits <alerts@example.com>`. */
  defaultFromEmail?: string | undefined
  /** The mail server: `smtps://user:password@mail.example.com`, or `smtp://…`. */
  smtpUrl?: string | undefined
  /** A transport of nodemailer, or an object with its `sendMail`; takes precedence over `smtpUrl`, and stays open. */
  mailer?: Mailer | undefined
  /** Refuses webhooks that lead to a non-public address; `false` unless given. */
  blockPrivateNetworks?: boolean | undefined
}

export const ALERT_SETTINGS = {
  alertThreshold: {
    ...VALIDATORS.alertThreshold,
    read: readNumber,
  },
  alertEmails: {
    ...VALIDATORS.texts,
    allowed: 'a list of mail addresses',
    default: [],
    read: readList,
    parse: ensure(
      (addresses: string[]) => wrongAddress(addresses) === undefined,
      (addresses) => `has ${JSON.stringify(wrongAddress(addresses))}: give addresses such as ops@example.com`,
    ),
  },
  alertWebhook: {
    ...VALIDATORS.text,
    allowed: 'a URL of http or https',
    isSecret: true,
    parse: ensure(
      (url: string) => webhookUrl(url) !== undefined,
      'is not a valid URL: give one of http or https; percent-encode # / ? % @ in a name and a password',
    ),
  },
  alertWebhookSecret: {
    ...VALIDATORS.textOrTexts,
    allowed: 'whsec_ and base64, or a list of such secrets',
    read: readList,
    isSecret: true,
    parse: parseSecrets,
  },
  alertWebhookFormat: {
    ...VALIDATORS.webhookFormat,
    default: 'json',
  },
  alertRoutingKey: {
    ...VALIDATORS.routingKey,
    isSecret: true,
  },
  alertCooldown: {
    ...VALIDATORS.alertCooldown,
    default: 0,
    read: readNumber,
  },
  alertResolved: {
    ...FLAG,
    default: false,
  },
  publicUrl: {
    ...VALIDATORS.text,
    allowed: 'the address of the dashboard, such as https://example.com/ratelimit/dashboard/',
    parse: parseAddress,
  },
  defaultFromEmail: {
    ...VALIDATORS.text,
    allowed: 'a sender such as alerts@example.com',
    parse: ensure(isSender, (sender) => `has ${JSON.stringify(sender)}: give a sender such as alerts@example.com`),
  },
  smtpUrl: {
    ...VALIDATORS.text,
    allowed: 'a URL such as smtps://user:password@mail.example.com',
    isSecret: true,
    parse: ensure(
      isSmtpUrl,
      'is not a valid URL of a mail server: give one such as smtps://user:password@mail.example.com; percent-encode # / ? % @ in the name and the password',
    ),
  },
  mailer: {
    ...VALIDATORS.reference,
    allowed: 'a transport of nodemailer',
    isSecret: true,
    parse: ensure(hasSendMail, 'has no function "sendMail": give a transport of nodemailer'),
  },
  blockPrivateNetworks: {
    ...FLAG,
    default: false,
  },
} as const satisfies SettingTable<AlertSettingOptions>

/** The settings of alerts, validated and with their defaults. */
export type AlertSettings = ReturnType<typeof alertSettingsFrom>

/** @throws InvalidSettingError for a setting that is invalid, unknown, or lacks another setting that it needs */
export function resolveAlertSettings(options: AlertSettingOptions): AlertSettings {
  const called = (name: string) => name
  validateSettings(ALERT_SETTINGS, options, called)
  return alertSettingsFrom(parseSettings(ALERT_SETTINGS, options, called), called)
}

/**
 * @param called returns the name of a setting where it was given
 * @throws InvalidSettingError for a setting that lacks another one that it needs
 */
export function alertSettingsFrom(
  settings: Resolved<AlertSettingOptions, typeof ALERT_SETTINGS>,
  called: (name: string) => string,
) {
  const { alertWebhookFormat, alertRoutingKey, alertCooldown, alertResolved } = settings
  if (alertWebhookFormat === 'pagerduty' && alertRoutingKey === undefined) {
    throw new InvalidSettingError(
      `Setting "${called('alertWebhookFormat')}" is "pagerduty" without "alertRoutingKey": give that option, or RATELIMIT_ALERT_ROUTING_KEY`,
    )
  }
  if (alertResolved && alertCooldown === 0) {
    throw new InvalidSettingError(
      `Setting "${called('alertResolved')}" is true without "alertCooldown", which remembers the alerts that were sent: give that option, or RATELIMIT_ALERT_COOLDOWN`,
    )
  }
  return {
    threshold: settings.alertThreshold,
    emails: settings.alertEmails,
    webhook: settings.alertWebhook,
    webhookKeys: settings.alertWebhookSecret ?? [],
    webhookFormat: alertWebhookFormat,
    routingKey: alertRoutingKey,
    cooldownMs: alertCooldown * SECOND_MS,
    notifiesResolved: alertResolved,
    publicUrl: settings.publicUrl,
    from: settings.defaultFromEmail,
    smtpUrl: settings.smtpUrl,
    mailer: settings.mailer,
    blockPrivateNetworks: settings.blockPrivateNetworks,
  }
}

function wrongAddress(addresses: readonly string[]): string | undefined {
  return addresses.find((address) => !MAIL_ADDRESS.test(address))
}

function hasSendMail(mailer: Mailer): boolean {
  return typeof mailer.sendMail === 'function'
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
