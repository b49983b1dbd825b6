/** The channels that the settings name. */
import type { Clock } from '../../ground/time/clock.js'
import type { AlertSettings } from './alert-settings.js'
import { ALERT_TIMES, type AlertChannel, type AlertTimes } from './channel.js'
import { createEmailChannel } from './email.js'
import { createWebhookChannel } from './webhook.js'

export interface ChannelDependencies {
  readonly settings: AlertSettings
  readonly clock: Clock
  readonly times?: AlertTimes | undefined
}

/** The receivers of messages. */
export interface Recipients {
  readonly emails: readonly string[]
  readonly webhook: string | undefined
}

export interface Channels {
  readonly email?: AlertChannel
  readonly webhook?: AlertChannel
}

/** Creates the channels that have recipients: those of the settings unless given. */
export function createChannels(
  { settings, clock, times = ALERT_TIMES }: ChannelDependencies,
  { emails: to, webhook: url }: Recipients = settings,
): Channels {
  const { from, smtpUrl, mailer } = settings
  const { webhookFormat: format, routingKey, webhookKeys: keys, blockPrivateNetworks } = settings
  return {
    ...(to.length > 0 && { email: createEmailChannel({ to, from, smtpUrl, mailer }, times) }),
    ...(url !== undefined && {
      webhook: createWebhookChannel({ url, format, routingKey, keys, blockPrivateNetworks }, clock, times),
    }),
  }
}

/** Returns the channels as a list, in the order of reports. */
export function listChannels({ email, webhook }: Channels): AlertChannel[] {
  return [email, webhook].flatMap((channel) => channel ?? [])
}
