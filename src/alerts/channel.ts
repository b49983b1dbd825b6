import type { AlertMessage } from './message.js'

/** What became of one message. */
export interface Delivery {
  /** Whether anybody has it: then it is not sent again within the cool-down. */
  readonly told: boolean
  /** There was nothing to say in the channel's format, which is as good as told. */
  readonly isEmpty?: boolean
  /** What did not work, without secrets such as a webhook's URL. */
  readonly error?: string
}

/** A way to tell people. */
export interface AlertChannel {
  readonly name: 'email' | 'webhook'
  /** Whom it tells, for the memory; of any length, and never shown. */
  readonly target: string
  /** Takes no longer than a time of its own. A rejection is a failure like one that is answered. */
  send(message: AlertMessage): Promise<Delivery>
}

/** How long outside systems are waited for, in milliseconds. */
export interface AlertTimes {
  readonly webhookTimeoutMs: number
  readonly webhookRetryMs: number
  readonly emailTimeoutMs: number
}

export const ALERT_TIMES: AlertTimes = {
  webhookTimeoutMs: 5_000,
  // A receiver that restarts is back by then, and a run is not held up.
  webhookRetryMs: 500,
  // Mail servers keep strangers waiting on purpose.
  emailTimeoutMs: 30_000,
}
