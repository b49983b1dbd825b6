import type { Offender } from '../../reports/ranking.js'
import { recordRuns } from './alert-runs.js'
import type { AlertChannel, AlertTimes } from './channel.js'
import { createChannels, listChannels } from './channels.js'
import { type AlertRun, type ChannelOutcome, type NotifyDependencies, notifyChannel } from './notify.js'

/** The most offenders that one run reads. A longer list would not help a reader. */
export const MAX_ALERTED = 10_000

export interface AlertOptions {
  /** The number of refused requests that makes an offender: a whole number, 1 or more; the setting unless given. */
  readonly threshold?: number | undefined
  /** The length of the window: a number of days above 0; 1 unless given. */
  readonly days?: number | undefined
  /** The recipients by email, instead of the setting; an empty list sends no mail. */
  readonly emailTo?: string | readonly string[] | undefined
  /** The URL to post to, instead of the setting. */
  readonly webhookUrl?: string | undefined
}

/** The outcome of each channel. A channel that is not configured, or had nothing to report, has no entry. */
export interface AlertChannels {
  readonly email?: ChannelOutcome & { readonly to: readonly string[] }
  readonly webhook?: ChannelOutcome
}

export type AlertResult =
  | { readonly enabled: false; readonly offenders: readonly []; readonly channels: AlertChannels }
  | {
      readonly enabled: true
      readonly threshold: number
      readonly days: number
      readonly offenders: readonly Offender[]
      readonly channels: AlertChannels
    }

interface AlertDependencies extends NotifyDependencies {
  readonly findOffenders: (options: { threshold: number; days: number; limit: number }) => Promise<readonly Offender[]>
  readonly times?: AlertTimes | undefined
}

/**
 * Runs the alerts once: finds the offenders over the threshold, and notifies every channel that is configured. Without
 * a threshold it does nothing. A channel that fails is logged and reported in the result; the others still run.
 *
 * @throws InvalidSettingError for an invalid threshold or window, and the error of a database that cannot be read
 */
export async function sendOffenderAlerts(
  dependencies: AlertDependencies,
  { threshold = dependencies.settings.threshold, days = 1, emailTo, webhookUrl }: AlertOptions,
): Promise<AlertResult> {
  if (threshold === undefined) return { enabled: false, offenders: [], channels: {} }
  const offenders = await dependencies.findOffenders({ threshold, days, limit: MAX_ALERTED })
  const run: AlertRun = { threshold, days, offenders, isComplete: offenders.length < MAX_ALERTED }
  const { settings } = dependencies
  const recipients = emailTo === undefined ? settings.emails : [emailTo].flat()
  const channels = createChannels(dependencies, { emails: recipients, webhook: webhookUrl ?? settings.webhook })
  const outcomes = new Map<AlertChannel, ChannelOutcome | undefined>()
  await Promise.all(
    listChannels(channels).map(async (channel) => {
      outcomes.set(channel, await notifyChannel(channel, run, dependencies))
    }),
  )
  await recordRuns(dependencies, 'offenders', toRuns(outcomes, offenders.length))
  const email = channels.email && outcomes.get(channels.email)
  const webhook = channels.webhook && outcomes.get(channels.webhook)
  return {
    enabled: true,
    threshold,
    days,
    offenders,
    channels: {
      ...(email === undefined ? {} : { email: { ...email, to: recipients } }),
      ...(webhook === undefined ? {} : { webhook }),
    },
  }
}

function toRuns(outcomes: ReadonlyMap<AlertChannel, ChannelOutcome | undefined>, found: number) {
  return Array.from(outcomes, ([channel, { sent = false, quiet = 0, resolved = 0, error } = {}]) => ({
    channel,
    told: sent ? found - quiet + resolved : 0,
    error,
  }))
}
