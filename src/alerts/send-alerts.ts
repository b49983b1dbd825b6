import { InvalidSettingError } from '../errors.js'
import type { Offender } from './offender.js'

export interface AlertOptions {
  /** How many refused requests make an offender: a whole number, 1 or more; the setting unless given. */
  readonly threshold?: number | undefined
  /** How far back to look: a number of days above 0; 1 unless given. */
  readonly days?: number | undefined
  /** Not available in this version: refused. */
  readonly emailTo?: string | readonly string[] | undefined
  /** Not available in this version: refused. */
  readonly webhookUrl?: string | undefined
}

/** What became of each channel; one that is not configured has no entry. */
export interface AlertChannels {
  readonly email?: { readonly sent: boolean; readonly to: readonly string[]; readonly error?: string }
  readonly webhook?: { readonly sent: boolean; readonly error?: string }
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

type FindOffenders = (options: { threshold: number; days: number }) => Promise<readonly Offender[]>

/**
 * One run of the alerts: finds the offenders over the threshold. Without a threshold it does nothing.
 *
 * @throws InvalidSettingError for a channel (none is built yet), and for a threshold or a window that is invalid
 */
export async function sendOffenderAlerts(
  findOffenders: FindOffenders,
  { threshold, days = 1, emailTo, webhookUrl }: AlertOptions,
): Promise<AlertResult> {
  refuseChannel('emailTo', emailTo)
  refuseChannel('webhookUrl', webhookUrl)
  if (threshold === undefined) return { enabled: false, offenders: [], channels: {} }
  return { enabled: true, threshold, days, offenders: await findOffenders({ threshold, days }), channels: {} }
}

function refuseChannel(option: string, value: unknown): void {
  if (value === undefined) return
  throw new InvalidSettingError(
    `Option "${option}" is given: alert channels are not available in this version; leave it out and use the offenders of the result`,
  )
}
