/** The alerts about keys of the log that were refused often. */
import { errorMessage } from '../../ground/errors.js'
import { DAY_MS, SECOND_MS } from '../../ground/time/clock.js'
import type { Offender } from '../../reports/ranking.js'
import { type AlertChannel, type ChannelOutcome, subscriptionOf } from './channels/channel.js'
import {
  type AlertChannels,
  type AlertSettings,
  type ChannelDependencies,
  createChannels,
} from './channels/channels.js'
import { type Entry, type Finding, Ledger } from './ledger.js'
import { createOffenderMessage } from './offender-message.js'
import { type Sender, type TellDependencies, tellChannels } from './sender.js'

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

export type AlertResult =
  | { readonly enabled: false; readonly offenders: readonly []; readonly channels: AlertChannels }
  | {
      readonly enabled: true
      readonly threshold: number
      readonly days: number
      readonly offenders: readonly Offender[]
      readonly channels: AlertChannels
    }

interface OffenderDependencies extends ChannelDependencies, TellDependencies {
  readonly findOffenders: (options: { threshold: number; days: number; limit: number }) => Promise<readonly Offender[]>
}

/**
 * Runs the alerts once: finds the offenders over the threshold, and notifies every channel that is configured. Without
 * a threshold it does nothing. A channel that fails is logged and reported in the result; the others still run.
 *
 * @throws InvalidSettingError for an invalid threshold or window, and the error of a database that cannot be read
 */
export async function sendOffenderAlerts(
  dependencies: OffenderDependencies,
  { threshold = dependencies.settings.alertThreshold, days = 1, emailTo, webhookUrl }: AlertOptions,
): Promise<AlertResult> {
  if (threshold === undefined) return { enabled: false, offenders: [], channels: {} }
  const offenders = await dependencies.findOffenders({ threshold, days, limit: MAX_ALERTED })
  const { alertEmails, alertWebhook } = dependencies.settings
  const settings = {
    ...dependencies.settings,
    alertEmails: emailTo === undefined ? alertEmails : [emailTo].flat(),
    alertWebhook: webhookUrl ?? alertWebhook,
  }
  const run = { threshold, days, offenders, isComplete: offenders.length < MAX_ALERTED }
  const outcomes = new Map<AlertChannel, ChannelOutcome>()
  const senders = await tellChannels(
    dependencies,
    'offenders',
    createChannels({ ...dependencies, settings }),
    async (sender) => {
      const outcome = await tellOffenders(sender, run, dependencies)
      if (outcome !== undefined) outcomes.set(sender.channel, outcome)
    },
  )
  const entries = senders.flatMap(({ channel, error }) => {
    const outcome = outcomes.get(channel) ?? (error === undefined ? undefined : { sent: false, error })
    return outcome === undefined ? [] : [[channel.name, { ...outcome, ...(channel.to && { to: channel.to }) }]]
  })
  return { enabled: true, threshold, days, offenders, channels: Object.fromEntries(entries) }
}

/** The offenders that a run found, and how it found them. */
interface OffenderRun {
  readonly threshold: number
  readonly days: number
  readonly offenders: readonly Offender[]
  /** Whether the list is complete: a key that is missing is then resolved. */
  readonly isComplete: boolean
}

/** Sends what is due to one channel. Resolves to undefined where there is nothing to report. */
async function tellOffenders(
  sender: Sender,
  run: OffenderRun,
  dependencies: OffenderDependencies,
): Promise<ChannelOutcome | undefined> {
  const { settings, clock } = dependencies
  const watch = subscriptionOf(sender.channel, run.threshold, run.days)
  const { ledger, entries } = await openLedger(watch, run, dependencies)
  const { due, resolved, remaining } = evaluate(entries, run, settings, clock.now())
  const sent = await sender.send(
    [
      ...due.map(({ key, blocked_count: count }): Finding => ({ key, news: 'found', count })),
      ...resolved.map((key): Finding => ({ key, news: 'over' })),
    ],
    (claimed) =>
      createOffenderMessage({ ...run, ...toReported(claimed), watch, remaining, publicUrl: settings.publicUrl }),
    ledger,
  )
  if (sent === undefined) return run.offenders.length === 0 ? undefined : { sent: false, quiet: run.offenders.length }
  const { delivered, isEmpty = false, error, findings } = sent
  const told = toReported(findings)
  const quiet = run.offenders.length - told.offenders.length
  return {
    sent: delivered && !isEmpty && error === undefined,
    ...(error !== undefined && { error }),
    ...(quiet > 0 && { quiet }),
    ...(delivered && !isEmpty && told.resolved.length > 0 && { resolved: told.resolved.length }),
  }
}

/** Opens the ledger: none without a cool-down, or where it fails (better twice than never). */
async function openLedger(
  watch: string,
  { days }: OffenderRun,
  { settings, database, clock, log }: OffenderDependencies,
): Promise<{ readonly ledger?: Ledger; readonly entries: ReadonlyMap<string, Entry> }> {
  const cooldownMs = settings.alertCooldown * SECOND_MS
  if (cooldownMs === 0) return { entries: new Map() }
  // An entry expires after the cool-down, and after the window in which the key was blocked.
  const ledger = new Ledger(database, clock, watch, Math.max(cooldownMs, days * DAY_MS) + DAY_MS)
  try {
    return { ledger, entries: await ledger.read() }
  } catch (error) {
    const reason = errorMessage(error)
    log.error(
      { err: error },
      `Rate limit alerts: the cool-down is not applied, since its table cannot be used: ${reason}`,
    )
    return { entries: new Map() }
  }
}

function toReported(findings: readonly Finding[]) {
  return {
    offenders: findings.flatMap(({ key, count }) => (count === undefined ? [] : { key, blocked_count: count })),
    resolved: findings.flatMap(({ key, news }) => (news === 'over' ? key : [])).sort(),
  }
}

/** The keys that a run has to report, unless another run does. */
interface Evaluation {
  readonly due: readonly Offender[]
  readonly resolved: readonly string[]
  /** The number of keys that were reported, now or before, and are not resolved. */
  readonly remaining: number
}

/** Decides which keys to report, by the reports of earlier runs. */
export function evaluate(
  entries: ReadonlyMap<string, Entry>,
  { offenders, isComplete }: Pick<OffenderRun, 'offenders' | 'isComplete'>,
  { alertCooldown, alertResolved }: Pick<AlertSettings, 'alertCooldown' | 'alertResolved'>,
  nowMs: number,
): Evaluation {
  const over = new Set(offenders.map(({ key }) => key))
  const due = offenders.filter(({ key, blocked_count }) => {
    const { notifiedMs = null, count = 0 } = entries.get(key) ?? {}
    if (notifiedMs === null || blocked_count >= 2 * count) return true
    // A clock that was set back does not extend the cool-down.
    return Math.abs(nowMs - notifiedMs) >= alertCooldown * SECOND_MS
  })
  const active = [...entries.values()].flatMap(({ key, notifiedMs, resolvedMs }) =>
    notifiedMs !== null && resolvedMs === null ? key : [],
  )
  const resolved = alertResolved && isComplete ? active.filter((key) => !over.has(key)) : []
  const remaining = new Set([...active, ...due.map(({ key }) => key)]).size - resolved.length
  return { due, resolved, remaining }
}
