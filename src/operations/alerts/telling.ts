/** The messages of one channel in a run. */
import { errorMessage } from '../../ground/errors.js'
import { type AlertChannel, deliver } from './channel.js'
import type { FactsMessage } from './facts-message.js'
import type { IncidentMemory, IncidentNews } from './incident-memory.js'
import type { AlertLog } from './notify.js'

/** The most messages at once: more help nobody. The next run tells of the others. */
export const MAX_TOLD = 20
/** A channel that is away must not hold up the run, and one message that is refused not the others. */
const MAX_FAILED = 3

/** Sends messages through one channel, each that no other run sends. */
export class Telling {
  readonly #channel: AlertChannel
  readonly #log: AlertLog
  readonly #signal: AbortSignal | undefined
  #failed = 0
  told = 0
  /** The reason why the first message failed, without secrets; undefined where none did. */
  error: string | undefined

  /** @param signal ends the run before the next message */
  constructor(channel: AlertChannel, log: AlertLog, signal?: AbortSignal) {
    this.#channel = channel
    this.#log = log
    this.#signal = signal
  }

  get hasEnded(): boolean {
    return this.told === MAX_TOLD || this.#failed === MAX_FAILED || this.#signal?.aborted === true
  }

  /**
   * Sends a message, unless another run has sent it or is about to.
   *
   * @param id of what it tells of
   * @param also what else the message tells
   */
  async tell(
    memory: IncidentMemory,
    id: string,
    what: IncidentNews,
    message: FactsMessage,
    also: readonly IncidentNews[] = [],
  ): Promise<void> {
    const claim = await memory.claim(id, what)
    if (claim === undefined) return
    const { delivered, error } = await deliver(this.#channel, message)
    await claim.settle(delivered ? [what, ...also.filter((each) => each !== what)] : []).catch((failure: unknown) => {
      const reason = errorMessage(failure)
      this.#log.error({ err: failure }, `Rate limit alerts: the sent alert could not be stored: ${reason}`)
    })
    if (delivered) this.told++
    else this.#failed++
    this.error ??= error
  }
}
