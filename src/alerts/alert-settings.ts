import { SECOND_MS } from '../clock.js'
import { InvalidSettingError } from '../errors.js'
import { Type } from '../generated/typebox.js'
import { readableUrl } from '../readable-url.js'
import { checkFields, Flag, withoutUndefined } from '../settings-check.js'
import { isSender, MAIL_ADDRESS } from './mail-address.js'
import type { Mailer } from './mailer.js'
import { webhookUrl } from './webhook.js'
import { WEBHOOK_FORMATS, type WebhookFormat } from './webhook-format.js'
import { keyOf } from './webhook-signature.js'

/** The settings of alerts, as options. */
export interface AlertSettingOptions {
  /** The least number of refusals that makes a client an offender to alert about: a whole number, 1 or more. */
  alertThreshold?: number | undefined
  /** Who is told by email. Needs `defaultFromEmail`, and `smtpUrl` or `mailer`. */
  alertEmails?: string[] | undefined
  /** An http or https URL that alerts are posted to. */
  alertWebhook?: string | undefined
  /** Signs what is posted (Standard Webhooks): `whsec_` and base64; several while a receiver changes from one to the next. */
  alertWebhookSecret?: string | string[] | undefined
  /** What the receiver understands: `json` (the default), `slack`, `teams`, `discord` or `pagerduty`. */
  alertWebhookFormat?: WebhookFormat | undefined
  /** The integration key of PagerDuty, for `alertWebhookFormat: 'pagerduty'`. */
  alertRoutingKey?: string | undefined
  /** Seconds, 0 to 31536000, for which a key is not told again unless its count has doubled; 0, no such time, unless given. */
  alertCooldown?: number | undefined
  /** Whether it is told, once, when a key that was told fell below the threshold. Needs `alertCooldown`. */
  alertResolved?: boolean | undefined
  /** The sender of alerts: `alerts@example.com`, or `Rate limits <alerts@example.com>`. */
  defaultFromEmail?: string | undefined
  /** The mail server: `smtps://user:password@mail.example.com`, or `smtp://…`. */
  smtpUrl?: string | undefined
  /** A transport of nodemailer, or what has its `sendMail`; goes before `smtpUrl`, and stays open. */
  mailer?: Mailer | undefined
  /** Refuses webhooks that lead to an address which is not one of the internet; `false` unless given. */
  blockPrivateNetworks?: boolean | undefined
}

/** What values are allowed, and how that is said. */
export const ALERT_FIELDS = {
  alertThreshold: [Type.Integer({ minimum: 1 }), 'an integer, 1 or more (leave it out to turn alerts off)'],
  alertEmails: [Type.Array(Type.String()), 'a list of mail addresses'],
  alertWebhook: [Type.String(), 'a URL of http or https'],
  alertWebhookSecret: [
    Type.Union([Type.String(), Type.Array(Type.String(), { minItems: 1 })]),
    'whsec_ and base64, or a list of such secrets',
  ],
  alertWebhookFormat: [Type.Enum([...WEBHOOK_FORMATS]), WEBHOOK_FORMATS.join(', ')],
  alertRoutingKey: [Type.String({ pattern: '^[A-Za-z0-9_-]{16,64}$' }), 'the integration key of PagerDuty'],
  alertCooldown: [Type.Number({ minimum: 0, maximum: 31_536_000 }), 'seconds, 0 to 31536000'],
  alertResolved: [Flag, 'true or false'],
  defaultFromEmail: [Type.String(), 'a sender such as alerts@example.com'],
  smtpUrl: [Type.String(), 'a URL such as smtps://user:password@mail.example.com'],
  mailer: [Type.Object({}), 'a transport of nodemailer'],
  blockPrivateNetworks: [Flag, 'true or false'],
} as const

/** The settings of alerts, checked and with their defaults. */
export type AlertSettings = ReturnType<typeof resolveAlertSettings>

/**
 * @param called what a setting is called where it was given
 * @throws InvalidSettingError for what is wrong, unknown, or cannot be without another setting
 */
export function resolveAlertSettings(options: AlertSettingOptions, called = (name: string) => name) {
  const given: AlertSettingOptions = withoutUndefined(options)
  checkFields(given, ALERT_FIELDS, called)
  for (const address of given.alertEmails ?? []) {
    if (!MAIL_ADDRESS.test(address)) throw wrong(called('alertEmails'), address, 'addresses such as ops@example.com')
  }
  if (given.defaultFromEmail !== undefined && !isSender(given.defaultFromEmail)) {
    throw wrong(called('defaultFromEmail'), given.defaultFromEmail, 'a sender such as alerts@example.com')
  }
  if (given.alertWebhook !== undefined && webhookUrl(given.alertWebhook) === undefined) {
    throw new InvalidSettingError(
      `Setting "${called('alertWebhook')}" is no URL: give one of http or https; percent-encode # / ? % @ in a name and a password`,
    )
  }
  if (given.smtpUrl !== undefined && !isSmtpUrl(given.smtpUrl)) {
    throw new InvalidSettingError(
      `Setting "${called('smtpUrl')}" is no URL of a mail server: give one such as smtps://user:password@mail.example.com; percent-encode # / ? % @ in the name and the password`,
    )
  }
  if (given.mailer !== undefined && typeof given.mailer.sendMail !== 'function') {
    throw new InvalidSettingError('Setting "mailer" has no function "sendMail": give a transport of nodemailer')
  }
  if (given.alertWebhookFormat === 'pagerduty' && given.alertRoutingKey === undefined) {
    throw new InvalidSettingError(
      `Setting "${called('alertWebhookFormat')}" is "pagerduty" without "alertRoutingKey": give that option, or RATELIMIT_ALERT_ROUTING_KEY`,
    )
  }
  if (given.alertResolved === true && !((given.alertCooldown ?? 0) > 0)) {
    throw new InvalidSettingError(
      `Setting "${called('alertResolved')}" is true without "alertCooldown", which remembers what was told: give that option, or RATELIMIT_ALERT_COOLDOWN`,
    )
  }
  return {
    threshold: given.alertThreshold,
    emails: given.alertEmails ?? [],
    webhook: given.alertWebhook,
    webhookKeys: [given.alertWebhookSecret ?? []]
      .flat()
      .map((secret) => checkedKey(called('alertWebhookSecret'), secret)),
    webhookFormat: given.alertWebhookFormat ?? 'json',
    routingKey: given.alertRoutingKey,
    cooldownMs: (given.alertCooldown ?? 0) * SECOND_MS,
    tellsResolved: given.alertResolved ?? false,
    from: given.defaultFromEmail,
    smtpUrl: given.smtpUrl,
    mailer: given.mailer,
    blockPrivateNetworks: given.blockPrivateNetworks ?? false,
  }
}

function isSmtpUrl(text: string): boolean {
  const url = readableUrl(text)
  return (url?.protocol === 'smtp:' || url?.protocol === 'smtps:') && url.hostname !== ''
}

function checkedKey(setting: string, secret: string): Buffer {
  const key = keyOf(secret)
  if (key !== undefined) return key
  throw new InvalidSettingError(
    `Setting "${setting}" is no secret of Standard Webhooks: give whsec_ and what "openssl rand -base64 32" prints`,
  )
}

function wrong(setting: string, value: string, allowed: string): Error {
  return new InvalidSettingError(`Setting "${setting}" has ${JSON.stringify(value)}: give ${allowed}`)
}
