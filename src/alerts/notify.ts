import { createHash } from 'node:crypto'
import type { Database } from '../db/database.js'
import { errorMessage } from '../errors.js'
import type { Clock } from '../time/clock.js'
import { AlertMemory, type Claim } from './alert-memory.js'
import type { AlertSettings } from './alert-settings.js'
import type { AlertChannel, Delivery } from './channel.js'
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

/** The dependencies of `tell`. */
export interface TellParts {
  readonly database: Database
  readonly clock: Clock
  readonly settings: AlertSettings
  readonly log: AlertLog
}

/** The offenders that a run found, and the threshold that it applied. */
export interface Run extends Found {
  readonly threshold: number
}

/** Notifies a channel. Never rejects. Resolves to undefined where there is nothing to report. */
export async function tell(channel: AlertChannel, run: Run, parts: TellParts): Promise<ChannelOutcome | undefined> {
  const watch = watchFor(channel, run)
  const claim = await createClaim(watch, run, parts)
  const { offenders, resolved, remaining } = claim
  if (offenders.length + resolved.length === 0) {
    return run.offenders.length === 0 ? undefined : { sent: false, quiet: run.offenders.length }
  }
  const { threshold, days } = run
  const message = { watch, threshold, days, offenders, resolved, remaining }
  const { told, isEmpty, error } = await channel
    .send(message)
    .catch((failure: unknown): Delivery => ({ told: false, error: errorMessage(failure) }))
  await claim.settle(told).catch((failure: unknown) => {
    const reason = errorMessage(failure)
    parts.log.error({ err: failure }, `Rate limit alerts: what was told could not be kept in mind: ${reason}`)
  })
  if (error !== undefined)
    parts.log.error({ channel: channel.name }, `Rate limit alert by ${channel.name} failed: ${error}`)
  const quiet = run.offenders.length - offenders.length
  return {
    sent: told && !isEmpty && error === undefined,
    ...(error === undefined ? {} : { error }),
    ...(quiet > 0 ? { quiet } : {}),
    ...(told && !isEmpty && resolved.length > 0 ? { resolved: resolved.length } : {}),
  }
}

/** Claims the keys to report: all of them without a cool-down, or where the memory fails (better twice than never). */
async function createClaim(watch: string, run: Run, { settings, database, clock, log }: TellParts): Promise<Claim> {
  const everything = {
    offenders: run.offenders,
    resolved: [],
    remaining: run.offenders.length,
    settle: async () => undefined,
  }
  const { cooldownMs, tellsResolved } = settings
  if (cooldownMs === 0) return everything
  try {
    return await new AlertMemory({ database, clock, cooldownMs, tellsResolved }).claim(watch, run)
  } catch (error) {
    const reason = errorMessage(error)
    log.error({ err: error }, `Rate limit alerts: the cool-down does not hold, its table cannot be used: ${reason}`)
    return everything
  }
}

/** Returns a hash of recipients, threshold and window, each of which has a memory of its own. It reveals no secret. */
function watchFor({ name, target }: AlertChannel, { threshold, days }: Run): string {
  return `${name}:${createHash('sha256')
    .update(JSON.stringify([target, threshold, days]))
    .digest('hex')}`
}
