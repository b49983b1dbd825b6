/** Tells channels of findings: it claims what is to be told, sends the message, and settles. */
import type { Database } from '../../database/database.js'
import { errorMessage } from '../../ground/errors.js'
import type { Clock } from '../../ground/time/clock.js'
import { type AlertKind, recordRuns } from './alert-runs.js'
import { type AlertChannel, type AlertLog, type Delivery, deliver } from './channels/channel.js'
import type { Message } from './channels/message.js'
import type { Finding, Ledger } from './ledger.js'

/** The most messages of a channel in one run: more help nobody. The next run tells of the others. */
export const MAX_TOLD = 20
/** A channel that is away must not hold up the run, and one message that is refused not the others. */
const MAX_FAILED = 3

/** What a message told, and what came of it. */
interface Sent<Found extends Finding> extends Delivery {
  /** Without those that another run tells of. */
  readonly findings: readonly Found[]
}

/** Sends the messages of one run through one channel. */
export class Sender {
  readonly channel: AlertChannel
  readonly #log: AlertLog
  readonly #signal: AbortSignal | undefined
  #sent = 0
  #failed = 0
  /** The number of findings that were told. */
  told = 0
  /** The reason why the first message failed, without secrets; undefined where none did. */
  error: string | undefined

  /** @param signal ends the run before the next message */
  constructor(channel: AlertChannel, log: AlertLog, signal?: AbortSignal) {
    this.channel = channel
    this.#log = log
    this.#signal = signal
  }

  /** Whether no further message is to be sent in this run. */
  get hasEnded(): boolean {
    return this.isFull || this.#failed === MAX_FAILED || this.#signal?.aborted === true
  }

  /** Whether it has ended since it has sent all that a run may. */
  get isFull(): boolean {
    return this.#sent === MAX_TOLD
  }

  /**
   * Sends one message about those of the findings that no other run has told, or is about to tell.
   *
   * @param ledger undefined where nothing is remembered: all findings are told
   * @returns undefined where there is nothing to tell
   */
  async send<Found extends Finding>(
    findings: readonly Found[],
    toMessage: (claimed: readonly Found[]) => Message,
    ledger: Ledger | undefined,
  ): Promise<Sent<Found> | undefined> {
    const claim = await ledger?.claim(findings)
    const claimed = claim?.findings ?? findings
    if (claimed.length === 0) return undefined
    const delivery = await deliver(this.channel, toMessage(claimed))
    await claim?.settle(delivery.delivered).catch((failure: unknown) => {
      const reason = errorMessage(failure)
      this.#log.error({ err: failure }, `Rate limit alerts: the sent alert could not be stored: ${reason}`)
    })
    if (delivery.delivered) this.#sent++
    else this.#failed++
    if (delivery.delivered && !delivery.isEmpty) this.told += claimed.length
    this.error ??= delivery.error
    return { ...delivery, findings: claimed }
  }
}

export interface TellDependencies {
  readonly database: Database
  readonly clock: Clock
  readonly log: AlertLog
}

/**
 * Tells each channel, all at once, and stores what came of it. Never rejects: a failure is the `error` of a channel, and the
 * others are told.
 *
 * @param report tells of failures; it is called for every channel
 */
export async function tellChannels(
  { log, ...dependencies }: TellDependencies,
  kind: AlertKind,
  channels: readonly AlertChannel[],
  tell: (sender: Sender) => Promise<unknown>,
  { signal, report = logFailure }: { signal?: AbortSignal | undefined; report?: typeof logFailure } = {},
): Promise<Sender[]> {
  const senders = channels.map((channel) => new Sender(channel, log, signal))
  await Promise.all(
    senders.map(async (sender) => {
      await tell(sender).catch((error: unknown) => {
        sender.error = errorMessage(error)
      })
      report(sender, log)
    }),
  )
  await recordRuns({ ...dependencies, log }, kind, senders)
  return senders
}

function logFailure({ channel: { name }, error }: Sender, log: AlertLog): void {
  if (error !== undefined) log.error({ channel: name }, `Rate limit alert by ${name} failed: ${error}`)
}
