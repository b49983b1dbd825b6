import { createHash } from 'node:crypto'
import { errorMessage } from '../../../ground/errors.js'
import type { Message } from './message.js'

/** The outcome of sending one message. */
export interface Delivery {
  /** Whether any recipient has the message: it is then not sent again within the cool-down. */
  readonly delivered: boolean
  /** The channel's format has no text for this message, which counts as delivered. */
  readonly isEmpty?: boolean
  /** The failure, without secrets such as a webhook's URL. */
  readonly error?: string
}

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

/** A way to notify people. */
export interface AlertChannel {
  readonly name: string
  /** The recipients, for the ledger; of any length, and never shown. */
  readonly target: string
  /** The recipients, where results name them. */
  readonly to?: readonly string[]
  /** Ends within a time limit of its own. A rejection counts like a delivery with an `error`. */
  send(message: Message): Promise<Delivery>
}

/**
 * Returns the identity of a channel's recipients, which reveals no secret.
 *
 * @param scope what else makes a subscription of its own, such as a threshold
 */
export function subscriptionOf({ name, target }: AlertChannel, ...scope: number[]): string {
  const hash = createHash('sha256').update(JSON.stringify([target, ...scope]))
  return `${name}:${hash.digest('hex')}`
}

/** Time limits for external systems, in milliseconds. */
export interface AlertTimes {
  readonly webhookTimeoutMs: number
  readonly webhookRetryMs: number
  readonly emailTimeoutMs: number
}

export const ALERT_TIMES: AlertTimes = {
  webhookTimeoutMs: 5_000,
  // The wait is long enough for a receiver that restarts, and short enough not to hold up a run.
  webhookRetryMs: 500,
  // Mail servers delay unknown senders on purpose.
  emailTimeoutMs: 30_000,
}

/** Sends a message. A failure of any kind is an outcome. */
export async function deliver(channel: AlertChannel, message: Message): Promise<Delivery> {
  try {
    return await channel.send(message)
  } catch (error) {
    return { delivered: false, error: errorMessage(error) }
  }
}

/**
 * Waits for work of an external system, within a time limit.
 *
 * @param who the subject of the error's message
 */
export async function inTime<T>(work: Promise<T>, timeoutMs: number, who: string): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`${who} did not answer within ${timeoutMs / 1_000} s`)), timeoutMs)
  })
  try {
    return await Promise.race([work, late])
  } finally {
    clearTimeout(timer)
  }
}
