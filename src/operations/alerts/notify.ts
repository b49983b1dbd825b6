import type { Database } from '../../database/database.js'
import { errorMessage } from '../../ground/errors.js'
import type { Clock } from '../../ground/time/clock.js'
import { AlertMemory, type Claim } from './alert-memory.js'
import type { AlertSettings } from './alert-settings.js'
import { type AlertChannel, deliver, subscriptionOf } from './channel.js'
import type { Found } from './evaluate.js'

/** The outcome of one channel. */
export interface ChannelOutcome {
  /** Whether a message went out to all its recipients. */
  readonly sent: boolean
  /** The failure, for all or some recipients, without secrets; absent where nothing failed. */
  readonly error?: string
  /** The number of offenders left out because of the cool-down; absent where there were none. */
  readonly quiet?: number
  /** The number of keys reported as resolved; absent where there were none. */
  readonly resolved?: number
}

export interface AlertLog {
  error(details: object, message: string): void
}

/** The dependencies of `notifyChannel`. */
export interface NotifyDependencies {
  readonly database: Database
  readonly clock: Clock
  readonly settings: AlertSettings
  readonly log: AlertLog
}

/** The offenders that a run found, and the threshold that it applied. */
export interface AlertRun extends Found {
  readonly threshold: number
}

/** Notifies a channel. Never rejects. Resolves to undefined where there is nothing to report. */
export async function notifyChannel(
  channel: AlertChannel,
  run: AlertRun,
  dependencies: NotifyDependencies,
): Promise<ChannelOutcome | undefined> {
  const watch = subscriptionOf(channel, run.threshold, run.days)
  const claim = await createClaim(watch, run, dependencies)
  const { offenders, resolved, remaining } = claim
  if (offenders.length + resolved.length === 0) {
    return run.offenders.length === 0 ? undefined : { sent: false, quiet: run.offenders.length }
  }
  const { threshold, days } = run
  const { publicUrl } = dependencies.settings
  const message = { watch, threshold, days, offenders, resolved, remaining, publicUrl }
  const { delivered, isEmpty, error } = await deliver(channel, message)
  await claim.settle(delivered).catch((failure: unknown) => {
    const reason = errorMessage(failure)
    dependencies.log.error({ err: failure }, `Rate limit alerts: the sent alert could not be stored: ${reason}`)
  })
  if (error !== undefined)
    dependencies.log.error({ channel: channel.name }, `Rate limit alert by ${channel.name} failed: ${error}`)
  const quiet = run.offenders.length - offenders.length
  return {
    sent: delivered && !isEmpty && error === undefined,
    ...(error === undefined ? {} : { error }),
    ...(quiet > 0 ? { quiet } : {}),
    ...(delivered && !isEmpty && resolved.length > 0 ? { resolved: resolved.length } : {}),
  }
}

/** Claims the keys to report: all of them without a cool-down, or where the memory fails (better twice than never). */
async function createClaim(
  watch: string,
  run: AlertRun,
  { settings, database, clock, log }: NotifyDependencies,
): Promise<Claim> {
  const everything = {
    offenders: run.offenders,
    resolved: [],
    remaining: run.offenders.length,
    settle: async () => undefined,
  }
  const { cooldownMs, notifiesResolved } = settings
  if (cooldownMs === 0) return everything
  try {
    return await new AlertMemory({ database, clock, cooldownMs, notifiesResolved }).claim(watch, run)
  } catch (error) {
    const reason = errorMessage(error)
    log.error(
      { err: error },
      `Rate limit alerts: the cool-down is not applied, since its table cannot be used: ${reason}`,
    )
    return everything
  }
}
